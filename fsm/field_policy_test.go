package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// policyRow is one sentence of the failure policy, with its numbers written out: a changed constant fails here.
type policyRow struct {
	sentence string
	holds    func(t *testing.T, w *world, app model.AppID)
}

// runsFor places an executor on a worker that fails after it was up for so long.
func (w *world) runsFor(app model.AppID, worker string, ms int64) {
	w.t.Helper()
	id := w.placed(app, worker, 1)
	w.report1(worker, says(app, id, model.ExecutorLaunching))
	w.after(ms)
	w.report1(worker, ended(app, id, model.ExecutorFailed, model.CauseApp, 3, 0))
}

// failures is how many count now.
func (w *world) failures(app model.AppID) int {
	w.t.Helper()
	w.must(settle(string(app)))
	return len(w.app(app).Failures)
}

func wants[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestEachSentenceOfTheFailurePolicyHoldsAtItsNumbers has a row for each sentence. Times are ms of the cluster's clock.
func TestEachSentenceOfTheFailurePolicyHoldsAtItsNumbers(t *testing.T) {
	t.Parallel()
	for _, row := range []policyRow{
		{"failures count for ten minutes of the cluster's clock", func(t *testing.T, w *world, app model.AppID) {
			w.fails(app, "w1", model.CauseApp)
			wants(t, "after ten minutes", w.after(600_000).failures(app), 1)
			wants(t, "a moment later", w.after(1).failures(app), 0)
		}},
		{"a run of ten seconds resets the count", func(t *testing.T, w *world, app model.AppID) {
			w.fails(app, "w1", model.CauseApp)
			id := w.after(1000).placed(app, "w2", 1)
			w.must(confirm(app, int32(id)))
			wants(t, "after 9,999 ms", w.after(9_999).failures(app), 1)
			wants(t, "after ten seconds", w.after(1).failures(app), 0)
		}},
		{"three exits within ten seconds of the launch exclude a worker for ten minutes", func(t *testing.T, w *world, app model.AppID) {
			for i := range 3 {
				wants(t, "excluded before", w.v().At(w.tick).Excluded(app, "w1"), false)
				w.runsFor(app, "w1", 9_999)
				if i < 2 {
					w.after(30_000)
				}
			}
			wants(t, "excluded after three", w.v().At(w.tick).Excluded(app, "w1"), true)
			wants(t, "another worker", w.v().At(w.tick).Excluded(app, "w2"), false)
			wants(t, "after 599,999 ms", w.v().At(w.after(599_999).tick).Excluded(app, "w1"), true)
			wants(t, "after ten minutes", w.v().At(w.after(1).tick).Excluded(app, "w1"), false)
		}},
		{"later exits exclude none", func(t *testing.T, w *world, app model.AppID) {
			for range 5 {
				w.runsFor(app, "w1", 10_000)
				w.after(30_000)
			}
			wants(t, "excluded", w.v().At(w.tick).Excluded(app, "w1"), false)
			wants(t, "failures", w.failures(app), 5)
		}},
		{"two launches that could not be made do", func(t *testing.T, w *world, app model.AppID) {
			w.fails(app, "w1", model.CauseStart)
			wants(t, "after one", w.v().At(w.tick).Excluded(app, "w1"), false)
			w.after(1000).fails(app, "w1", model.CauseStart)
			wants(t, "after two", w.v().At(w.tick).Excluded(app, "w1"), true)
		}},
		{"pauses are 1, 2, 4 … 30 s", func(t *testing.T, w *world, app model.AppID) {
			for i, pause := range []int64{1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000} {
				w.fails(app, []string{"w1", "w2", "w3", "w4"}[i%4], model.CauseApp)
				wants(t, "blocked a moment before its end", w.v().At(w.after(pause-1).tick).AppBlocked(app), true)
				wants(t, "blocked at its end", w.v().At(w.after(1).tick).AppBlocked(app), false)
			}
		}},
		{"ten in the window with nothing running fail the application", func(t *testing.T, w *world, app model.AppID) {
			for i := range 10 {
				wants(t, "state before", w.app(app).State.Terminal(), false)
				w.fails(app, []string{"w1", "w2", "w3", "w4"}[i%4], model.CauseApp)
				w.after(30_000)
			}
			wants(t, "state", w.app(app).State, model.AppFailed)
		}},
		{"with something running they do not", func(t *testing.T, w *world, app model.AppID) {
			w.must(confirm(app, int32(w.placed(app, "w4", 1))))
			var ids []int
			for range 11 {
				ids = append(ids, w.placed(app, "w1", 1))
			}
			for _, id := range ids {
				w.report1("w1", ended(app, id, model.ExecutorFailed, model.CauseApp, 3, 0))
			}
			wants(t, "state", w.app(app).State, model.AppRunning)
			wants(t, "failures", w.failures(app), 11)
		}},
		{"a clean exit is no failure and is replaced a second later", func(t *testing.T, w *world, app model.AppID) {
			id := w.placed(app, "w1", 1)
			w.report1("w1", ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0))
			wants(t, "failures", w.failures(app), 0)
			wants(t, "blocked for 999 ms", w.v().At(w.after(999).tick).AppBlocked(app), true)
			wants(t, "blocked after a second", w.v().At(w.after(1).tick).AppBlocked(app), false)
		}},
		{"what is not the application's own never counts", func(t *testing.T, w *world, app model.AppID) {
			for range 20 {
				w.report1("w1", ended(app, w.placed(app, "w1", 1), model.ExecutorLost, model.CauseInfra, -1, 0))
			}
			wants(t, "failures", w.failures(app), 0)
			wants(t, "blocked", w.v().At(w.tick).AppBlocked(app), false)
		}},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(4, 32)
			row.holds(t, w, w.must(regApp(driverSpec())).App)
		})
	}
}

