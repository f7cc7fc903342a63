package fsm

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestAWorkerRegistersAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regWorker("w1", 2, 8))
	w.refused(regWorker("w1", 1, 8), model.RejectIncarnation)
	w.refused(regWorker("", 1, 8), model.RejectInvalid)
	w.refused(regWorker("w2", 0, 8), model.RejectInvalid)
	w.refused(regWorker("w2", 1, 0), model.RejectInvalid)

	w.must(mark("w1", 2, 0, model.WorkerUnreachable))
	w.must(regWorker("w1", 2, 4))
	if x := w.worker("w1"); x.State != model.WorkerAlive || x.Offer.Cores != 4 {
		t.Errorf("worker = %+v, want ALIVE with the new offer", x)
	}
	before := *w.worker("w1")
	w.after(1).must(regWorker("w1", 2, 4))
	if before.HeardTick, before.ChangeIndex = w.tick, w.index; !reflect.DeepEqual(&before, w.worker("w1")) {
		t.Errorf("the same Hello again changed more than when the worker was heard: %+v, was %+v", w.worker("w1"), before)
	}
	w.must(mark("w1", 2, 0, model.WorkerDead))
	w.refused(regWorker("w1", 2, 4), model.RejectIncarnation)
	w.must(regWorker("w1", 3, 4))
	if x := w.worker("w1"); x.State != model.WorkerAlive || x.Incarnation != 3 {
		t.Errorf("worker = %+v, want ALIVE in incarnation 3", x)
	}
}

func TestAVerdictOnAWorkerNeedsFreshEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.report1("w1")
	w.refused(mark("w1", 1, 0, model.WorkerDead), model.RejectEvidence)
	w.refused(mark("w1", 2, 1, model.WorkerDead), model.RejectEvidence)
	w.refused(mark("w9", 1, 1, model.WorkerDead), model.RejectUnknownWorker)
	w.refused(mark("w1", 1, 1, model.WorkerLeft), model.RejectInvalid)
	w.must(mark("w1", 1, 1, model.WorkerDead))
	w.refused(mark("w1", 1, 1, model.WorkerAlive), model.RejectTransition)
	if res := w.must(mark("w1", 1, 1, model.WorkerDead)); !res.Repeated {
		t.Error("the same verdict again is not taken for a repeat")
	}
	w.refused(report("w1", 1, 2), model.RejectWorkerNotAlive)
}

func TestADeadOrLeftWorkerLosesItsExecutorsAtOnce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]*replogv1.Command{
		"dead": mark("w1", 1, 1, model.WorkerDead),
		"left": leave("w1", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(2, 8)
			app := w.must(regApp(driverSpec())).App
			w.placed(app, "w1", 1)
			w.placed(app, "w1", 1)
			w.placed(app, "w2", 1)
			w.report1("w1", says(app, 0, model.ExecutorLaunching))
			w.must(killExecs(app, 0))
			w.must(end)
			for id := range 2 {
				e := w.executor(app, model.ExecutorID(id))
				if e.State != model.ExecutorLost || e.Cause != model.CauseInfra || e.Secret != "" {
					t.Errorf("executor %d = %+v, want LOST by infrastructure, without its secret", id, e)
				}
			}
			if u := w.v().Usage("w1"); u.Executors != 0 || u.Cores != 0 {
				t.Errorf("usage = %+v, want none", u)
			}
			if a := w.app(app); a.CoresGranted != 1 || a.Live[0] != 1 || len(a.Failures) != 0 {
				t.Errorf("app = %+v, want one live executor and no failure", a)
			}
		})
	}
}

