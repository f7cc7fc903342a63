package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// TestSelectionPolicies is case 24 (SPARK-46881): two executors of two cores.
func TestSelectionPolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy       model.SelectionPolicy
		spread, pack string
	}{
		{model.CoresFreeAsc, "a 10001=2, a 10002=2", "a 10001=2, a 10001=2"},
		{model.CoresFreeDesc, "a 10003=2, a 10002=2", "a 10003=2, a 10003=2"},
		{model.MemoryFreeAsc, "a 10001=2, a 10003=2", "a 10001=2, a 10001=2"},
		{model.MemoryFreeDesc, "a 10002=2, a 10003=2", "a 10002=2, a 10002=2"},
		{model.ByWorkerID, "a 10001=2, a 10002=2", "a 10001=2, a 10001=2"},
	} {
		for spread, want := range map[bool]string{true: tc.spread, false: tc.pack} {
			name := string(tc.policy) + " consolidated"
			if spread {
				name = string(tc.policy) + " spread out"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newCluster(func(s *model.Settings) { s.WorkerSelectionPolicy, s.SpreadOutApps = tc.policy, spread })
				c.worker("10001", 5, 1280, 0)
				c.worker("10002", 6, 5120, 0)
				c.worker("10003", 7, 3840, 0)
				c.app("a", 4, model.Profile{Cores: 2, MemoryMiB: 128})
				if diff := cmp.Diff(want, show(Plan(c, Options{}))); diff != "" {
					t.Errorf("plan (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	size := func(cores int, memoryMiB int64) model.Profile {
		return model.Profile{Cores: cores, MemoryMiB: memoryMiB}
	}
	for _, tc := range []struct {
		name  string
		setup func() *cluster
		opt   Options
		want  string
	}{
		{"case 28: equal workers go by descending id, and the first gets the odd core", func() *cluster {
			c := newCluster()
			c.equalWorkers(3, 8, 8192)
			c.app("a", 10, size(0, 1024))
			return c
		}, Options{}, "a w3=4, a w2=3, a w1=3"},
		{"case 30: ids follow the workers' order, not the rounds", func() *cluster {
			c := newCluster()
			unequalWorkers(c)
			c.app("a", 16, size(4, 1024))
			return c
		}, Options{}, "a w3=4, a w3=4, a w2=4, a w1=4"},
		{"case 31: consolidated, the largest worker takes all", func() *cluster {
			c := newCluster(pack)
			unequalWorkers(c)
			c.app("a", 16, size(4, 1024))
			return c
		}, Options{}, "a w3=4, a w3=4, a w3=4, a w3=4"},
		{"case 33: an executor larger than the application may have is never placed", func() *cluster {
			c := newCluster()
			c.equalWorkers(1, 8, 8192)
			c.app("a", 3, size(4, 1024))
			return c
		}, Options{}, ""},
		{"case 34: cores below one executor stay idle", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 3, 8192)
			c.app("a", 0, size(2, 1024))
			return c
		}, Options{}, "a w2=2, a w1=2"},
		{"case 35: the first application takes everything and the second waits", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.app("a", 0, size(0, 1024))
			c.app("b", 0, size(0, 1024))
			return c
		}, Options{}, "a w2=8, a w1=8"},
		{"case 37: an application that does not fit holds nobody up", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 4096)
			c.app("a", 0, size(0, 8192))
			c.app("b", 4, size(2, 1024))
			return c
		}, Options{}, "b w2=2, b w1=2"},
		{"case 38: the cluster's default bounds an application without a maximum", func() *cluster {
			c := newCluster(func(s *model.Settings) { s.DefaultCores = 5 })
			c.equalWorkers(2, 8, 8192)
			c.app("a", 0, size(0, 1024))
			return c
		}, Options{}, "a w2=3, a w1=2"},
		{"case 40: without a size memory is asked once per worker", func() *cluster {
			c := newCluster()
			c.worker("w1", 8, 1024, 0)
			c.worker("w2", 8, 512, 0)
			c.app("a", 0, size(0, 1024))
			return c
		}, Options{}, "a w1=8"},
		{"case 43: addresses are whole and taken first free in order", func() *cluster {
			c := newCluster()
			c.worker("w1", 16, 65536, 4)
			c.worker("w2", 16, 65536, 2)
			c.worker("w3", 16, 65536, 0)
			c.app("a", 0, model.Profile{Cores: 2, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}})
			return c
		}, Options{}, "a w2=2[0], a w2=2[1], a w1=2[0], a w1=2[1], a w1=2[2], a w1=2[3]"},
		{"addresses in use are left alone", func() *cluster {
			c := newCluster()
			c.worker("w1", 16, 65536, 4)
			c.used["w1"] = model.Usage{Cores: 2, MemoryMiB: 1024, Resources: model.Resources{"gpu": {"1"}}}
			c.app("a", 0, model.Profile{Cores: 2, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}})
			return c
		}, Options{}, "a w1=2[0], a w1=2[2], a w1=2[3]"},
		{"four workers of 16 hold three executors of 16 when 48 cores are allowed", func() *cluster {
			c := newCluster()
			c.equalWorkers(4, 16, 65536)
			c.app("a", 48, size(16, 1024))
			return c
		}, Options{}, "a w4=16, a w3=16, a w2=16"},
		{"the same holds when consolidated", func() *cluster {
			c := newCluster(pack)
			c.equalWorkers(4, 16, 65536)
			c.app("a", 48, size(16, 1024))
			return c
		}, Options{}, "a w4=16, a w3=16, a w2=16"},
		{"a blocked application gets nothing and the next one is served", func() *cluster {
			c := newCluster()
			c.equalWorkers(1, 8, 8192)
			c.app("a", 0, size(0, 1024))
			c.app("b", 0, size(0, 1024))
			c.blocked["a"] = true
			return c
		}, Options{}, "b w1=8"},
		{"an excluded worker is no candidate for that application only", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.app("a", 4, size(0, 1024))
			c.app("b", 4, size(0, 1024))
			c.exclude("a", "w2")
			return c
		}, Options{}, "a w1=4, b w2=2, b w1=2"},
		{"an application excluded from every worker does not spoil its shape for others", func() *cluster {
			c := newCluster()
			c.equalWorkers(1, 8, 8192)
			c.app("a", 4, size(4, 1024))
			c.app("b", 4, size(4, 1024))
			c.exclude("a", "w1")
			return c
		}, Options{}, "b w1=4"},
		{"a worker that the leader cannot reach gets nothing", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.app("a", 0, size(0, 1024))
			return c
		}, Options{WorkerBlocked: func(w model.WorkerID) bool { return w == "w2" }}, "a w1=8"},
		{"a worker that is not alive gets nothing", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.workers[0].State = model.WorkerUnreachable
			c.app("a", 0, size(0, 1024))
			return c
		}, Options{}, "a w2=8"},
		{"ids compare as strings", func() *cluster {
			c := newCluster(func(s *model.Settings) { s.WorkerSelectionPolicy = model.ByWorkerID })
			c.equalWorkers(10, 1, 8192)
			c.app("a", 2, size(1, 1024))
			return c
		}, Options{}, "a w1=1, a w10=1"},
		{"a worker that offers less than it holds is left alone", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 4, 1024)
			c.used["w1"] = model.Usage{Cores: 6, MemoryMiB: 512}
			c.used["w2"] = model.Usage{Cores: 2, MemoryMiB: 2048}
			c.app("a", 0, size(0, 256))
			return c
		}, Options{}, ""},
		{"completions that are in are not wanted again", func() *cluster {
			c := newCluster()
			c.equalWorkers(1, 8, 8192)
			a := c.app("a", 0, size(1, 1024))
			a.Spec.Kind = model.AppKindCommand
			a.Spec.Completions, a.Completed, a.Live[0], a.CoresGranted = 5, 2, 1, 1
			return c
		}, Options{}, "a w1=1, a w1=1"},
		{"the bound of a plan stops before a profile that would be split", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.app("a", 2, size(1, 256))
			c.app("b", 4, size(1, 256))
			c.app("c", 1, size(1, 256))
			return c
		}, Options{MaxPlacements: 4}, "a w2=1, a w1=1"},
		{"a profile above the bound by itself is cut after a whole round", func() *cluster {
			c := newCluster()
			c.equalWorkers(2, 8, 8192)
			c.app("a", 8, size(1, 256))
			return c
		}, Options{MaxPlacements: 5}, "a w2=1, a w2=1, a w1=1, a w1=1"},
		{"the first round is never cut", func() *cluster {
			c := newCluster()
			c.equalWorkers(3, 8, 8192)
			c.app("a", 8, size(1, 256))
			return c
		}, Options{MaxPlacements: 2}, "a w3=1, a w2=1, a w1=1"},
		{"consolidated, a profile above the bound is cut after a whole worker", func() *cluster {
			c := newCluster(pack)
			c.equalWorkers(3, 3, 8192)
			c.app("a", 8, size(1, 256))
			return c
		}, Options{MaxPlacements: 5}, "a w3=1, a w3=1, a w3=1"},
		{"the first worker is never cut", func() *cluster {
			c := newCluster(pack)
			c.equalWorkers(2, 3, 8192)
			c.app("a", 8, size(1, 256))
			return c
		}, Options{MaxPlacements: 2}, "a w2=1, a w2=1, a w2=1"},
		{"executors without a size are never cut", func() *cluster {
			c := newCluster()
			c.equalWorkers(3, 8, 8192)
			c.app("a", 7, size(0, 256))
			return c
		}, Options{MaxPlacements: 2}, "a w3=3, a w2=2, a w1=2"},
		{"a plan that meets its bound exactly ends there", func() *cluster {
			c := newCluster()
			c.equalWorkers(1, 8, 8192)
			c.app("a", 2, size(1, 256))
			c.app("b", 2, size(1, 256))
			return c
		}, Options{MaxPlacements: 2}, "a w1=1, a w1=1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, show(Plan(tc.setup(), tc.opt))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func unequalWorkers(c *cluster) {
	c.worker("w1", 4, 65536, 0)
	c.worker("w2", 8, 65536, 0)
	c.worker("w3", 16, 65536, 0)
}

