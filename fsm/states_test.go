package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// way leads to a state and out of it. A final state has no way out.
type way struct {
	reach func(w *world)
	leave func(w *world)
}

// The tables below have a row for every state of an enum; the tests ask the
// enum, so a new state without a row fails. There is one application, one
// driver and one worker; the executor is number 0.

const theWorker = "w1"

func theApp(w *world) model.AppID       { return w.v().AppByPrefix("")[0] }
func theDriver(w *world) model.DriverID { return w.v().DriverByPrefix("")[0] }
func steps(list ...func(*world)) func(*world) {
	return func(w *world) {
		for _, step := range list {
			step(w)
		}
	}
}

func registered(w *world)  { w.must(regApp(commandSpec(1, 1, model.RestartAlways))) }
func serves(w *world)      { w.must(regApp(commandSpec(1, 0, model.RestartAlways))) } // its copies can be moved
func placedOne(w *world)   { w.placed(theApp(w), theWorker, 1) }
func finished(w *world)    { exits(0, model.ExecutorExited, model.CauseClean)(w) }
func isKilled(w *world)    { w.must(killApp(theApp(w))) }
func drains(w *world)      { w.must(drain(model.Drain{Reason: "a new kernel"}, theWorker)) }
func undrained(w *world)   { w.must(undrain(theWorker)) }
func comesBack(w *world)   { w.must(regWorker(theWorker, w.worker(theWorker).Incarnation+1, 4)) }
func leavesGood(w *world)  { w.must(leave(theWorker, 1)) }
func submitted(w *world)   { w.must(submitDriver(driverOf(false))) }
func supervised(w *world)  { w.must(submitDriver(driverOf(true))) }
func launched(w *world)    { w.launch(theDriver(w), theWorker) }
func killsDriver(w *world) { w.must(killDriver(theDriver(w))) }

func reports(state model.ExecutorState) func(*world) {
	return func(w *world) { w.report1(theWorker, says(theApp(w), 0, state)) }
}

func exits(code int, state model.ExecutorState, cause model.Cause) func(*world) {
	return func(w *world) { w.report1(theWorker, ended(theApp(w), 0, state, cause, code, 0)) }
}

func driverExits(code int, state model.ExecutorState, cause model.Cause) func(*world) {
	return func(w *world) {
		d := w.driver(theDriver(w))
		w.report1(theWorker, ended(d.ID.Owner(), d.Attempt, state, cause, code, 0))
	}
}

func killsOne(w *world) { w.must(killExecs(theApp(w), 0)) }

func marks(state model.WorkerState) func(*world) {
	return func(w *world) {
		x := w.worker(theWorker)
		c := mark(theWorker, x.Incarnation, x.ReportSeq, state)
		if state == model.WorkerRestarting {
			c.GetMarkWorker().RestartWindowMilli = 1000
		}
		w.must(c)
	}
}

func TestEveryStateOfAnApplicationIsReachedLeftAndListedOnce(t *testing.T) {
	t.Parallel()
	ways := map[model.AppState]way{
		model.AppWaiting:  {registered, placedOne},
		model.AppRunning:  {steps(registered, placedOne), finished},
		model.AppFinished: {steps(registered, placedOne, finished), nil},
		model.AppFailed: {func(w *world) {
			w.must(regApp(commandSpec(1, 0, model.RestartNever)))
			placedOne(w)
			exits(3, model.ExecutorFailed, model.CauseApp)(w)
		}, nil},
		model.AppKilled: {steps(registered, isKilled), nil},
	}
	eachState(t, model.AppStates(), ways, model.AppState.Terminal,
		func(w *world) model.AppState { return w.app(theApp(w)).State },
		func(w *world) int {
			n := 0
			count := func(*model.App) bool { n++; return true }
			w.v().ActiveApps(count)
			w.v().EndedApps(count)
			return n
		}, nil)
}

