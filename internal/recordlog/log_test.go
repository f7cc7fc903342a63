package recordlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testFormat() Format { return Format{Header: "records of a test 1\n", Limit: 1 << 10} }

func create(t *testing.T, path string, payloads ...string) *Log {
	t.Helper()
	l, err := Create(path, testFormat(), bytesOf(payloads)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func bytesOf(payloads []string) (out [][]byte) {
	for _, p := range payloads {
		out = append(out, []byte(p))
	}
	return out
}

func read(t *testing.T, path string) (payloads []string, note string) {
	t.Helper()
	note, err := Read(path, testFormat(), func(p []byte) error {
		if string(p) == "refuse me" {
			return errors.New("refused")
		}
		payloads = append(payloads, string(p))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return payloads, note
}

func TestARecordIsInTheFileBeforeItIsOnTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l := create(t, path, "first")
		var syncs atomic.Int32
		l.sync = func(*os.File) error { syncs.Add(1); return nil }
		for range 100 { // of one moment: they share a sync
			if err := l.Append([]byte("a"), []byte("b")); err != nil {
				t.Fatal(err)
			}
		}
		if got, note := read(t, path); len(got) != 201 || got[0] != "first" || note != "" || syncs.Load() != 0 {
			t.Errorf("before any sync: %d records, note %q, %d syncs; want 201, none and 0", len(got), note, syncs.Load())
		}
		time.Sleep(SyncDelay)
		synctest.Wait()
		if got := syncs.Load(); got != 1 {
			t.Errorf("%d syncs of what was written together, want 1", got)
		}
		time.Sleep(time.Hour)
		if got := syncs.Load(); got != 1 {
			t.Errorf("%d syncs although nothing was written, want 1", got)
		}
		if err := errors.Join(l.Append([]byte("c")), l.Close(), l.Close()); err != nil || syncs.Load() != 2 {
			t.Errorf("after the close: %v, %d syncs; want the last record synced", err, syncs.Load())
		}
		if err := l.Append([]byte("d")); err == nil {
			t.Error("a closed file takes records")
		}
	})
}

func TestAfterAFailedSyncNothingIsTakenBeforeAllIsWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		l := create(t, path)
		l.sync = func(*os.File) error { return errors.New("no such disk") }
		if err := l.Append([]byte("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(SyncDelay)
		synctest.Wait()
		if _, _, broken := l.Size(); !broken || l.Append([]byte("b")) == nil {
			t.Error("the file takes records whose predecessors may be lost")
		}
		l.sync = datasync
		if err := l.Rewrite([]byte("a"), []byte("b")); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.Append([]byte("c")), l.Close()); err != nil {
			t.Fatal(err)
		}
		if got, note := read(t, path); !slices.Equal(got, []string{"a", "b", "c"}) || note != "" {
			t.Errorf("%v, note %q", got, note)
		}
	})
}

func TestASyncThatHangsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := create(t, filepath.Join(t.TempDir(), "log"))
		hang := make(chan struct{})
		l.sync = func(*os.File) error { <-hang; return nil }
		if err := l.Append([]byte("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(SyncDelay + time.Second)
		if l.Stuck(time.Second) != nil {
			t.Error("called stuck after just the patience")
		}
		time.Sleep(time.Millisecond)
		ended := l.Stuck(time.Second)
		if ended == nil {
			t.Fatal("a sync that takes longer than the patience is not seen")
		}
		if err := l.Append([]byte("b")); err != nil { // the file itself takes more
			t.Fatal(err)
		}
		close(hang)
		<-ended
		synctest.Wait()
		if l.Stuck(0) != nil {
			t.Error("still called stuck")
		}
	})
}

func TestARewriteDuringASyncIsNotBrokenByItsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := create(t, filepath.Join(t.TempDir(), "log"))
		hang := make(chan struct{})
		l.sync = func(*os.File) error { <-hang; return errors.New("late") }
		if err := l.Append([]byte("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(SyncDelay)
		synctest.Wait()
		if err := l.Rewrite([]byte("a")); err != nil {
			t.Fatal(err)
		}
		close(hang)
		synctest.Wait()
		l.sync = datasync
		if err := l.Append([]byte("b")); err != nil {
			t.Errorf("what was rewritten is on the disk, and yet: %v", err)
		}
	})
}

// Wherever writing ends, and whatever of the rest is zeros, the records before are read.
func TestATailThatIsCutShortOrZerosLosesOnlyItself(t *testing.T) {
	whole := []byte(testFormat().Header)
	ends := []int{len(whole)}
	want := []string{"one", "two", strings.Repeat("three", 20)}
	for _, p := range want {
		var err error
		if whole, err = AppendFrame(whole, []byte(p), testFormat().Limit); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(whole))
	}
	for n := ends[0]; n <= len(whole); n++ {
		complete := 0
		for i, end := range ends {
			if n >= end {
				complete = i
			}
		}
		for _, zeros := range []int{0, 1, FrameBytes, 4096} {
			path := filepath.Join(t.TempDir(), "log")
			b := append(bytes.Clone(whole[:n]), make([]byte, zeros)...)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			got, note := read(t, path)
			if !slices.Equal(got, want[:complete]) || strings.Contains(note, "damaged") {
				// A payload whose last bytes are zeros by chance is none of these.
				t.Fatalf("cut at %d with %d zeros: %v, note %q; want the first %d", n, zeros, got, note, complete)
			}
		}
	}
}

func TestDamageInTheMiddleIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path, "one", "refuse me", "three")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, note := read(t, path)
	if !slices.Equal(got, []string{"one"}) || !strings.Contains(note, "damaged") {
		t.Errorf("%v, note %q", got, note)
	}
	if _, err := os.Stat(path + DamagedSuffix); err != nil {
		t.Error(err)
	}
	if got, note := read(t, path); len(got) != 0 || note != "" {
		t.Errorf("a missing file: %v, note %q", got, note)
	}
}

func TestRecordsOutsideTheLimitsAreRefusedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path)
	if l.Append([]byte("fine"), make([]byte, testFormat().Limit+1)) == nil || l.Append(nil) == nil {
		t.Error("a record that is too long, or empty, was taken")
	}
	if got, _ := read(t, path); len(got) != 0 {
		t.Errorf("%v is in the file", got)
	}
}

func FuzzScan(f *testing.F) {
	b := []byte(testFormat().Header)
	f.Add(bytes.Clone(b))
	b, _ = AppendFrame(b, []byte("one"), 1<<10)
	f.Add(bytes.Clone(b))
	f.Add(b[:len(b)-1])
	f.Add([]byte{})
	f.Add(append(bytes.Clone(b), 0, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var payloads [][]byte
		valid, err := Scan(b, testFormat(), func(p []byte) error {
			payloads = append(payloads, p)
			return nil
		})
		if valid > len(b) || (err == nil && valid != len(b)) {
			t.Fatalf("valid to %d of %d, error %v", valid, len(b), err)
		}
		again := []byte(testFormat().Header)
		for _, p := range payloads {
			if again, err = AppendFrame(again, p, testFormat().Limit); err != nil {
				t.Fatal(err)
			}
		}
		if valid > 0 && !bytes.Equal(again, b[:valid]) {
			t.Fatal("what was read is not what is there")
		}
	})
}
