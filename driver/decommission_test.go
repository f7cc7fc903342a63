package driver

import (
	"errors"
	"slices"
	"testing"

	"github.com/hearthd/hearth/model"
)

func decommissioning(id model.ExecutorID) model.DriverExecutor {
	return model.DriverExecutor{ID: id, Cores: 1, State: model.ExecutorDecommissioning, Secret: secretOf(id)}
}

func TestAnExecutorOnADrainedWorkerWorksUntilThereIsAnotherAndThenEndsWhenItIsIdle(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	addr := r.address()
	r.cluster.place(0, 1)
	old := r.join(addr, 0)
	r.submit("first")
	first := old.tasks(1)[0]
	r.cluster.announce(decommissioning(0))
	eventually(t, "the driver knows", func() error {
		spared := false // it is all there is
		err := r.call(t.Context(), func(l *loop) { spared = l.members[0].decommissioning() && !l.members[0].leaving() })
		if err == nil && !spared {
			err = errors.New("not yet")
		}
		return err
	})
	old.report(done(first))
	r.result()
	r.submit("second")
	second := old.tasks(1)[0]
	if killed := locked(r.cluster, func() []model.ExecutorID { return r.cluster.killed }); len(killed) > 0 {
		t.Fatalf("%v were ended before there was another", killed)
	}

	r.cluster.place(1, 1)
	fresh := r.join(addr, 1)
	eventually(t, "the old one is to go", func() error {
		for _, e := range r.Executors(t.Context()) {
			if e.ID == 0 && e.State == ExecutorLeaving {
				return nil
			}
		}
		return errors.New("not yet")
	})
	r.submit("third")
	fresh.tasks(1)
	if killed := locked(r.cluster, func() []model.ExecutorID { return r.cluster.killed }); len(killed) > 0 {
		t.Fatalf("%v were ended with a task", killed)
	}
	old.report(done(second))
	eventually(t, "the old one is ended", func() error {
		if killed := locked(r.cluster, func() []model.ExecutorID { return r.cluster.killed }); !slices.Equal(killed, []model.ExecutorID{0}) {
			return errors.New("not yet")
		}
		return nil
	})
}
