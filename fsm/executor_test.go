package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestEachPlacementGetsItsOwnVerdict(t *testing.T) {
	t.Parallel()
	gpu := func(p *replogv1.Placement, addrs ...string) *replogv1.Placement {
		p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: addrs}}
		return p
	}
	w := newWorld(t).withWorkers(3, 4)
	w.must(mark("w3", 1, 0, model.WorkerUnreachable))
	small := driverSpec()
	small.CoresMax, small.Executors = 3, 2
	app := w.must(regApp(small)).App
	gspec := driverSpec()
	gspec.Profile.Resources = map[string]int{"gpu": 1}
	gapp := w.must(regApp(gspec)).App
	free := driverSpec()
	free.Profile.Cores = 0
	fapp := w.must(regApp(free)).App
	over := w.must(regApp(driverSpec())).App
	w.must(killApp(over))

	other := func(p *replogv1.Placement, change func(*replogv1.Placement)) *replogv1.Placement {
		change(p)
		return p
	}
	steps := []struct {
		name string
		p    *replogv1.Placement
		want model.Rejection
	}{
		{"an application that is not known", placement("app-20261130061500-0042", "w1", 1, 1), model.RejectUnknownApp},
		{"an application that has ended", placement(over, "w1", 1, 1), model.RejectAppEnded},
		{"a worker that is not known", placement(app, "w9", 1, 1), model.RejectUnknownWorker},
		{"a worker that is not alive", placement(app, "w3", 1, 1), model.RejectWorkerNotAlive},
		{"another incarnation of the worker", placement(app, "w1", 2, 1), model.RejectIncarnation},
		{"another size than the profile's", placement(app, "w1", 1, 2), model.RejectInvalid},
		{"other memory than the profile's", other(placement(app, "w1", 1, 1), func(p *replogv1.Placement) { p.MemoryMib = 1 }), model.RejectInvalid},
		{"a profile that is not known", other(placement(app, "w1", 1, 1), func(p *replogv1.Placement) { p.Profile = 4 }), model.RejectInvalid},
		{"no secret", other(placement(app, "w1", 1, 1), func(p *replogv1.Placement) { p.Secret = "" }), model.RejectInvalid},
		{"the first within the target", placement(app, "w1", 1, 1), model.RejectNone},
		{"the second within the target", placement(app, "w1", 1, 1), model.RejectNone},
		{"a third beyond the target", placement(app, "w1", 1, 1), model.RejectOverTarget},
		{"addresses that are missing", placement(gapp, "w1", 1, 1), model.RejectInvalid},
		{"an address that is not offered", gpu(placement(gapp, "w1", 1, 1), "7"), model.RejectDoesNotFit},
		{"more addresses than needed", gpu(placement(gapp, "w1", 1, 1), "0", "1"), model.RejectInvalid},
		{"a free address", gpu(placement(gapp, "w1", 1, 1), "0"), model.RejectNone},
		{"an address in use", gpu(placement(gapp, "w1", 1, 1), "0"), model.RejectDoesNotFit},
		{"more cores than are free", placement(fapp, "w1", 1, 2), model.RejectDoesNotFit},
		{"no cores at all", placement(fapp, "w1", 1, 0), model.RejectInvalid},
		{"all cores that are free, for a profile without a size", placement(fapp, "w2", 1, 4), model.RejectNone},
	}
	var ps []*replogv1.Placement
	for _, s := range steps {
		ps = append(ps, s.p)
	}
	res := w.must(place(ps...))
	for i, s := range steps {
		if got := res.Placements[i]; got.Rejection != s.want || (s.want != model.RejectNone && got.Text == "") {
			t.Errorf("%s: %q (%s), want %q", s.name, got.Rejection, got.Text, s.want)
		}
	}
	if a := w.app(app); a.State != model.AppRunning || a.StartedWall == 0 || a.NextExecutor != 2 || a.Live[0] != 2 {
		t.Errorf("app = %+v, want RUNNING with two live executors", a)
	}
	if u := w.v().Usage("w1"); u.Cores != 3 || u.MemoryMiB != 3*512 || len(u.Resources["gpu"]) != 1 {
		t.Errorf("usage = %+v, want three cores and one gpu", u)
	}
}