func TestAnInventoryIsComparedWithTheState(t *testing.T) {
	t.Parallel()
	// Executor 0 is PLACED, 1 LAUNCHING, 2 RUNNING, 3 KILLING.
	set := func(t *testing.T) (*world, model.AppID) {
		w := newWorld(t).withWorkers(1, 8)
		app := w.must(regApp(driverSpec())).App
		for range 4 {
			w.placed(app, "w1", 1)
		}
		w.report1("w1", says(app, 1, model.ExecutorLaunching), says(app, 2, model.ExecutorLaunching), says(app, 3, model.ExecutorLaunching))
		w.must(confirm(app, 2))
		w.must(killExecs(app, 3))
		return w, app
	}
	for _, tc := range []struct {
		name string
		inc  uint64
		inv  func(app model.AppID) []*replogv1.ExecutorReport
		want [4]model.ExecutorState
	}{
		{"the same incarnation with everything keeps everything", 1, func(app model.AppID) []*replogv1.ExecutorReport {
			return []*replogv1.ExecutorReport{
				says(app, 1, model.ExecutorLaunching), says(app, 2, model.ExecutorRunning), says(app, 3, model.ExecutorRunning),
			}
		}, [4]model.ExecutorState{model.ExecutorPlaced, model.ExecutorLaunching, model.ExecutorRunning, model.ExecutorKilling}},
		{"the same incarnation without them keeps only what was never started", 1, func(model.AppID) []*replogv1.ExecutorReport {
			return nil
		}, [4]model.ExecutorState{model.ExecutorPlaced, model.ExecutorLost, model.ExecutorLost, model.ExecutorLost}},
		{"a new incarnation without them loses all", 2, func(model.AppID) []*replogv1.ExecutorReport {
			return nil
		}, [4]model.ExecutorState{model.ExecutorLost, model.ExecutorLost, model.ExecutorLost, model.ExecutorLost}},
		{"a new incarnation adopts what its keeper still has", 2, func(app model.AppID) []*replogv1.ExecutorReport {
			return []*replogv1.ExecutorReport{says(app, 2, model.ExecutorRunning), ended(app, 3, model.ExecutorKilled, model.CauseKill, -1, 15)}
		}, [4]model.ExecutorState{model.ExecutorLost, model.ExecutorLost, model.ExecutorRunning, model.ExecutorKilled}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, app := set(t)
			w.must(regWorker("w1", tc.inc, 8, tc.inv(app)...))
			for id, want := range tc.want {
				e := w.executor(app, model.ExecutorID(id))
				if e.State != want {
					t.Errorf("executor %d is %s, want %s", id, e.State, want)
				}
				if !e.State.Terminal() && e.Incarnation != tc.inc {
					t.Errorf("executor %d is of incarnation %d, want %d", id, e.Incarnation, tc.inc)
				}
			}
		})
	}
}

func TestAnInventoryEntryThatTheStateDoesNotKnowChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.must(regWorker("w1", 1, 8, says("app-20261130061500-0042", 3, model.ExecutorRunning)))
	if len(w.last.Changes) != 1 || w.last.Changes[0].Kind != ChangeWorker {
		t.Errorf("an unknown executor in an inventory changed the state: %v", w.last.Changes)
	}
}

func TestAnOfferMayShrinkBelowWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 4)
	app := w.must(regApp(driverSpec())).App
	for range 3 {
		w.placed(app, "w1", 1)
	}
	w.must(regWorker("w1", 1, 2))
	if !w.worker("w1").Overcommitted {
		t.Fatal("3 of 2 cores in use and the worker is not marked")
	}
	seen := 0
	w.v().At(w.tick).SchedulableWorkers(func(*model.Worker, model.Usage) bool { seen++; return true })
	if seen != 0 {
		t.Error("the scheduler sees a worker that holds more than it offers")
	}
	if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectDoesNotFit {
		t.Errorf("placement there: %+v, want DOES_NOT_FIT", v)
	}
	w.report1("w1", ended(app, 0, model.ExecutorKilled, model.CauseKill, -1, 9))
	if w.worker("w1").Overcommitted {
		t.Error("2 of 2 cores in use and the worker is still marked")
	}
	w.report1("w1", ended(app, 1, model.ExecutorKilled, model.CauseKill, -1, 9))
	w.placed(app, "w1", 1)
}

func TestAnOfferWhoseAddressesChangedIsOvercommittedUntilTheyAreFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 4)
	spec := driverSpec()
	spec.Profile.Resources = map[string]int{"gpu": 1}
	app := w.must(regApp(spec)).App
	p := placement(app, "w1", 1, 1)
	p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{"1"}}}
	w.must(place(p))
	c := regWorker("w1", 1, 4)
	c.GetRegisterWorker().Offer.Resources[0].Addresses = []string{"0", "2"}
	w.must(c)
	if !w.worker("w1").Overcommitted {
		t.Error("an address that is no longer offered is in use and the worker is not marked")
	}
}

func TestOnlySomeGoneWorkersAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.f.check = false
	for i := range model.MaxGoneWorkers + 5 {
		id := fmt.Sprintf("w%d", i)
		w.after(1).do(regWorker(id, 1, 4), leave(id, 1))
	}
	if got := w.v().CountWorkers(); got != model.MaxGoneWorkers {
		t.Errorf("%d workers kept, want %d", got, model.MaxGoneWorkers)
	}
	if _, ok := w.v().Worker("w0"); ok {
		t.Error("the oldest is still there")
	}
	if err := w.v().CheckInvariants(); err != nil {
		t.Error(err)
	}
}

func TestAVerdictOnABeatBeforeTheLastHelloIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	judged := func(heard int64) *replogv1.Command {
		c := mark("w1", 1, 0, model.WorkerDead)
		c.GetMarkWorker().Beat, c.GetMarkWorker().HeardTick = 7, heard
		return c
	}
	beat := w.tick
	w.after(20_000).must(regWorker("w1", 1, 8)) // the same incarnation on a new session
	w.refused(judged(beat), model.RejectEvidence)
	w.refused(judged(w.tick-1), model.RejectEvidence)
	w.must(judged(w.tick))
}

