package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

const rigMinute = 60_000

// Twelve executors on three workers that lose power at once: nothing of it counts against the application, which gets
// executors as soon as a worker is back, under the next leader too.
func TestSC01TheLossOfAllWorkersDoesNotCountAgainstAnApplication(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3, 4, forever)
	app := r.must(regApp(commandSpec(12, 0, model.RestartAlways))).App
	r.until("all run", 5000, func() bool { return r.runs(app, 12) })
	for _, w := range []model.WorkerID{"w1", "w2", "w3"} {
		r.powerOff(w)
	}
	r.failover()
	r.run(30*rigMinute, nil)
	a := r.app(app)
	if a.State.Terminal() || len(a.Failures) != 0 || a.BackoffUntil != 0 || a.FinishedCount[model.CauseInfra]+len(a.Finished) != 12 {
		t.Errorf("%s with failures %v, back-off until %d, %d losses; want it to wait, none, none, 12", a.State, a.Failures, a.BackoffUntil, len(a.Finished))
	}
	r.powerOn("w2", 4)
	r.until("the worker that is back runs what it can", 5000, func() bool { return r.runs(app, 4) })
}

// A command that no worker has is tried ten times at most, with pauses that add up to more than half a minute, and the
// application ends with the reason of the last attempt.
func TestSC02ACommandThatDoesNotExistFailsItsApplicationWithAReason(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 8} {
		r := newRig(t, workers, 4, func(*model.Executor) fate { return fate{missing: true} })
		app := r.must(regApp(commandSpec(1, 0, model.RestartAlways))).App
		r.run(5000, nil)
		r.failover()
		took := r.until("the application has ended", 3*60*rigMinute, func() bool { return r.app(app).State.Terminal() })
		tries := 0
		for _, n := range r.launches {
			tries += n
		}
		a := r.app(app)
		if a.State != model.AppFailed || tries > model.FailuresLimit || took < 30_000 || !strings.Contains(a.Reason, "it could not be started") {
			t.Errorf("%d workers: %s after %d launches in %d ms with the reason %q; want FAILED after at most ten in at least 30 s",
				workers, a.State, tries, took, a.Reason)
		}
	}
}

// On one of eight workers everything of the application dies within a second. It is left alone after three launches, and
// the application outlives the ten minutes.
func TestSC03OneBadMachineDoesNotEndAHealthyApplication(t *testing.T) {
	t.Parallel()
	r := newRig(t, 8, 1, func(e *model.Executor) fate {
		if e.Worker == "w3" {
			return fate{after: 1000, code: 1}
		}
		return fate{}
	})
	app := r.must(regApp(commandSpec(8, 0, model.RestartAlways))).App
	excluded := int64(0)
	r.run(10*rigMinute, func() {
		a := r.app(app)
		if a.State.Terminal() {
			t.Fatalf("%s: %s", a.State, a.Reason)
		}
		if excluded == 0 && r.v().At(r.tick).Excluded(app, "w3") {
			if excluded = r.tick; r.launches["w3"] != model.QuickFailuresLimit {
				t.Errorf("excluded after %d launches, want %d", r.launches["w3"], model.QuickFailuresLimit)
			}
			r.failover()
		}
	})
	if n := r.launches["w3"]; n > 5 || excluded == 0 || !r.runs(app, 7) {
		t.Errorf("%d launches on the bad worker, excluded at %d, states %v; want at most 5, and 7 that run", n, excluded, r.states(app))
	}
}

