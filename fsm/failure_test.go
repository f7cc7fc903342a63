package fsm

import (
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestBackOffDoublesUpToThirtySeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(6, 8)
	app := w.must(regApp(driverSpec())).App
	for i, want := range []int64{1000, 2000, 4000, 8000, 16000, 30000, 30000} {
		w.fails(app, []string{"w1", "w2", "w3", "w4", "w5", "w6"}[i%6], model.CauseApp)
		a := w.app(app)
		if a.Backoff != want || a.BackoffUntil != w.tick+want {
			t.Errorf("after failure %d: back-off %d until %d, want %d until %d", i+1, a.Backoff, a.BackoffUntil, want, w.tick+want)
		}
		at := w.v().At(w.tick)
		if !at.AppBlocked(app) || at.NextWake() != w.tick+want {
			t.Errorf("after failure %d: blocked = %t, next wake %d, want true and %d", i+1, at.AppBlocked(app), at.NextWake(), w.tick+want)
		}
		if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectBlocked {
			t.Errorf("placement during the back-off: %+v, want BLOCKED", v)
		}
		w.after(want)
		if w.v().At(w.tick).AppBlocked(app) {
			t.Error("blocked after the back-off is over")
		}
	}
}

func TestAWorkerIsExcludedAfterFailuresThere(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		cause  model.Cause
		needed int
		slow   bool
		want   bool
	}{
		{"three quick failures exclude it", model.CauseApp, 3, false, true},
		{"two quick failures do not", model.CauseApp, 2, false, false},
		{"two failures to start do", model.CauseStart, 2, false, true},
		{"one failure to start does not", model.CauseStart, 1, false, false},
		{"slow failures do not", model.CauseApp, 4, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(2, 8)
			app := w.must(regApp(driverSpec())).App
			for range tc.needed {
				id := w.placed(app, "w1", 1)
				w.report1("w1", says(app, id, model.ExecutorLaunching))
				if tc.slow {
					w.after(model.QuickExitMilli)
				}
				w.report1("w1", ended(app, id, model.ExecutorFailed, tc.cause, 3, 0))
				w.after(model.BackoffMaxMilli)
			}
			if got := w.v().At(w.tick).Excluded(app, "w1"); got != tc.want {
				t.Fatalf("excluded = %t, want %t", got, tc.want)
			}
			if !tc.want {
				return
			}
			if w.v().At(w.tick).Excluded(app, "w2") {
				t.Error("another worker is excluded too")
			}
			if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectBlocked {
				t.Errorf("placement there: %+v, want BLOCKED", v)
			}
			w.placed(app, "w2", 1)
			w.after(model.ExclusionMilli)
			if w.v().At(w.tick).Excluded(app, "w1") {
				t.Error("still excluded after ten minutes")
			}
			w.must(settle(string(app)))
			if a := w.app(app); len(a.Excluded) != 0 || len(a.Failures) != 0 {
				t.Errorf("after settling: %v, %v; want nothing left", a.Excluded, a.Failures)
			}
			w.placed(app, "w1", 1)
		})
	}
}

func TestTenFailuresWithNothingRunningFailTheApplication(t *testing.T) {
	t.Parallel()
	workers := []string{"w1", "w2", "w3", "w4", "w5"}
	for _, tc := range []struct {
		name    string
		running bool
		pause   int64
		want    model.AppState
	}{
		{"with nothing running", false, model.BackoffMaxMilli, model.AppFailed},
		{"with one running", true, 0, model.AppRunning},
		{"spread over more than the window", false, 70_000, model.AppRunning},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(5, 64)
			app := w.must(regApp(driverSpec())).App
			ids := make([]int, model.FailuresLimit)
			if tc.running {
				id := w.placed(app, "w1", 1)
				w.must(confirm(app, int32(id)))
				for i := range ids {
					ids[i] = w.placed(app, workers[i%5], 1)
				}
			}
			for i := range ids {
				if tc.running {
					w.report1(workers[i%5], ended(app, ids[i], model.ExecutorFailed, model.CauseApp, 3+i, 0))
					continue
				}
				id := w.placed(app, workers[i%5], 1)
				w.report1(workers[i%5], ended(app, id, model.ExecutorFailed, model.CauseApp, 3+i, 0))
				w.after(tc.pause)
			}
			a := w.app(app)
			if a.State != tc.want {
				t.Fatalf("state = %s (%s), want %s", a.State, a.Reason, tc.want)
			}
			if tc.want == model.AppFailed && (a.ExitCode != 3 || !strings.Contains(a.Reason, "exit code 12 on worker w5")) {
				t.Errorf("code %d, reason %q; want the first code and the last failure", a.ExitCode, a.Reason)
			}
		})
	}
}

func TestWhatIsNotTheApplicationsFaultNeverCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	for range 2 * model.FailuresLimit {
		id := w.placed(app, "w1", 1)
		w.report1("w1", ended(app, id, model.ExecutorLost, model.CauseInfra, -1, 0))
		id = w.placed(app, "w1", 1)
		w.must(killExecs(app, int32(id)))
		w.report1("w1", ended(app, id, model.ExecutorKilled, model.CauseKill, -1, 9))
	}
	if a := w.app(app); a.State != model.AppRunning || len(a.Failures) != 0 || a.BackoffUntil != 0 {
		t.Errorf("app = %s with failures %v, back-off until %d; want none", a.State, a.Failures, a.BackoffUntil)
	}
}

func TestAStableRunResetsTheCountOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(3, 8)
	app := w.must(regApp(driverSpec())).App
	w.fails(app, "w1", model.CauseApp)
	w.after(1000)
	w.fails(app, "w2", model.CauseApp)
	w.after(2000)
	long := w.placed(app, "w3", 1)
	w.must(confirm(app, int32(long)))
	w.after(model.StableRunMilli - 1)
	if due := w.v().Due(w.tick); len(due) != 0 {
		t.Errorf("due = %v before the run is stable", due)
	}
	w.after(1)
	if due := w.v().Due(w.tick); len(due) != 1 {
		t.Error("not due when the run has become stable")
	}
	w.must(settle(string(app)))
	if a := w.app(app); len(a.Failures) != 0 || a.Backoff != 0 {
		t.Fatalf("failures %v, back-off %d after a stable run", a.Failures, a.Backoff)
	}
	// The long run goes on, but what fails from now on counts.
	for i := range model.QuickFailuresLimit {
		w.after(model.BackoffMaxMilli)
		w.must(settle(string(app)))
		w.fails(app, "w1", model.CauseApp)
		if got := len(w.app(app).Failures); got != i+1 {
			t.Fatalf("%d failures counted, want %d", got, i+1)
		}
	}
	if !w.v().At(w.tick).Excluded(app, "w1") {
		t.Error("a stable run elsewhere hides a worker where everything fails")
	}
}

func TestAStableRunThatEndsResetsTheCountToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(2, 8)
	app := w.must(regApp(driverSpec())).App
	w.fails(app, "w1", model.CauseApp)
	w.after(1000)
	id := w.placed(app, "w2", 1)
	w.must(confirm(app, int32(id)))
	w.after(model.StableRunMilli)
	w.report1("w2", ended(app, id, model.ExecutorFailed, model.CauseApp, 1, 0))
	if a := w.app(app); len(a.Failures) != 1 || a.Backoff != model.BackoffFirstMilli {
		t.Errorf("failures %v, back-off %d; want this one and the first pause", a.Failures, a.Backoff)
	}
}

func TestACleanExitIsReplacedAfterASecond(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(commandSpec(1, 0, model.RestartAlways))).App
	id := w.placed(app, "w1", 1)
	w.report1("w1", ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0))
	a := w.app(app)
	if a.State != model.AppRunning || len(a.Failures) != 0 || a.BackoffUntil != w.tick+1000 {
		t.Errorf("app = %s, failures %v, back-off until %d; want RUNNING, none, in a second", a.State, a.Failures, a.BackoffUntil)
	}
}

func TestCompletionsEndTheApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(commandSpec(3, 4, model.RestartAlways))).App
	ids := []int{w.placed(app, "w1", 1), w.placed(app, "w1", 1), w.placed(app, "w1", 1)}
	exit := func(id int) { w.report1("w1", ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0)) }
	w.report1("w1", ended(app, ids[2], model.ExecutorFailed, model.CauseApp, 5, 0))
	w.after(1000)
	ids[2] = w.placed(app, "w1", 1)
	exit(ids[0])
	next := w.placed(app, "w1", 1) // three are left to do, three live
	if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectOverTarget {
		t.Errorf("a fourth: %+v, want OVER_TARGET", v)
	}
	exit(ids[1])
	if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectOverTarget {
		t.Errorf("a third for two that are left: %+v, want OVER_TARGET", v)
	}
	exit(ids[2])
	exit(next)
	a := w.app(app)
	if a.State != model.AppFinished || a.ExitCode != 0 || a.Completed != 4 {
		t.Errorf("app = %s, code %d, %d completions; want FINISHED, 0, 4", a.State, a.ExitCode, a.Completed)
	}
}

func TestSurplusExecutorsAreKilledWhenAllCompletionsAreIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(commandSpec(2, 2, model.RestartAlways))).App
	first, second := w.placed(app, "w1", 1), w.placed(app, "w1", 1)
	w.must(killExecs(app, int32(first)))
	third := w.placed(app, "w1", 1) // its replacement
	// The first one had done its work when the kill arrived.
	w.report1("w1", ended(app, first, model.ExecutorExited, model.CauseClean, 0, 0), ended(app, second, model.ExecutorExited, model.CauseClean, 0, 0))
	if a := w.app(app); a.State != model.AppFinished {
		t.Fatalf("app = %s, want FINISHED", a.State)
	}
	if e := w.executor(app, model.ExecutorID(third)); e.State != model.ExecutorKilling {
		t.Errorf("surplus executor is %s, want KILLING", e.State)
	}
}

func TestCopiesThatAreNeverRestarted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		codes []int
		sig   int
		want  model.AppState
		code  int
	}{
		{"finish once each has ended cleanly", []int{0, 0}, 0, model.AppFinished, 0},
		{"fail with the code of the first failure", []int{0, 9}, 0, model.AppFailed, 9},
		{"fail with 128 and the signal", []int{-1}, 9, model.AppFailed, 137},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(1, 8)
			app := w.must(regApp(commandSpec(2, 0, model.RestartNever))).App
			w.placed(app, "w1", 1)
			w.placed(app, "w1", 1)
			for id, code := range tc.codes {
				r := ended(app, id, model.ExecutorFailed, model.CauseApp, code, tc.sig)
				if code == 0 {
					r = ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0)
				}
				w.report1("w1", r)
			}
			if a := w.app(app); a.State != tc.want || a.ExitCode != tc.code {
				t.Errorf("app = %s with code %d (%s), want %s with %d", a.State, a.ExitCode, a.Reason, tc.want, tc.code)
			}
		})
	}
}