func TestEveryStateOfAnExecutorIsReachedLeftAndListedOnce(t *testing.T) {
	t.Parallel()
	up := steps(registered, placedOne, reports(model.ExecutorRunning))
	ways := map[model.ExecutorState]way{
		model.ExecutorPlaced:          {steps(registered, placedOne), reports(model.ExecutorLaunching)},
		model.ExecutorLaunching:       {steps(registered, placedOne, reports(model.ExecutorLaunching)), reports(model.ExecutorRunning)},
		model.ExecutorRunning:         {up, finished},
		model.ExecutorDecommissioning: {steps(serves, placedOne, reports(model.ExecutorRunning), drains), finished},
		model.ExecutorKilling:         {steps(up, killsOne), exits(-1, model.ExecutorKilled, model.CauseKill)},
		model.ExecutorStuck:           {steps(up, killsOne, reports(model.ExecutorStuck)), exits(-1, model.ExecutorKilled, model.CauseKill)},
		model.ExecutorExited:          {steps(up, finished), nil},
		model.ExecutorFailed:          {steps(up, exits(3, model.ExecutorFailed, model.CauseApp)), nil},
		model.ExecutorKilled:          {steps(up, killsOne, exits(-1, model.ExecutorKilled, model.CauseKill)), nil},
		model.ExecutorLost:            {steps(up, marks(model.WorkerDead)), nil},
	}
	eachState(t, model.ExecutorStates(), ways, model.ExecutorState.Terminal,
		func(w *world) model.ExecutorState { return w.executor(theApp(w), 0).State },
		func(w *world) int {
			n := len(w.app(theApp(w)).Finished)
			w.v().Executors(theApp(w), func(*model.Executor) bool { n++; return true })
			return n
		}, model.ExecutorState.CanBecome)
}

func TestEveryStateOfAWorkerIsReachedLeftAndListedOnce(t *testing.T) {
	t.Parallel()
	ways := map[model.WorkerState]way{
		model.WorkerAlive:       {func(*world) {}, leavesGood},
		model.WorkerDraining:    {steps(registered, placedOne, reports(model.ExecutorRunning), drains), finished},
		model.WorkerDrained:     {drains, undrained},
		model.WorkerUnreachable: {marks(model.WorkerUnreachable), marks(model.WorkerAlive)},
		model.WorkerRestarting:  {marks(model.WorkerRestarting), comesBack},
		model.WorkerDead:        {marks(model.WorkerDead), comesBack},
		model.WorkerLeft:        {leavesGood, comesBack},
	}
	eachState(t, model.WorkerStates(), ways, func(model.WorkerState) bool { return false },
		func(w *world) model.WorkerState { return w.worker(theWorker).State },
		func(w *world) int {
			n := 0
			w.v().Workers(func(*model.Worker) bool { n++; return true })
			return n
		}, model.WorkerState.CanBecome)
}

func TestEveryStateOfADriverIsReachedLeftAndListedOnce(t *testing.T) {
	t.Parallel()
	failed := driverExits(3, model.ExecutorFailed, model.CauseApp)
	ways := map[model.DriverState]way{
		model.DriverSubmitted:   {submitted, launched},
		model.DriverRunning:     {steps(submitted, launched), killsDriver},
		model.DriverRelaunching: {steps(supervised, launched, failed), killsDriver},
		model.DriverKilling:     {steps(submitted, launched, killsDriver), driverExits(-1, model.ExecutorKilled, model.CauseKill)},
		model.DriverFinished:    {steps(submitted, launched, driverExits(0, model.ExecutorExited, model.CauseClean)), nil},
		model.DriverFailed:      {steps(submitted, launched, failed), nil},
		model.DriverKilled:      {steps(submitted, killsDriver), nil},
		model.DriverError:       {steps(submitted, launched, marks(model.WorkerDead)), nil},
	}
	eachState(t, model.DriverStates(), ways, model.DriverState.Terminal,
		func(w *world) model.DriverState { return w.driver(theDriver(w)).State },
		func(w *world) int {
			n := 0
			count := func(*model.Driver) bool { n++; return true }
			w.v().ActiveDrivers(count)
			w.v().EndedDrivers(count)
			return n
		}, model.DriverState.CanBecome)
}

// eachState goes the way of each state of an enum: into it, where it is in one
// list, and out of it by a legal transition.
func eachState[S ~string](t *testing.T, states []S, ways map[S]way, final func(S) bool, now func(*world) S, listed func(*world) int, legal func(S, S) bool) {
	t.Helper()
	if len(ways) != len(states) {
		t.Errorf("%d ways for %d states", len(ways), len(states))
	}
	for _, state := range states {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			way, known := ways[state]
			if !known {
				t.Fatal("no way leads to it")
			}
			w := newWorld(t).withWorkers(1, 4)
			way.reach(w)
			if got := now(w); got != state {
				t.Fatalf("the way leads to %s", got)
			}
			if n := listed(w); n != 1 {
				t.Errorf("it stands in the lists %d times", n)
			}
			if final(state) != (way.leave == nil) {
				t.Fatalf("final is %t, and the way out is there: %t", final(state), way.leave != nil)
			}
			if way.leave == nil {
				return
			}
			way.leave(w)
			next := now(w)
			if next == state {
				t.Error("it cannot be left")
			}
			if legal != nil && !legal(state, next) {
				t.Errorf("%s may not follow it", next)
			}
			if n := listed(w); n != 1 {
				t.Errorf("%s stands in the lists %d times", next, n)
			}
		})
	}
}
