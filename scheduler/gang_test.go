package scheduler

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// A new leader has no session with any worker for a moment. What its predecessor
// kept for a gang must not go to others because of that.
func TestWhatIsKeptForAGangStaysKeptWhileAWorkerIsBlocked(t *testing.T) {
	t.Parallel()
	for _, blocked := range []model.WorkerID{"", "w1", "w2"} {
		c := newCluster()
		c.settings.GangAfterMilli = 1
		c.equalWorkers(2, 4, 1024)
		c.used["w2"] = model.Usage{Cores: 4}
		gang := c.app("gang", 0, model.Profile{Cores: 1, MemoryMiB: 1})
		gang.Targets[0], gang.Spec.MinExecutors, c.due["gang"] = 6, 6, true
		c.app("late", 0, model.Profile{Cores: 1, MemoryMiB: 1})
		got := Plan(c, Options{WorkerBlocked: func(id model.WorkerID) bool { return id == blocked }})
		if len(got) > 0 {
			t.Errorf("while worker %q is blocked, placed %s", blocked, show(got))
		}
	}
}
