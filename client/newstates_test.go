package client

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// TestUX05ADriverDecidesByTheFlagWhetherAnExecutorHasEnded: the leader is of a later release and has states that this build
// does not know. One that has ended is forgotten, so that its absence from the next list says nothing new; one that has not
// is missed there.
func TestUX05ADriverDecidesByTheFlagWhetherAnExecutorHasEnded(t *testing.T) {
	t.Parallel()
	fc, a, rec := newFakeCluster(), newApp(), newRecorder()
	m1, m2 := fc.master(t, a.serve), fc.master(t, a.serve)
	fc.setLeader(m1.addr)
	a.list, a.index = []model.DriverExecutor{executor(0, model.ExecutorRunning, 1), executor(1, "DREAMING", 2)}, 2
	run(t, newClient(t, Config{Masters: []string{m2.addr}}), DriverConfig{Handler: rec})
	await(t, a.sessions, "a session")
	if got := []model.DriverExecutor{rec.next(t), rec.next(t)}; !cmp.Equal(got, a.list) || got[1].Ended() {
		t.Fatalf("told of %+v", got)
	}
	evicted := executor(0, "EVICTED", 3)
	evicted.Terminal = true
	a.push <- model.DriverDown{Change: &evicted}
	if got := rec.next(t); !cmp.Equal(got, evicted) || !got.Ended() {
		t.Fatalf("told of %+v", got)
	}

	a.mu.Lock()
	a.list, a.index = nil, 6
	a.mu.Unlock()
	fc.setLeader(m2.addr)
	m1.stop()
	await(t, a.sessions, "a session with the new leader")
	if got := rec.next(t); got.ID != 1 || got.State != model.ExecutorLost || !got.Ended() {
		t.Fatalf("told of %+v, want the loss of executor 1", got)
	}
	if len(rec.changes) != 0 {
		t.Fatalf("told once more: %+v", <-rec.changes)
	}
}

// TestUX05AnExecutorInAStateOfALaterReleaseIsConfirmed: the leader learns that the driver has it, after a change of leader
// too; a driver that took every name that it does not know for that of a running executor would never say so.
func TestUX05AnExecutorInAStateOfALaterReleaseIsConfirmed(t *testing.T) {
	t.Parallel()
	fc, a, rec := newFakeCluster(), newApp(), newRecorder()
	m1, m2 := fc.master(t, a.serve), fc.master(t, a.serve)
	fc.setLeader(m1.addr)
	a.list, a.index = []model.DriverExecutor{executor(0, "UNPACKING", 1)}, 1
	d, _ := run(t, newClient(t, Config{Masters: []string{m2.addr}}), DriverConfig{Handler: rec})
	await(t, a.sessions, "a session")
	rec.next(t)
	d.Confirm(0)
	await(t, a.confirms, "the word that the driver has it")

	further := executor(0, "UNPACKED", 2)
	a.push <- model.DriverDown{Change: &further}
	rec.next(t)
	fc.setLeader(m2.addr)
	m1.stop()
	await(t, a.sessions, "a session with the new leader")
	if got := await(t, a.confirms, "the word once more"); len(got) != 1 || got[0] != 0 {
		t.Fatalf("confirmed %v, want executor 0", got)
	}
}
