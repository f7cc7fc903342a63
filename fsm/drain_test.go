package fsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// drain orders a drain; of d the reason, the deadline (in ms from now) and
// IdleOnly are used.
func drain(d model.Drain, workers ...string) *replogv1.Command {
	return &replogv1.Command{Principal: "op", Kind: &replogv1.Command_DrainWorkers{DrainWorkers: &replogv1.DrainWorkers{
		Workers: workers, Reason: d.Reason, DeadlineMilli: d.DeadlineTick, IdleOnly: d.IdleOnly,
	}}}
}

func undrain(workers ...string) *replogv1.Command {
	return &replogv1.Command{Principal: "op", Kind: &replogv1.Command_UndrainWorkers{UndrainWorkers: &replogv1.UndrainWorkers{Workers: workers}}}
}

func stopDrained(worker string, index uint64, reason string, refs ...model.ExecutorRef) *replogv1.Command {
	p := &replogv1.StopDrained{Worker: worker, Drain: index, Reason: reason}
	for _, r := range refs {
		p.Executors = append(p.Executors, &replogv1.ExecutorName{App: string(r.App), Executor: int32(r.Executor)})
	}
	return &replogv1.Command{Kind: &replogv1.Command_StopDrained{StopDrained: p}}
}

// running places an executor and has it run.
func (w *world) running(app model.AppID, worker string) int {
	w.t.Helper()
	id := w.placed(app, worker, 1)
	if w.app(app).Spec.Kind == model.AppKindDriver {
		w.report1(worker, says(app, id, model.ExecutorLaunching))
		w.must(confirm(app, int32(id)))
	} else {
		w.report1(worker, says(app, id, model.ExecutorRunning))
	}
	return id
}

func (w *world) checkState(app model.AppID, id int, want model.ExecutorState) {
	w.t.Helper()
	if got := w.executor(app, model.ExecutorID(id)).State; got != want {
		w.t.Errorf("executor %s/%d is %s, want %s (%s)", app, id, got, want, w.executor(app, model.ExecutorID(id)).Reason)
	}
}

func (w *world) checkWorkerState(id model.WorkerID, want model.WorkerState) {
	w.t.Helper()
	if got := w.worker(id).State; got != want {
		w.t.Errorf("worker %s is %s, want %s", id, got, want)
	}
}

func TestADrainedWorkerGetsNothingNewAndIsDrainedWhenItIsEmpty(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(2, 8)
	app := w.must(regApp(commandSpec(2, 0, model.RestartAlways))).App
	old := w.running(app, "w1")

	w.must(drain(model.Drain{Reason: "new memory", DeadlineTick: 60_000}, "w1"))
	w.checkWorkerState("w1", model.WorkerDraining)
	w.checkState(app, old, model.ExecutorDecommissioning)
	if a := w.app(app); a.Live[0] != 0 || a.CoresGranted != 1 || model.CoresCounted(a) != 0 {
		t.Errorf("live %v, %d cores granted, %d counted; want none, 1, 0", a.Live, a.CoresGranted, model.CoresCounted(a))
	}
	if v := w.do(place(placement(app, "w1", 1, 1)))[0].Placements[0]; v.Rejection != model.RejectWorkerNotAlive {
		t.Errorf("a placement on a drained worker: %q, want %q", v.Rejection, model.RejectWorkerNotAlive)
	}
	// The replacement is within the target and the limit while the old one runs.
	repl := w.running(app, "w2")
	w.checkState(app, repl, model.ExecutorRunning)
	d := w.worker("w1").Drain
	w.must(stopDrained("w1", d.Index, "replaced", model.ExecutorRef{App: app, Executor: model.ExecutorID(old)}))
	w.checkState(app, old, model.ExecutorKilling)
	w.checkWorkerState("w1", model.WorkerDraining)
	w.report1("w1", ended(app, old, model.ExecutorKilled, model.CauseKill, -1, 15))
	w.checkWorkerState("w1", model.WorkerDrained)
	if a := w.app(app); a.CoresLeaving != 0 || a.CoresGranted != 1 || len(a.Failures) != 0 || a.BackoffUntil != 0 {
		t.Errorf("afterwards: leaving %d, granted %d, failures %v, back-off until %d", a.CoresLeaving, a.CoresGranted, a.Failures, a.BackoffUntil)
	}
	w.must(undrain("w1"))
	w.checkWorkerState("w1", model.WorkerAlive)
	w.placed(app, "w1", 1)
}

func TestADrainOutlivesRestartsDeathAndSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(2, 8)
	app := w.must(regApp(driverSpec())).App
	id := w.running(app, "w1")
	w.must(drain(model.Drain{Reason: "why"}, "w1"))
	seq := w.worker("w1").ReportSeq
	restart := mark("w1", 1, seq, model.WorkerRestarting)
	restart.GetMarkWorker().RestartWindowMilli = 60_000
	w.must(restart)
	w.checkWorkerState("w1", model.WorkerRestarting)
	w.must(regWorker("w1", 2, 8, says(app, id, model.ExecutorRunning)))
	w.checkWorkerState("w1", model.WorkerDraining)
	w.checkState(app, id, model.ExecutorDecommissioning)

	w.must(mark("w1", 2, 0, model.WorkerUnreachable))
	w.checkWorkerState("w1", model.WorkerUnreachable)
	w.must(mark("w1", 2, 0, model.WorkerAlive))
	w.checkWorkerState("w1", model.WorkerDraining)
	w.must(mark("w1", 2, 0, model.WorkerDead))
	w.checkState(app, id, model.ExecutorLost)
	w.must(regWorker("w1", 3, 8))
	w.checkWorkerState("w1", model.WorkerDrained)
	w.must(leave("w1", 3))

	if err := w.f.Restore(bytes.NewReader(w.snapshot())); err != nil {
		t.Fatal(err)
	}
	if d := w.worker("w1").Drain; d == nil || d.Reason != "why" || d.Principal != "op" || d.DeadlineTick != 0 {
		t.Fatalf("after a snapshot the drain is %+v", d)
	}
	w.must(regWorker("w1", 4, 8))
	w.checkWorkerState("w1", model.WorkerDrained)
	w.must(undrain("w1"))
	w.checkWorkerState("w1", model.WorkerAlive)
	if res := w.must(undrain("w1")); !res.Repeated {
		t.Error("the end of a drain that has ended changes something")
	}
}

func TestWhatIsNotRunningOrMustNotRunTwiceIsNotDecommissioned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(2, 8)
	server := w.must(regApp(commandSpec(3, 0, model.RestartAlways))).App
	placed := w.placed(server, "w1", 1)
	batch := w.must(regApp(commandSpec(2, 5, model.RestartAlways))).App
	piece := w.running(batch, "w1")
	spec := commandSpec(1, 0, model.RestartAlways)
	spec.Disconnect = model.DisconnectSingleton
	one := w.must(regApp(spec)).App
	single := w.running(one, "w1")

	w.must(drain(model.Drain{DeadlineTick: 5000}, "w1"))
	w.checkState(server, placed, model.ExecutorKilling)
	w.checkState(batch, piece, model.ExecutorRunning)
	w.checkState(one, single, model.ExecutorKilling)
	if n := w.app(one).CoresLeaving; n != 0 {
		t.Errorf("a singleton's cores are given up before it has ended: %d", n)
	}
	if w.worker("w1").Drain.Due(w.tick + 4999) {
		t.Error("the deadline is due too early")
	}
	if !w.worker("w1").Drain.Due(w.tick + 5000) {
		t.Error("the deadline is not due in time")
	}
	// A piece of work that ends by itself counts, and its place is elsewhere.
	w.report1("w1", ended(batch, piece, model.ExecutorExited, model.CauseClean, 0, 0))
	if got := w.app(batch).Completed; got != 1 {
		t.Errorf("%d completions, want 1", got)
	}
}

func TestAnIdleOnlyDrainMovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(2, 8)
	app := w.must(regApp(commandSpec(2, 0, model.RestartAlways))).App
	id, placed := w.running(app, "w1"), w.placed(app, "w1", 1)
	w.must(drain(model.Drain{IdleOnly: true}, "w1", "w2"))
	w.checkState(app, id, model.ExecutorRunning)
	w.checkState(app, placed, model.ExecutorPlaced)
	w.checkWorkerState("w1", model.WorkerDraining)
	w.checkWorkerState("w2", model.WorkerDrained)
	if got := w.app(app).Live[0]; got != 2 {
		t.Errorf("%d live executors, want 2", got)
	}
	// New terms: now it is to be empty.
	first := w.worker("w1").Drain.Index
	w.must(drain(model.Drain{}, "w1"))
	w.checkState(app, id, model.ExecutorDecommissioning)
	w.refused(stopDrained("w1", first, "replaced", model.ExecutorRef{App: app, Executor: model.ExecutorID(id)}), model.RejectEvidence)
}

func TestTheEndOfADrainTakesBackWhatStillRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(3, 8)
	spec := commandSpec(2, 0, model.RestartAlways)
	spec.CoresMax = 2
	copies := w.must(regApp(spec)).App
	a, b := w.running(copies, "w1"), w.running(copies, "w1")
	jobSpec := driverSpec()
	jobSpec.Executors = 1
	job := w.must(regApp(jobSpec)).App
	task := w.running(job, "w1")

	w.must(drain(model.Drain{}, "w1"))
	d := w.worker("w1").Drain.Index
	repl := w.running(copies, "w2")
	jobRepl := w.running(job, "w2")
	w.must(undrain("w1"))
	w.refused(stopDrained("w1", d, "replaced", model.ExecutorRef{App: copies, Executor: model.ExecutorID(a)}), model.RejectEvidence)
	w.checkState(copies, a, model.ExecutorRunning)
	w.checkState(copies, b, model.ExecutorRunning)
	w.checkState(copies, repl, model.ExecutorKilling)
	// The driver's executor is replaced already and leaves when it is idle.
	w.checkState(job, task, model.ExecutorDecommissioning)
	w.checkState(job, jobRepl, model.ExecutorRunning)
	w.must(&replogv1.Command{Kind: &replogv1.Command_KillExecutors{KillExecutors: &replogv1.KillExecutors{App: string(job), Executors: []int32{int32(task)}}}})
	w.checkState(job, task, model.ExecutorKilling)
	w.checkWorkerState("w1", model.WorkerAlive)
	if got := model.CoresCounted(w.app(copies)); got != 2 {
		t.Errorf("%d cores counted, want 2", got)
	}
}