func TestPlacementsCarryTheWorkersIncarnationAndNoSecret(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.worker("w1", 4, 4096, 1)
	c.workers[0].Incarnation = 7
	c.app("a", 0, model.Profile{Cores: 4, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}})
	want := []model.Placement{{
		App: "a", Worker: "w1", Incarnation: 7, Cores: 4, MemoryMiB: 1024,
		Resources: model.Resources{"gpu": {"0"}},
	}}
	if diff := cmp.Diff(want, Plan(c, Options{})); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// Cases 25 and 26: five profiles on three workers of 2 cores and 512 MiB.
func TestProfilesAreServedByAscendingID(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		coresMax int
		want     map[int]int
	}{
		{"case 25: without a maximum four executors fit", 0, map[int]int{0: 1, 3: 1, 4: 2}},
		{"case 26: with four cores the last profile gets one", 4, map[int]int{0: 1, 3: 1, 4: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.equalWorkers(3, 2, 512)
			a := c.app("a", tc.coresMax, model.Profile{MemoryMiB: 128})
			a.Targets[0] = 0
			if plan := c.pass(); len(plan) != 0 {
				t.Fatalf("with target 0 the plan is %s, want nothing", show(plan))
			}
			a.Profiles[1] = model.Profile{Cores: 3, MemoryMiB: 256}
			a.Profiles[2] = model.Profile{Cores: 1, MemoryMiB: 1024}
			a.Profiles[3] = model.Profile{Cores: 1, MemoryMiB: 256}
			a.Profiles[4] = model.Profile{Cores: 1, MemoryMiB: 256}
			a.Targets = map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 2}
			got := map[int]int{}
			for _, p := range c.pass() {
				got[p.Profile]++
				if p.Profile == 0 && p.Cores != 2 {
					t.Errorf("the default profile's executor has %d cores, want 2", p.Cores)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("executors per profile (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatOneApplicationFreesGoesToTheNext(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(4, 8, 65536)
	c.app("one", 4, model.Profile{Cores: 4, MemoryMiB: 1024})
	c.app("two", 24, model.Profile{Cores: 6, MemoryMiB: 1024})
	if diff := cmp.Diff("one w4=4, two w3=6, two w2=6, two w1=6", show(c.pass())); diff != "" {
		t.Errorf("first pass (-want +got):\n%s", diff)
	}
	if plan := c.pass(); len(plan) != 0 {
		t.Errorf("a second pass placed %s, want nothing", show(plan))
	}
	c.end("one", -1)
	c.find("one").State = model.AppFinished
	if diff := cmp.Diff("two w4=6", show(c.pass())); diff != "" {
		t.Errorf("after the first application ended (-want +got):\n%s", diff)
	}
}

func TestAPlanLeavesTheViewAlone(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.worker("w1", 16, 65536, 4)
	used := model.Resources{"gpu": append(make([]string, 0, 8), "1")}
	c.used["w1"] = model.Usage{Cores: 1, MemoryMiB: 1, Resources: used}
	c.app("a", 0, model.Profile{Cores: 2, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}})
	first := show(Plan(c, Options{}))
	if diff := cmp.Diff(model.Resources{"gpu": {"1"}}, used); diff != "" {
		t.Errorf("the view's usage changed (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(first, show(Plan(c, Options{}))); diff != "" {
		t.Errorf("the same view gave another plan (-first +second):\n%s", diff)
	}
}

// countingView fails the test if a pass looks at workers.
type countingView struct {
	*cluster
	t *testing.T
}

func (v countingView) SchedulableWorkers(func(*model.Worker, model.Usage) bool) {
	v.t.Error("the pass looked at workers although no application wants anything")
}

func TestNobodyLooksAtWorkersWhenNothingIsWanted(t *testing.T) {
	t.Parallel()
	c := newCluster()
	c.equalWorkers(3, 8, 8192)
	served := c.app("served", 0, model.Profile{Cores: 1, MemoryMiB: 1})
	served.Targets[0], served.Live[0] = 3, 3
	full := c.app("full", 4, model.Profile{Cores: 2, MemoryMiB: 1})
	full.CoresGranted = 3
	c.app("blocked", 0, model.Profile{Cores: 1, MemoryMiB: 1})
	c.blocked["blocked"] = true
	if plan := Plan(countingView{c, t}, Options{}); len(plan) != 0 {
		t.Errorf("plan = %s, want nothing", show(plan))
	}
}
