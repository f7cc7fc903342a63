package scheduler

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

// drawCluster draws a small cluster with something wrong in it: full workers,
// ones that hold more than they offer, applications in every situation.
func drawCluster(t *rapid.T) *cluster {
	c := newCluster()
	c.settings = model.Settings{
		SpreadOutApps:         rapid.Bool().Draw(t, "spread"),
		WorkerSelectionPolicy: rapid.SampledFrom(model.SelectionPolicies()).Draw(t, "policy"),
		DefaultCores:          rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "defaultCores"),
	}
	for i := range rapid.IntRange(0, 9).Draw(t, "workers") {
		c.worker(fmt.Sprintf("w%d", i+4), rapid.IntRange(1, 12).Draw(t, "cores"),
			rapid.Int64Range(1, 12).Draw(t, "memory")*256, rapid.IntRange(0, 4).Draw(t, "gpus"))
	}
	for _, w := range c.workers {
		u := model.Usage{
			Cores:     rapid.SampledFrom([]int{0, 0, 1, 3, 14}).Draw(t, "usedCores"),
			MemoryMiB: rapid.SampledFrom([]int64{0, 0, 256, 3000}).Draw(t, "usedMemory"),
		}
		if gpus := w.Offer.Resources["gpu"]; len(gpus) > 0 && rapid.Bool().Draw(t, "gpuUsed") {
			u.Resources = model.Resources{"gpu": {rapid.SampledFrom(gpus).Draw(t, "usedGPU")}}
		}
		c.used[w.ID] = u
		w.Offer.Labels = drawLabels(t, "labels")
		w.State = rapid.SampledFrom([]model.WorkerState{model.WorkerAlive, model.WorkerAlive, model.WorkerUnreachable}).Draw(t, "state")
	}
	drawBeyond(t, c)
	for i := range rapid.IntRange(0, 5).Draw(t, "apps") {
		drawApp(t, c, fmt.Sprintf("a%d", i))
	}
	return c
}

// drawBeyond draws the settings that Spark does not have: most often none.
func drawBeyond(t *rapid.T, c *cluster) {
	if rapid.IntRange(0, 2).Draw(t, "queues") == 0 {
		for _, name := range []string{"a", "b", "default"} {
			if rapid.Bool().Draw(t, "queue") {
				c.settings.Queues = append(c.settings.Queues, model.Queue{
					Name: name, Weight: rapid.IntRange(1, 3).Draw(t, "weight"), Priority: rapid.IntRange(-1, 1).Draw(t, "priority") / 2,
					CapCores: rapid.SampledFrom([]int{0, 0, 2, 5, 9}).Draw(t, "capCores"),
				})
			}
		}
	}
	c.settings.UserCores = rapid.SampledFrom([]int{0, 0, 0, 4, 9}).Draw(t, "userCores")
	c.settings.GangAfterMilli = rapid.SampledFrom([]int64{0, 1}).Draw(t, "gangAfter")
}

// drawLabels draws labels of two names, most often none.
func drawLabels(t *rapid.T, what string) map[string]string {
	if rapid.IntRange(0, 2).Draw(t, what) > 0 {
		return nil
	}
	out := map[string]string{}
	for _, name := range []string{"zone", "disk"} {
		if rapid.Bool().Draw(t, "label") {
			out[name] = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "value")
		}
	}
	return out
}

func drawApp(t *rapid.T, c *cluster, id string) {
	a := c.app(id, rapid.SampledFrom([]int{0, 1, 3, 7, 20}).Draw(t, "coresMax"), model.Profile{})
	for p := range rapid.IntRange(1, 3).Draw(t, "profiles") {
		prof := model.Profile{
			Cores:     rapid.IntRange(0, 4).Draw(t, "size"),
			MemoryMiB: rapid.Int64Range(0, 6).Draw(t, "memory") * 128,
		}
		if rapid.IntRange(0, 3).Draw(t, "wantsGPU") == 0 {
			prof.Resources = map[string]int{"gpu": rapid.IntRange(0, 2).Draw(t, "gpu")}
		}
		a.Profiles[p] = prof
		a.Targets[p] = rapid.IntRange(-1, 6).Draw(t, "target")
		a.Live[p] = rapid.IntRange(0, 2).Draw(t, "live")
	}
	a.Spec.Queue = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "inQueue")
	a.Spec.User = rapid.SampledFrom([]string{"u", "v"}).Draw(t, "user")
	a.Spec.Require, a.Spec.Prefer = drawLabels(t, "require"), drawLabels(t, "prefer")
	if rapid.IntRange(0, 3).Draw(t, "gang") == 0 {
		a.Spec.MinExecutors = rapid.IntRange(1, 5).Draw(t, "minExecutors")
		c.due[a.ID] = rapid.Bool().Draw(t, "due")
	}
	a.CoresGranted = rapid.IntRange(0, 4).Draw(t, "granted")
	c.blocked[a.ID] = rapid.IntRange(0, 5).Draw(t, "blocked") == 0
	for _, w := range c.workers {
		if rapid.IntRange(0, 5).Draw(t, "excluded") == 0 {
			c.exclude(a.ID, w.ID)
		}
	}
}

func drawOptions(t *rapid.T, c *cluster) Options {
	if len(c.workers) == 0 || rapid.Bool().Draw(t, "noneUnreachable") {
		return Options{}
	}
	w := rapid.SampledFrom(c.workers).Draw(t, "unreachable").ID
	return Options{WorkerBlocked: func(id model.WorkerID) bool { return id == w }}
}

func TestThePlanIsThatOfTheRulesReadOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		if rapid.Bool().Draw(t, "withDrivers") {
			drawDrivers(t, c)
		}
		opt := drawOptions(t, c)
		got := NewIndex().Pass(c, Changes{}, opt)
		if diff := cmp.Diff(naivePlan(c, opt), got.Executors, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("plan (-naive +got):\n%s", diff)
		}
		if diff := cmp.Diff(showDrivers(naiveDrivers(c, opt, naiveKept(c))), showDrivers(got.Drivers)); diff != "" {
			t.Fatalf("drivers (-naive +got):\n%s", diff)
		}
	})
}

func TestAPlanNeverExceedsWhatIsAllowed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		opt := drawOptions(t, c)
		opt.MaxPlacements = rapid.SampledFrom([]int{0, 1, 2, 5}).Draw(t, "maxPlacements")
		plan := Plan(c, opt)
		if most := opt.MaxPlacements + len(c.workers)*12; opt.MaxPlacements > 0 && len(plan) > most {
			t.Fatalf("%d placements, the bound is %d", len(plan), opt.MaxPlacements)
		}
		workers := map[model.WorkerID]*model.Worker{}
		for _, w := range c.workers {
			workers[w.ID] = w
		}
		for i, p := range plan {
			checkPlacement(t, c, opt, workers[p.Worker], p)
			c.apply(plan[i : i+1])
		}
	})
}

// checkPlacement checks one placement against the state before it, as whoever
// applies a plan does.
func checkPlacement(t *rapid.T, c *cluster, opt Options, w *model.Worker, p model.Placement) {
	a := c.find(p.App)
	prof := a.Profiles[p.Profile]
	free := model.FreeOf(w.Offer, c.used[w.ID])
	switch {
	case w.State != model.WorkerAlive, opt.WorkerBlocked != nil && opt.WorkerBlocked(w.ID):
		t.Fatalf("%+v: the worker may get nothing", p)
	case c.excluded[a.ID][w.ID], c.blocked[a.ID]:
		t.Fatalf("%+v: the application is blocked or keeps off the worker", p)
	case p.Incarnation != w.Incarnation, p.MemoryMiB != prof.MemoryMiB:
		t.Fatalf("%+v: wrong incarnation or memory", p)
	case prof.Cores > 0 && p.Cores != prof.Cores, p.Cores < 1:
		t.Fatalf("%+v: the profile has %d cores", p, prof.Cores)
	case !model.Fits(free, p.Cores, p.MemoryMiB, prof.Resources):
		t.Fatalf("%+v: does not fit into %+v", p, free)
	case a.Live[p.Profile] >= model.Wanted(a, p.Profile):
		t.Fatalf("%+v: %d live of %d wanted", p, a.Live[p.Profile], model.Wanted(a, p.Profile))
	case c.settings.UserCores > 0 && c.UserCores(a.Spec.User)+p.Cores > c.settings.UserCores:
		t.Fatalf("%+v: the user holds %d cores of %d", p, c.UserCores(a.Spec.User), c.settings.UserCores)
	case len(c.settings.Queues) > 0 && c.settings.Queue(a.Spec.QueueName()).CapCores > 0 &&
		c.QueueCores(a.Spec.QueueName())+p.Cores > c.settings.Queue(a.Spec.QueueName()).CapCores:
		t.Fatalf("%+v: the queue holds %d cores", p, c.QueueCores(a.Spec.QueueName()))
	case !model.HasLabels(w, a.Spec.Require):
		t.Fatalf("%+v: the worker has not the labels that are required", p)
	case p.Profile == 0 && model.GangNeeds(a) > 0 && p.Gang == 0:
		t.Fatalf("%+v: %d of its gang are missing", p, model.GangNeeds(a))
	case p.Cores > coresLeft(a, c.settings):
		t.Fatalf("%+v: the application has %d cores left", p, coresLeft(a, c.settings))
	}
	want, _ := model.TakeAddresses(free, prof.Resources)
	if diff := cmp.Diff(want, p.Resources, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("addresses (-first free +got):\n%s", diff)
	}
}

// After a pass without a bound, a second one finds nothing to place for
// applications whose profiles have a size: nothing useful is left over.
func TestASecondPassFindsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.settings.GangAfterMilli = 0 // what is kept in one pass may be free in the next
		c.apply(Plan(c, Options{}))
		if again := Plan(c, Options{}); len(again) != 0 {
			t.Fatalf("the second pass placed %s", show(again))
		}
	})
}

func TestAssignmentsKeepTheirBudget(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var workers []model.Free
		for range rapid.IntRange(0, 8).Draw(t, "workers") {
			workers = append(workers, model.Free{
				Cores: rapid.IntRange(0, 20).Draw(t, "cores"), MemoryMiB: rapid.Int64Range(0, 1000).Draw(t, "memory"),
			})
		}
		d := Demand{
			Profile:   model.Profile{Cores: rapid.IntRange(0, 5).Draw(t, "size"), MemoryMiB: rapid.Int64Range(0, 500).Draw(t, "memoryEach")},
			CoresLeft: rapid.SampledFrom([]int{0, 3, 11, math.MaxInt}).Draw(t, "left"),
			Wanted:    rapid.SampledFrom([]int{0, 1, 4, math.MaxInt}).Draw(t, "wanted"),
			SpreadOut: rapid.Bool().Draw(t, "spread"),
		}
		total := 0
		for i, got := range AssignCores(workers, d) {
			total += got
			if got > workers[i].Cores || got%d.step() != 0 {
				t.Fatalf("worker %d of %d cores got %d in steps of %d", i, workers[i].Cores, got, d.step())
			}
		}
		if total > d.CoresLeft {
			t.Fatalf("%d cores assigned, %d were left", total, d.CoresLeft)
		}
	})
}