func TestCoresMaxCountsWhatIsStillBeingKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.must(setting(model.SettingDefaultCores, "2"))
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.placed(app, "w1", 1)
	w.must(killExecs(app, 0))
	if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection != model.RejectOverCores {
		t.Errorf("a third core: %+v, want OVER_CORES_MAX by the default of the cluster", v)
	}
	w.report1("w1", ended(app, 0, model.ExecutorKilled, model.CauseKill, -1, 15))
	w.placed(app, "w1", 1)
}

func TestReportsAreAppliedOncePerSequence(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(2, 8)
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.refused(report("w9", 1, 1), model.RejectUnknownWorker)
	w.refused(report("w1", 2, 1), model.RejectIncarnation)
	w.must(report("w1", 1, 5, says(app, 0, model.ExecutorLaunching))) // gaps are fine
	if e := w.executor(app, 0); e.State != model.ExecutorLaunching || e.PID != 100 || e.LaunchTick != w.tick {
		t.Errorf("executor = %+v, want LAUNCHING with its pid", e)
	}
	for _, seq := range []uint64{5, 4, 0} {
		if res := w.must(report("w1", 1, seq, ended(app, 0, model.ExecutorFailed, model.CauseApp, 1, 0))); !res.Repeated {
			t.Errorf("report %d is not taken for a repeat", seq)
		}
	}
	w.must(report("w2", 1, 1, ended(app, 0, model.ExecutorFailed, model.CauseApp, 1, 0))) // another's executor
	w.must(report("w1", 1, 6, says(app, 0, model.ExecutorPlaced), says(app, 7, model.ExecutorRunning), says(app, 0, "NONSENSE")))
	if e := w.executor(app, 0); e.State != model.ExecutorLaunching {
		t.Errorf("executor is %s, want LAUNCHING still", e.State)
	}
}

func TestOnlyADriverMakesItsExecutorsRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	copies := w.must(regApp(commandSpec(2, 0, model.RestartAlways))).App
	w.placed(app, "w1", 1)
	w.placed(app, "w1", 1)
	w.placed(copies, "w1", 1)
	w.report1("w1", says(app, 0, model.ExecutorRunning), says(copies, 0, model.ExecutorRunning))
	if e := w.executor(app, 0); e.State != model.ExecutorLaunching {
		t.Errorf("of a driver: %s, want LAUNCHING until it has registered", e.State)
	}
	if e := w.executor(copies, 0); e.State != model.ExecutorRunning || e.RunningTick != w.tick {
		t.Errorf("of a command: %s, want RUNNING", e.State)
	}
	w.must(confirm(app, 0, 1, 9))
	w.must(confirm(app, 0))
	for id := range 2 {
		if e := w.executor(app, model.ExecutorID(id)); e.State != model.ExecutorRunning || e.LaunchTick == 0 {
			t.Errorf("confirmed executor %d = %+v, want RUNNING", id, e)
		}
	}
	w.report1("w1", says(app, 1, model.ExecutorLaunching)) // late: only the pid is news
	if e := w.executor(app, 1); e.State != model.ExecutorRunning || e.PID != 101 {
		t.Errorf("executor = %+v, want RUNNING with its pid", e)
	}
	w.refused(confirm("app-20261130061500-0042", 0), model.RejectUnknownApp)
}

func TestKilledExecutorsAreChargedUntilTheWorkerReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	spec := driverSpec()
	spec.Executors = 1
	app := w.must(regApp(spec)).App
	w.placed(app, "w1", 1)
	w.refused(killExecs(app, 0, 1), model.RejectUnknownExecutor)
	w.refused(killExecs("nonsense", 0), model.RejectUnknownApp)
	w.must(killExecs(app, 0))
	w.must(killExecs(app, 0))
	if a := w.app(app); a.Live[0] != 0 || a.CoresGranted != 1 {
		t.Errorf("app = live %v, %d cores; want none live, one core", a.Live, a.CoresGranted)
	}
	w.placed(app, "w1", 1) // the replacement is wanted at once
	w.report1("w1", says(app, 0, model.ExecutorStuck))
	if e := w.executor(app, 0); e.State != model.ExecutorStuck || w.v().Usage("w1").Cores != 2 {
		t.Errorf("executor is %s with %d cores in use, want STUCK and 2", e.State, w.v().Usage("w1").Cores)
	}
	w.report1("w1", ended(app, 0, model.ExecutorFailed, model.CauseApp, 143, 0))
	e := w.executor(app, 0)
	if e.State != model.ExecutorFailed || e.Cause != model.CauseKill || len(w.app(app).Failures) != 0 {
		t.Errorf("executor = %+v, want ended by the kill, which is no failure", e)
	}
}