func TestAnExecutorThatIsLeavingFailsNobody(t *testing.T) {
	t.Parallel()
	for _, end := range []*replogv1.ExecutorReport{
		ended("", 0, model.ExecutorExited, model.CauseClean, 0, 0),
		ended("", 0, model.ExecutorFailed, model.CauseApp, 3, 0),
	} {
		t.Run(fmt.Sprint(end.GetState()), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.must(initCluster("c1"))
			w.withWorkers(1, 8)
			app := w.must(regApp(commandSpec(1, 0, model.RestartAlways))).App
			id := w.running(app, "w1")
			w.must(drain(model.Drain{}, "w1"))
			end.App, end.Executor = string(app), int32(id)
			w.report1("w1", end)
			if a := w.app(app); len(a.Failures) != 0 || a.BackoffUntil != 0 {
				t.Errorf("failures %v, back-off until %d: want none", a.Failures, a.BackoffUntil)
			}
			w.checkWorkerState("w1", model.WorkerDrained)
		})
	}
}

func TestABadDrainIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(1, 8)
	for _, c := range []*replogv1.Command{drain(model.Drain{}, "w1", "w9"), undrain("w1", "w9"), stopDrained("w9", 1, "x")} {
		w.refused(c, model.RejectUnknownWorker)
	}
	w.refused(drain(model.Drain{}), model.RejectInvalid)
	w.refused(drain(model.Drain{DeadlineTick: model.MaxDrainMilli + 1}, "w1"), model.RejectInvalid)
	w.refused(drain(model.Drain{DeadlineTick: -1}, "w1"), model.RejectInvalid)
	w.refused(stopDrained("w1", 1, "x"), model.RejectEvidence)
}

func TestASupervisedDriverLeavesADrainedWorkerAndAnotherOneStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(2, 8)
	spec := model.DriverSpec{Name: "d", User: "ann", Cores: 1, MemoryMiB: 512, Command: model.Command{Argv: []string{"/bin/true"}}}
	plain := w.must(withID(submitDriver(spec), "plain", 0)).Driver
	spec.Supervise = true
	supervised := w.must(withID(submitDriver(spec), "supervised", 0)).Driver
	w.must(placeDrivers(driverPlacement(plain, "w1", 1), driverPlacement(supervised, "w1", 1)))
	w.report1("w1", says(plain.Owner(), 1, model.ExecutorRunning), says(supervised.Owner(), 1, model.ExecutorRunning))

	w.must(drain(model.Drain{}, "w1"))
	w.checkState(plain.Owner(), 1, model.ExecutorRunning)
	w.checkState(supervised.Owner(), 1, model.ExecutorKilling)
	w.report1("w1", ended(supervised.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
	if d, ok := w.v().Driver(supervised); !ok || d.State != model.DriverRelaunching || d.BackoffUntil > w.tick {
		t.Errorf("the supervised driver is %+v, want RELAUNCHING at once", d)
	}
	w.checkWorkerState("w1", model.WorkerDraining)
	w.must(stopDrained("w1", w.worker("w1").Drain.Index, "the deadline", plain.Ref(1)))
	w.report1("w1", ended(plain.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
	if d, ok := w.v().Driver(plain); !ok || d.State != model.DriverKilled {
		t.Errorf("the other driver is %+v, want KILLED", d)
	}
	w.checkWorkerState("w1", model.WorkerDrained)
}

func TestAddressesThatVanishedWhileInUseKeepNewWorkAwayUntilTheyAreFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.withWorkers(1, 8) // with gpu 0 and 1
	spec := driverSpec()
	spec.Profile.Resources = map[string]int{"gpu": 1}
	app := w.must(regApp(spec)).App
	with := func(address string, incarnation uint64) *replogv1.Placement {
		p := placement(app, "w1", incarnation, 1)
		p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{address}}}
		return p
	}
	id := int(w.do(place(with("1", 1)))[0].Placements[0].Executor)
	w.report1("w1", says(app, id, model.ExecutorLaunching))

	again := regWorker("w1", 2, 8, says(app, id, model.ExecutorRunning))
	again.GetRegisterWorker().Offer.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{"0", "7"}}}
	w.must(again)
	if !w.worker("w1").Overcommitted {
		t.Error("address 1 is held and not offered, and the worker may get more")
	}
	if v := w.do(place(with("0", 2)))[0].Placements[0]; v.Rejection != model.RejectDoesNotFit {
		t.Errorf("a placement meanwhile: %q, want %q", v.Rejection, model.RejectDoesNotFit)
	}
	w.report1("w1", ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0))
	w.after(2000)
	if v := w.do(place(with("7", 2)))[0].Placements[0]; v.Rejection != model.RejectNone {
		t.Errorf("a placement afterwards: %q (%s)", v.Rejection, v.Text)
	}
}