// TestEachSentenceOfSupervisionHoldsAtItsNumbers is the same for supervised drivers.
func TestEachSentenceOfSupervisionHoldsAtItsNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	id := w.must(submitDriver(driverOf(true))).Driver
	for i, pause := range []int64{1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000} {
		w.launch(id, "w1")
		d := w.driver(id)
		w.report1("w1", ended(d.ID.Owner(), d.Attempt, model.ExecutorFailed, model.CauseApp, 3, 0))
		d = w.driver(id)
		if d.State != model.DriverRelaunching || d.BackoffUntil-w.tick != pause || d.Attempt != i+1 {
			t.Fatalf("after failure %d: %s for %d ms with attempt %d, want RELAUNCHING for %d ms", i+1, d.State, d.BackoffUntil-w.tick, d.Attempt, pause)
		}
		w.after(pause)
	}
	w.launch(id, "w1")
	d := w.driver(id)
	w.report1("w1", ended(d.ID.Owner(), d.Attempt, model.ExecutorFailed, model.CauseApp, 3, 0))
	wants(t, "after ten failures within ten minutes", w.driver(id).State, model.DriverFailed)
	wants(t, "ms until a driver of a worker that is only silent is launched again", int64(model.DriverUnprovedMilli), 300_000)
}

// TestTheHistoryIsAsLongAsPromised: its limits are part of what operators are told.
func TestTheHistoryIsAsLongAsPromised(t *testing.T) {
	t.Parallel()
	for what, n := range map[string][2]int{
		"ended executors of a live application":   {model.MaxFinishedExecutors, 1000},
		"ended executors of an ended application": {model.MaxFinishedExecutorsEnded, 200},
		"ended applications":                      {model.MaxEndedApps, 200},
		"ended drivers":                           {model.MaxEndedDrivers, 200},
		"lines of the audit trail":                {model.MaxAudit, 10_000},
	} {
		wants(t, what, n[0], n[1])
	}
}