func restart(id string, inc, seq uint64, window int64) *replogv1.Command {
	c := mark(id, inc, seq, model.WorkerRestarting)
	c.GetMarkWorker().RestartWindowMilli = window
	return c
}

func TestNothingIsHeldAgainstARestartingWorkerUntilItsTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	id := w.placed(app, "w1", 1)
	w.refused(restart("w1", 1, 0, 0), model.RejectInvalid)
	w.refused(restart("w1", 1, 0, model.MaxRestartMilli+1), model.RejectInvalid)
	w.refused(restart("w1", 1, 5, 60_000), model.RejectEvidence)
	w.must(restart("w1", 1, 0, 60_000))
	if x := w.worker("w1"); x.State != model.WorkerRestarting || x.RestartUntil != w.tick+60_000 {
		t.Fatalf("worker = %+v, want RESTARTING until %d", x, w.tick+60_000)
	}
	if v := w.do(place(placement(app, "w1", 1, 1)))[0].Placements[0]; v.Rejection != model.RejectWorkerNotAlive {
		t.Errorf("a placement on a restarting worker: %q (%s), want %q", v.Rejection, v.Text, model.RejectWorkerNotAlive)
	}
	w.after(59_999)
	for _, s := range []model.WorkerState{model.WorkerAlive, model.WorkerUnreachable, model.WorkerDead} {
		w.refused(mark("w1", 1, 0, s), model.RejectTransition)
	}
	w.must(restart("w1", 1, 0, 10_000)) // it asks for more time
	w.after(9_999).refused(mark("w1", 1, 0, model.WorkerDead), model.RejectTransition)
	if e := w.executor(app, model.ExecutorID(id)); e.State != model.ExecutorPlaced {
		t.Errorf("its executor is %s, want it as it was", e.State)
	}
	w.after(1).must(mark("w1", 1, 0, model.WorkerDead))
	if e := w.executor(app, model.ExecutorID(id)); e.State != model.ExecutorLost {
		t.Errorf("after its time the executor is %s, want LOST", e.State)
	}
	w.refused(restart("w1", 1, 0, 60_000), model.RejectTransition)
}

func TestAHelloEndsARestartAndItsChildrenStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(commandSpec(2, 0, model.RestartAlways))).App
	kept, gone := w.placed(app, "w1", 1), w.placed(app, "w1", 1)
	w.report1("w1", says(app, kept, model.ExecutorRunning), says(app, gone, model.ExecutorRunning))
	w.must(restart("w1", 1, 1, 60_000))
	w.after(3000).must(regWorker("w1", 2, 8, says(app, kept, model.ExecutorRunning)))
	if x := w.worker("w1"); x.State != model.WorkerAlive || x.RestartUntil != 0 || x.Incarnation != 2 {
		t.Errorf("worker = %+v, want ALIVE in incarnation 2", x)
	}
	if e := w.executor(app, model.ExecutorID(kept)); e.State != model.ExecutorRunning || e.Incarnation != 2 {
		t.Errorf("the adopted executor is %+v, want RUNNING in incarnation 2", e)
	}
	if e := w.executor(app, model.ExecutorID(gone)); e.State != model.ExecutorLost {
		t.Errorf("the executor that it came back without is %s, want LOST", e.State)
	}
}

func TestSingletonsOutliveARefusalUntilTheTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(2, 8)
	single := commandSpec(1, 0, model.RestartAlways)
	single.Disconnect = model.DisconnectSingleton
	one, many := w.must(regApp(single)).App, w.must(regApp(driverSpec())).App
	w.placed(one, "w1", 1)
	w.placed(many, "w1", 1)
	w.placed(many, "w2", 1)
	gone := func(id string) *replogv1.Command {
		c := mark(id, 1, 0, model.WorkerDead)
		c.GetMarkWorker().ProcessGone = true
		return c
	}
	w.must(gone("w1"))
	if x := w.worker("w1"); x.State != model.WorkerUnreachable {
		t.Errorf("the worker is %s, want UNREACHABLE while it has a singleton", x.State)
	}
	if e := w.executor(many, 0); e.State != model.ExecutorLost {
		t.Errorf("the ordinary executor is %s, want LOST", e.State)
	}
	if e := w.executor(one, 0); e.State != model.ExecutorPlaced {
		t.Errorf("the singleton is %s, want it as it was", e.State)
	}
	if res := w.must(gone("w1")); !res.Repeated || len(w.last.Changes) > 0 {
		t.Errorf("the same verdict again: %+v, changes %v; want a repeat", res, w.last.Changes)
	}
	w.must(mark("w1", 1, 0, model.WorkerDead))
	if e := w.executor(one, 0); e.State != model.ExecutorLost {
		t.Errorf("after the timeout the singleton is %s, want LOST", e.State)
	}
	w.must(gone("w2"))
	if x := w.worker("w2"); x.State != model.WorkerDead {
		t.Errorf("a worker without singletons is %s, want DEAD at once", x.State)
	}
}