// W1 lacks the program: the executor runs on W2 by the third attempt, and W1 is tried again after ten minutes.
func TestSC04AMachineWithoutTheProgramIsLeftAndTriedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range model.SelectionPolicies() {
		r := newRig(t, 2, 2, func(e *model.Executor) fate { return fate{missing: e.Worker == "w1"} })
		r.must(setting("worker_selection_policy", string(name)))
		app := r.must(regApp(commandSpec(1, 0, model.RestartAlways))).App
		r.until("it runs on W2", 20_000, func() bool { return r.runs(app, 1) })
		if n := r.launches["w1"]; n > model.StartFailuresLimit || r.launches["w2"] != 1 {
			t.Errorf("%s: %d attempts on W1 and %d on W2, want at most %d and 1", name, n, r.launches["w2"], model.StartFailuresLimit)
		}
	}

	r := newRig(t, 2, 2, func(e *model.Executor) fate { return fate{missing: e.Worker == "w1"} })
	app := r.must(regApp(commandSpec(3, 0, model.RestartAlways))).App // one more than W2 has room for
	r.run(20_000, nil)
	tries, excludedAt := r.launches["w1"], r.tick
	if tries != model.StartFailuresLimit || !r.runs(app, 2) {
		t.Errorf("%d attempts on W1, states %v; want %d and 2 that run", tries, r.states(app), model.StartFailuresLimit)
	}
	r.failover()
	r.until("W1 is tried again", 11*rigMinute, func() bool { return r.launches["w1"] > tries })
	if d := r.tick - excludedAt; d < model.ExclusionMilli-20_000 || d > model.ExclusionMilli {
		t.Errorf("W1 was tried again after %d ms, want ten minutes", d)
	}
}

// Of four executors one dies, then three at once. Four run again within five seconds, and four is what is asked for all
// the time.
func TestSC18TheTargetStaysAndKilledExecutorsComeBackWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	for _, gap := range []int64{0, 20_000} {
		t.Run(fmt.Sprintf("%d ms between", gap), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 2, 8, forever)
			spec := commandSpec(4, 0, model.RestartAlways)
			app := r.must(regApp(spec)).App
			target := func() {
				if a := r.app(app); a.Targets[model.ProfileDefault] != 4 || a.State != model.AppRunning {
					t.Fatalf("%s with the target %v, want RUNNING and 4", a.State, a.Targets)
				}
			}
			r.until("all run", 5000, func() bool { return r.runs(app, 4) })
			r.run(20_000, target)
			for _, n := range []int{1, 3} {
				r.murder(app, n)
				r.failover()
				took := r.until("four run again", 60_000, func() bool { target(); return r.runs(app, 4) })
				if took > 5000 {
					t.Errorf("after the death of %d it took %d ms, want at most 5 s", n, took)
				}
				r.run(gap, target)
			}
		})
	}
}

// Eight executors exit with 0 just before their application ends, in a hundred runs: before and after the message of the
// end, in both orders. No replacement starts.
func TestSC19CleanExitsJustBeforeTheEndStartNoReplacement(t *testing.T) {
	t.Parallel()
	for run := range 100 {
		r := newRig(t, 2, 8, forever)
		app := r.must(regApp(driverSpec())).App
		r.must(targets(app, model.ProfileDefault, 8))
		r.plan()
		r.run(2000, nil)
		if n := len(r.procs); n != 8 {
			t.Fatalf("run %d: %d processes, want 8", run, n)
		}
		exit := func() {
			for id := range 8 {
				ref := model.ExecutorRef{App: app, Executor: model.ExecutorID(id)}
				p := r.procs[ref]
				delete(r.procs, ref)
				r.report1(string(p.worker), ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0))
				if run%3 == 0 {
					r.plan()
				}
			}
		}
		end := func() { r.must(finish(app, model.AppFinished, 0)) }
		if run%2 == 0 {
			exit()
			r.run(int64(run%9)*rigStep, nil) // less than a second
			end()
		} else {
			end()
			exit()
		}
		r.run(5000, nil)
		if sum := r.launches["w1"] + r.launches["w2"]; sum != 8 || r.app(app).State != model.AppFinished {
			t.Fatalf("run %d: %d launches and the application is %s, want 8 and FINISHED", run, sum, r.app(app).State)
		}
	}
}
