package fsm

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzApply: whatever is in an entry, it is applied with every invariant
// intact and the result survives a snapshot, or it is refused as broken with
// nothing changed. It never panics.
func FuzzApply(f *testing.F) {
	var base bytes.Buffer
	if _, err := furnished(f).f.Snapshot().WriteTo(&base); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, entry []byte) {
		x := New(CheckInvariants())
		if err := x.Restore(bytes.NewReader(base.Bytes())); err != nil {
			t.Fatal(err)
		}
		before := x.View()
		for i := range uint64(2) { // the second time as a repeat
			if _, err := x.Apply(before.Index()+1+i, entry); err != nil {
				// decodeBatch may refuse; a broken invariant is our own fault.
				if _, undecodable := decodeBatch(entry); undecodable == nil || !errors.Is(err, ErrBroken) {
					t.Fatal(err)
				}
				if x.View().Hash() != before.Hash() {
					t.Fatal("a refused entry changed the state")
				}
				return
			}
		}
		var out bytes.Buffer
		if _, err := x.Snapshot().WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		if err := New().Restore(&out); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzRestore: a snapshot is restored whole or refused with nothing changed.
// The checksum is not known to the fuzzer, so it is put right for it.
func FuzzRestore(f *testing.F) {
	var good bytes.Buffer
	if _, err := furnished(f).f.Snapshot().WriteTo(&good); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes(), false)
	f.Add(good.Bytes()[:good.Len()-32], true)
	f.Add([]byte(snapshotMagic), true)
	f.Add([]byte(nil), false)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(data)
		}
		x := New()
		err := x.Restore(bytes.NewReader(data))
		switch {
		case err == nil:
			if err := x.View().CheckInvariants(); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, ErrSnapshot):
			t.Fatalf("err = %v, want ErrSnapshot", err)
		case x.View().Index() != 0 || x.View().Hash() != New().View().Hash():
			t.Fatal("a refused snapshot changed the state")
		}
	})
}
