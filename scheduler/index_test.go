package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

// history is a cluster to which things happen, and what of it was named to the
// index since the last pass.
type history struct {
	*cluster
	changed Changes
	blocked map[model.WorkerID]bool // as Options.WorkerBlocked says; never named
	held    map[model.AppID]bool    // as Options.AppHeld says; never named
}

func newHistory(c *cluster) *history {
	return &history{cluster: c, blocked: map[model.WorkerID]bool{}, held: map[model.AppID]bool{}}
}

// The records of a view never change: what happens to one happens to a copy.
func (h *history) editWorker(i int) *model.Worker {
	w := h.workers[i].Clone()
	h.workers[i] = w
	h.changed.Workers = append(h.changed.Workers, w.ID)
	return w
}

func (h *history) editApp(i int) *model.App {
	a := h.apps[i].Clone()
	h.apps[i] = a
	h.changed.Apps = append(h.changed.Apps, a.ID)
	return a
}

// happen lets one thing happen.
func (h *history) happen(t *rapid.T, n int) {
	worker, app := -1, -1
	if len(h.workers) > 0 {
		worker = rapid.IntRange(0, len(h.workers)-1).Draw(t, "worker")
	}
	if len(h.apps) > 0 {
		app = rapid.IntRange(0, len(h.apps)-1).Draw(t, "app")
	}
	what := rapid.SampledFrom([]string{
		"submit", "end app", "target", "end executor", "end executor", "worker state",
		"offer", "join", "leave", "block app", "exclude", "block worker", "hold app", "settings", "grown",
	}).Draw(t, "what")
	switch {
	case what == "submit":
		drawApp(t, h.cluster, fmt.Sprintf("later%d", n))
		h.changed.Apps = append(h.changed.Apps, h.apps[len(h.apps)-1].ID)
	case what == "join":
		id := fmt.Sprintf("w%d", rapid.IntRange(0, 99).Draw(t, "id"))
		if !slices.ContainsFunc(h.workers, func(w *model.Worker) bool { return string(w.ID) == id }) {
			h.worker(id, rapid.IntRange(1, 12).Draw(t, "cores"), rapid.Int64Range(1, 12).Draw(t, "memory")*256, rapid.IntRange(0, 3).Draw(t, "gpus"))
			h.changed.Workers = append(h.changed.Workers, model.WorkerID(id))
		}
	case what == "settings":
		h.settings.WorkerSelectionPolicy = rapid.SampledFrom(model.SelectionPolicies()).Draw(t, "policy")
		h.settings.DefaultCores = rapid.SampledFrom([]int{0, 3}).Draw(t, "default")
	case app >= 0 && (what == "end app" || what == "target" || what == "end executor" || what == "block app" || what == "hold app" || what == "grown"):
		h.toApp(t, what, app)
	case worker >= 0:
		h.toWorker(t, what, worker, app)
	}
}

func (h *history) toApp(t *rapid.T, what string, i int) {
	switch a := h.editApp(i); what {
	case "end app":
		for _, p := range h.running[a.ID] {
			h.changed.Workers = append(h.changed.Workers, p.Worker)
		}
		h.end(string(a.ID), -1)
		a.State = model.AppFinished
	case "target":
		a.Targets[rapid.IntRange(0, len(a.Profiles)-1).Draw(t, "profile")] = rapid.IntRange(-1, 6).Draw(t, "target")
	case "grown": // a profile that nobody knew
		a.Profiles[len(a.Profiles)] = model.Profile{Cores: rapid.IntRange(0, 3).Draw(t, "size"), MemoryMiB: 128}
		a.Targets[len(a.Profiles)-1] = rapid.IntRange(0, 3).Draw(t, "target")
	case "end executor":
		if n := len(h.running[a.ID]); n > 0 {
			h.changed.Workers = append(h.changed.Workers, h.running[a.ID][0].Worker)
			h.end(string(a.ID), 1)
		}
	case "block app":
		h.cluster.blocked[a.ID] = !h.cluster.blocked[a.ID]
	case "hold app":
		h.held[a.ID] = !h.held[a.ID]
	}
}

func (h *history) toWorker(t *rapid.T, what string, i, app int) {
	switch w := h.editWorker(i); what {
	case "leave": // its record is gone
		h.workers = slices.Delete(slices.Clone(h.workers), i, i+1)
	case "worker state":
		w.State = rapid.SampledFrom([]model.WorkerState{model.WorkerAlive, model.WorkerAlive, model.WorkerDead}).Draw(t, "state")
	case "offer":
		w.Incarnation++
		w.Offer.Cores = rapid.IntRange(1, 12).Draw(t, "cores")
		w.Offer.MemoryMiB = rapid.Int64Range(1, 12).Draw(t, "memory") * 256
	case "exclude":
		if app >= 0 {
			h.editApp(app)
			h.exclude(h.apps[app].ID, w.ID)
		}
	case "block worker":
		h.blocked[w.ID] = !h.blocked[w.ID]
	}
}

func (h *history) options() Options {
	return Options{
		WorkerBlocked: func(id model.WorkerID) bool { return h.blocked[id] },
		AppHeld:       func(id model.AppID) bool { return h.held[id] },
	}
}

// rules is what the rules say now.
func (h *history) rules() []model.Placement {
	c := *h.cluster
	c.blocked = maps.Clone(c.blocked)
	for id := range h.held {
		c.blocked[id] = c.blocked[id] || h.held[id]
	}
	return naivePlan(&c, Options{WorkerBlocked: func(id model.WorkerID) bool { return h.blocked[id] }})
}

