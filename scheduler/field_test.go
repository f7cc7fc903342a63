package scheduler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// Cores handed out one at a time would be 12 on each worker, and no executor
// of 16 would fit into them.
func TestSC07FortyEightCoresAreThreeExecutorsOfSixteenOnFourWorkers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*model.Settings){
		"spread out":   func(*model.Settings) {},
		"consolidated": pack,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, policy := range model.SelectionPolicies() {
				c := newCluster(change, func(s *model.Settings) { s.WorkerSelectionPolicy = policy })
				c.equalWorkers(4, 16, 65536)
				c.app("a", 48, model.Profile{Cores: 16, MemoryMiB: 1024})
				plan := c.pass()
				if len(plan) != 3 {
					t.Errorf("%s: the plan is %s, want three executors", policy, show(plan))
				}
				workers := map[model.WorkerID]bool{}
				for _, p := range plan {
					workers[p.Worker] = true
					if p.Cores != 16 {
						t.Errorf("%s: %+v has not 16 cores", policy, p)
					}
				}
				if len(workers) != 3 {
					t.Errorf("%s: the plan is %s, want three workers", policy, show(plan))
				}
				if again := c.pass(); len(again) != 0 {
					t.Errorf("%s: a second pass placed %s, want nothing", policy, show(again))
				}
			}
		})
	}
}

func TestSC08AnExecutorWithoutASizeGetsAllCoresWhateverMemoryItNeeds(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*model.Settings){func(*model.Settings) {}, pack} {
		c := newCluster(change)
		c.equalWorkers(1, 10, 4096)
		c.app("a", 0, model.Profile{MemoryMiB: 3072})
		if diff := cmp.Diff("a w1=10", show(c.pass())); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
	}
}

// With a cap two applications without a limit both get executors; without one
// the first takes everything, as in Spark.
func TestSC11ACapLeavesRoomForTheSecondApplication(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		defaults int
		want     string
	}{
		{"without a cap", 0, "a w2=8, a w1=8"},
		{"with a cap of half", 8, "a w2=4, a w1=4, b w2=4, b w1=4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(func(s *model.Settings) { s.DefaultCores = tc.defaults })
			c.equalWorkers(2, 8, 8192)
			c.app("a", 0, model.Profile{MemoryMiB: 1024})
			c.app("b", 0, model.Profile{MemoryMiB: 1024})
			if diff := cmp.Diff(tc.want, show(c.pass())); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// What is lost is replaced up to the target, which nothing of it changes.
func TestSC18LostExecutorsAreReplacedUpToTheTarget(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(2, 8, 8192)
	a := c.app("a", 0, model.Profile{Cores: 2, MemoryMiB: 1024})
	a.Targets[0] = 4
	c.pass()
	ix := NewIndex()
	ix.Plan(c, Changes{}, Options{})
	for _, lost := range []int{1, 3} {
		names := Changes{Apps: []model.AppID{"a"}}
		for _, p := range c.running["a"][:lost] {
			names.Workers = append(names.Workers, p.Worker)
		}
		c.end("a", lost)
		plan := ix.Plan(c, names, Options{})
		if len(plan) != lost {
			t.Errorf("after %d were lost the plan is %s", lost, show(plan))
		}
		c.apply(plan)
		if a.Live[0] != 4 || a.Targets[0] != 4 {
			t.Errorf("%d live, target %d, want 4 and 4", a.Live[0], a.Targets[0])
		}
	}
}

// A thousand applications that wait for the same size cost one look at the
// workers, and none when nothing has been freed that they could use.
func TestApplicationsThatWaitForOneSizeAreNotLookedAtOneByOne(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(100, 8, 8192)
	for i := range 1000 {
		c.app(fmt.Sprintf("a%d", i), 0, model.Profile{Cores: 9, MemoryMiB: 1024})
	}
	asked := 0
	opt := Options{AppHeld: func(model.AppID) bool { asked++; return false }}
	ix := NewIndex()
	ix.Plan(c, Changes{}, opt)
	if asked != 1 {
		t.Errorf("the first pass looked at %d applications, want 1", asked)
	}
	asked = 0
	ix.Plan(c, Changes{Workers: []model.WorkerID{"w1"}}, opt)
	if asked != 1 {
		t.Errorf("a pass after a change of one worker looked at %d applications, want 1", asked)
	}
}

// However many workers there are, a decision meets as many as it gives
// something to, even if most that come first in order lack the memory.
func TestADecisionMeetsOnlyTheWorkersThatItGivesSomethingTo(t *testing.T) {
	t.Parallel()
	for _, policy := range model.SelectionPolicies() {
		c := newCluster(func(s *model.Settings) { s.WorkerSelectionPolicy = policy })
		for i := range 5000 {
			memory := int64(512)
			if i%100 == 7 {
				memory = 65536
			}
			c.workers = append(c.workers, &model.Worker{
				ID: model.WorkerID(fmt.Sprintf("w%04d", i)), State: model.WorkerAlive,
				Offer: model.Offer{Cores: 8 + i%16, MemoryMiB: memory},
			})
		}
		a := c.app("a", 0, model.Profile{Cores: 2, MemoryMiB: 4096})
		a.Targets[0] = 3
		met := 0
		plan := Plan(c, Options{WorkerBlocked: func(model.WorkerID) bool { met++; return false }})
		if len(plan) != 3 || met != 3 {
			t.Errorf("%s: %d workers were met for %d executors, want 3 for 3", policy, met, len(plan))
		}
	}
}
