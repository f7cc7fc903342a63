package fsm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// keyed is a registration with the public key that consists of one byte, "" =
// without one.
func keyed(id, addr, key string) *replogv1.Command {
	c := regMaster(id, addr)
	c.GetRegisterMaster().Master.Key = []byte(strings.Repeat(key, model.MasterKeyBytes))
	return c
}

// The key by which a master proves itself is set once, by whoever registers it
// first (ADR 0040): afterwards a registration with another one changes nothing,
// one without it keeps it, and neither a restart nor the removal of the master
// makes room for another. What has lost its key is another master, under a new
// id on the same address.
func TestTheKeyOfAMasterNeverChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	is := func(id model.MasterID, addr, key string) {
		t.Helper()
		m, ok := w.v().Master(id)
		if !ok || m.GRPCAddr != addr || m.Key != strings.Repeat(key, model.MasterKeyBytes) {
			t.Fatalf("master %s is %+v, want it at %s with the key %q", id, m, addr, key)
		}
	}
	w.must(regMaster("m1", "a:1")) // from before there were keys
	is("m1", "a:1", "")
	w.must(keyed("m1", "a:1", "k"))
	is("m1", "a:1", "k")

	hash := w.v().HashString()
	w.refused(keyed("m1", "b:1", "x"), model.RejectInvalid)
	short := keyed("m1", "b:1", "k")
	short.GetRegisterMaster().Master.Key = []byte("short")
	w.refused(short, model.RejectInvalid)
	if w.v().HashString() != hash {
		t.Error("a refused registration changed something")
	}
	is("m1", "a:1", "k")

	w.must(keyed("m1", "b:1", "k")) // it has moved
	w.must(regMaster("m1", "c:1"))  // told by a master that knows no keys
	is("m1", "c:1", "k")

	restored := New()
	if err := restored.Restore(bytes.NewReader(w.snapshot())); err != nil {
		t.Fatal(err)
	}
	w.f = restored
	w.refused(keyed("m1", "c:1", "x"), model.RejectInvalid)

	w.must(removeMaster("m1"))
	w.refused(keyed("m1", "c:1", "x"), model.RejectMasterRemoved)
	w.must(keyed("m2", "c:1", "x"))
	is("m2", "c:1", "x")
	if m, _ := w.v().Master("m1"); !m.Removed || m.Key != strings.Repeat("k", model.MasterKeyBytes) {
		t.Errorf("the removed master is %+v, want it removed and with its key", m)
	}
}