func TestAnExecutorKilledForNotComingUpCountsAsAFailureToStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.must(lateExecs(app, 0))
	w.report1("w1", ended(app, 0, model.ExecutorKilled, model.CauseKill, -1, 15))
	e, a := w.executor(app, 0), w.app(app)
	if e.State != model.ExecutorFailed || e.Cause != model.CauseStart || e.Reason != "by ann" {
		t.Errorf("executor = %+v, want FAILED to start with the reason of the kill", e)
	}
	if len(a.Failures) != 1 || a.Backoff != model.BackoffFirstMilli {
		t.Errorf("app has failures %v and back-off %d, want one failure and a back-off", a.Failures, a.Backoff)
	}
}

func TestAnExecutorExpiresOnlyAsTheLeaderSawIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	seen := w.executor(app, 0).ChangeIndex
	w.report1("w1", says(app, 0, model.ExecutorLaunching))
	w.must(expire(app, 0, seen))
	if e := w.executor(app, 0); e.State != model.ExecutorLaunching {
		t.Errorf("an executor that has moved expired: %s", e.State)
	}
	w.must(expire(app, 0, w.executor(app, 0).ChangeIndex))
	w.must(expire(app, 7, 1))
	e := w.executor(app, 0)
	if e.State != model.ExecutorLost || e.Cause != model.CauseInfra || e.Reason != "never acknowledged" {
		t.Errorf("executor = %+v, want LOST", e)
	}
}

func TestTheEndOfAnExecutorHasACause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		killing bool
		rep     func(model.AppID) *replogv1.ExecutorReport
		state   model.ExecutorState
		cause   model.Cause
	}{
		{"exit 0", false, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorExited, model.CauseClean, 0, 0)
		}, model.ExecutorExited, model.CauseClean},
		{"an exit that is called clean but is none", false, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorExited, model.CauseClean, 2, 0)
		}, model.ExecutorFailed, model.CauseApp},
		{"a failure without a cause is the application's", false, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorFailed, "NONSENSE", 2, 0)
		}, model.ExecutorFailed, model.CauseApp},
		{"could not be started", false, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorFailed, model.CauseStart, -1, 0)
		}, model.ExecutorFailed, model.CauseStart},
		{"a loss is never the application's", false, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorLost, model.CauseApp, -1, 0)
		}, model.ExecutorLost, model.CauseInfra},
		{"a death while being killed is the kill's", true, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorFailed, model.CauseApp, -1, 15)
		}, model.ExecutorFailed, model.CauseKill},
		{"work that was done while being killed is done", true, func(a model.AppID) *replogv1.ExecutorReport {
			return ended(a, 0, model.ExecutorExited, model.CauseClean, 0, 0)
		}, model.ExecutorExited, model.CauseClean},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(1, 8)
			app := w.must(regApp(driverSpec())).App
			w.placed(app, "w1", 1)
			if tc.killing {
				w.must(killExecs(app, 0))
			}
			w.report1("w1", tc.rep(app))
			if e := w.executor(app, 0); e.State != tc.state || e.Cause != tc.cause {
				t.Errorf("ended %s by %q, want %s by %q", e.State, e.Cause, tc.state, tc.cause)
			}
		})
	}
}

func TestChangesNameEachRecordOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	w.must(place(placement(app, "w1", 1, 1), placement(app, "w1", 1, 1)))
	seen := map[Change]int{}
	for _, c := range w.last.Changes {
		seen[c]++
	}
	for _, want := range []Change{
		{Kind: ChangeApp, App: app, Index: w.index},
		{Kind: ChangeExecutor, App: app, Executor: 0, Worker: "w1", Index: w.index},
		{Kind: ChangeExecutor, App: app, Executor: 1, Worker: "w1", Index: w.index},
	} {
		if seen[want] != 1 {
			t.Errorf("%+v appears %d times in %+v", want, seen[want], w.last.Changes)
		}
	}
	if len(seen) != 3 {
		t.Errorf("changes = %+v, want three", w.last.Changes)
	}
}