// TestAnIndexPlansWhatTheRulesSayWhateverHappened lets things happen to a
// cluster between passes. Of each plan only a part is applied at times, as
// when placements are refused or the outcome is not known.
func TestAnIndexPlansWhatTheRulesSayWhateverHappened(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(drawCluster(t))
		ix := NewIndex()
		for pass := range rapid.IntRange(1, 12).Draw(t, "passes") {
			want := h.rules()
			h.changed.All = rapid.IntRange(0, 4).Draw(t, "all") == 0
			if h.changed.All { // it must not need any names
				h.changed.Apps, h.changed.Workers = nil, nil
			}
			got := ix.Plan(h, h.changed, h.options())
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("pass %d, named %+v (-naive +got):\n%s", pass, h.changed, diff)
			}
			h.changed = Changes{}
			applied := got
			if rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
				applied = got[:rapid.IntRange(0, len(got)).Draw(t, "applied")]
			}
			h.applyToCopies(applied)
			for n := range rapid.IntRange(0, 5).Draw(t, "events") {
				h.happen(t, pass*10+n)
			}
		}
	})
}

// A worker that comes back without an address that is in use holds more than
// it offers and gets nothing (ADR 0010), not even of what it has left: the one
// address that is free there, or an executor that needs none.
func TestAWorkerThatReturnsWithoutAnAddressInUseGetsNothingUntilItIsGivenBack(t *testing.T) {
	t.Parallel()
	h, ix := newHistory(newCluster()), NewIndex()
	pass := func(want string) {
		t.Helper()
		rules, got := h.rules(), ix.Plan(h, h.changed, h.options())
		if show(rules) != want || show(got) != want {
			t.Fatalf("the rules say %q, the index %q, want %q", show(rules), show(got), want)
		}
		h.changed = Changes{}
		h.applyToCopies(got)
	}
	endOne := func() {
		a := h.editApp(0)
		h.end("a", 1)
		a.Targets[0] = a.Live[0]
		h.changed.Workers = append(h.changed.Workers, "w5")
	}
	h.worker("w5", 4, 1024, 2)
	h.app("a", 2, model.Profile{Cores: 1, MemoryMiB: 128, Resources: map[string]int{"gpu": 1}})
	pass("a w5=1[0], a w5=1[1]")

	endOne() // the one with gpu 0
	h.editWorker(0)
	h.workers = nil
	pass("")

	h.worker("w5", 4, 1024, 1) // gpu 1 is in use and gone
	h.app("b", 1, model.Profile{MemoryMiB: 128, Resources: map[string]int{"gpu": 1}})
	h.app("c", 1, model.Profile{MemoryMiB: 128})
	h.changed = Changes{Apps: []model.AppID{"b", "c"}, Workers: []model.WorkerID{"w5"}}
	pass("")

	endOne()
	pass("b w5=1[0], c w5=1")
}

// applyToCopies applies a plan without naming it: an index remembers what it
// has planned.
func (h *history) applyToCopies(plan []model.Placement) {
	for _, p := range plan {
		for i, a := range h.apps {
			if a.ID == p.App {
				h.apps[i] = a.Clone()
			}
		}
	}
	h.apply(plan)
}

// TestBoundedPassesComeToWhatOnePassComesTo: executors with a size are cut
// where going on later makes no difference.
func TestBoundedPassesComeToWhatOnePassComesTo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		c.settings.Queues, c.settings.GangAfterMilli = nil, 0 // their turns begin anew with each pass
		for _, a := range c.apps {                            // back-off and exclusions aside
			c.blocked[a.ID], a.Spec.MinExecutors = false, 0
			for id, p := range a.Profiles {
				p.Cores = max(p.Cores, 1)
				a.Profiles[id] = p
			}
		}
		count := func(plan []model.Placement) map[string]int {
			m := map[string]int{}
			for _, p := range plan {
				m[fmt.Sprint(p.App, p.Profile, p.Worker)]++
			}
			return m
		}
		want := count(Plan(c, Options{}))
		var all []model.Placement
		for bound := rapid.IntRange(1, 6).Draw(t, "bound"); ; {
			plan := Plan(c, Options{MaxPlacements: bound})
			if len(plan) == 0 {
				break
			}
			c.apply(plan)
			all = append(all, plan...)
		}
		if diff := cmp.Diff(want, count(all)); diff != "" {
			t.Fatalf("executors by application, profile and worker (-one pass +several):\n%s", diff)
		}
	})
}

func TestWorkersThatRegisterInAnyOrderAreTriedByID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := NewPool(model.ByWorkerID)
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{1,12}`), 1, 200, rapid.ID[string]).Draw(t, "ids")
		for _, id := range ids {
			p.Set(&model.Worker{ID: model.WorkerID(id), Offer: model.Offer{Cores: 1, MemoryMiB: 1}}, model.Usage{})
		}
		var got []string
		for _, s := range p.Take(Demand{Profile: model.Profile{Cores: 1}, CoresLeft: len(ids), Wanted: len(ids), SpreadOut: true}, nil) {
			got = append(got, string(s.Worker.ID))
		}
		slices.Sort(ids)
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Fatalf("order (-want +got):\n%s", diff)
		}
		if p.Len() != 0 {
			t.Fatalf("%d workers are left, want none", p.Len())
		}
	})
}
