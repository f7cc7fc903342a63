package fsm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestDriverIsSubmittedPlacedRunAndFinished(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	w.driverIs(id, model.DriverSubmitted, 0)
	if got := w.v().CountQueuedDrivers(); got != 1 {
		t.Fatalf("%d drivers wait, want 1", got)
	}
	w.launch(id, "w2")
	d := w.driverIs(id, model.DriverRunning, 1)
	if u := w.v().Usage("w2"); d.Worker != "w2" || u.Cores != 1 || u.MemoryMiB != 512 || w.v().DriverCursor() != "w2" || w.v().PlacedDrivers() != 1 {
		t.Fatalf("worker %s, usage %+v, cursor %s, placed %d", d.Worker, u, w.v().DriverCursor(), w.v().PlacedDrivers())
	}
	w.report1("w2", ended(id.Owner(), 1, model.ExecutorExited, model.CauseClean, 0, 0))
	w.driverIs(id, model.DriverFinished, 1)
	if u := w.v().Usage("w2"); u.Cores != 0 || u.Executors != 0 {
		t.Fatalf("after its end %+v is in use", u)
	}
}

// TestDriverEndsByTheFinalStateRule has the rule of spark-standalone 1.E.
func TestDriverEndsByTheFinalStateRule(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		killed bool
		report *replogv1.ExecutorReport
		want   model.DriverState
		code   int
	}{
		{"exit code 0", false, ended("", 1, model.ExecutorExited, model.CauseClean, 0, 0), model.DriverFinished, 0},
		{"exit code 0 although a kill was asked for", true, ended("", 1, model.ExecutorExited, model.CauseClean, 0, 0), model.DriverFinished, 0},
		{"killed", true, ended("", 1, model.ExecutorKilled, model.CauseKill, -1, 15), model.DriverKilled, 130},
		{"exit code 0 on the signal of the kill", true, ended("", 1, model.ExecutorKilled, model.CauseKill, 0, 0), model.DriverFinished, 0},
		{"exit code 3 on the signal of the kill", true, ended("", 1, model.ExecutorKilled, model.CauseKill, 3, 0), model.DriverKilled, 130},
		{"killed, and lost on the way", true, ended("", 1, model.ExecutorLost, model.CauseInfra, -1, 0), model.DriverKilled, 130},
		{"killed, and failed on the way", true, ended("", 1, model.ExecutorFailed, model.CauseApp, 3, 0), model.DriverKilled, 130},
		{"exit code 3", false, ended("", 1, model.ExecutorFailed, model.CauseApp, 3, 0), model.DriverFailed, 3},
		{"ended by a signal", false, ended("", 1, model.ExecutorFailed, model.CauseApp, -1, 9), model.DriverFailed, 137},
		{"could not be started", false, ended("", 1, model.ExecutorFailed, model.CauseStart, -1, 0), model.DriverError, 1},
		{"exit code 0 because its worker stopped", false, ended("", 1, model.ExecutorLost, model.CauseInfra, 0, 0), model.DriverFinished, 0},
		{"exit code 3 because its worker stopped", false, ended("", 1, model.ExecutorLost, model.CauseInfra, 3, 0), model.DriverError, 255},
		{"lost with its worker", false, ended("", 1, model.ExecutorLost, model.CauseInfra, -1, 0), model.DriverError, 255},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, id := withDriver()(t, false)
			w.launch(id, "w1")
			if tc.killed {
				w.must(killDriver(id))
				w.driverIs(id, model.DriverKilling, 1)
				if u := w.v().Usage("w1"); u.Cores != 1 {
					t.Errorf("a driver that is being killed holds %d cores, want 1 until it is gone", u.Cores)
				}
			}
			tc.report.App = string(id)
			w.report1("w1", tc.report)
			if d := w.driverIs(id, tc.want, 1); d.ExitCode != tc.code || d.Reason == "" {
				t.Errorf("exit code %d (%q), want %d and a reason", d.ExitCode, d.Reason, tc.code)
			}
		})
	}
}

func TestWaitingDriverThatIsKilledEndsAtOnce(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.must(killDriver(id))
	w.driverIs(id, model.DriverKilled, 0)
	if res := w.must(killDriver(id)); !res.Repeated {
		t.Error("killing a killed driver is not a repeat")
	}
	w.refuses(id, "w1", model.RejectDriverEnded)
	w.refused(killDriver("driver-20261201044001-0009"), model.RejectUnknownDriver)
	done := w.must(submitDriver(driverOf(false))).Driver
	w.launch(done, "w1")
	w.report1("w1", ended(done.Owner(), 1, model.ExecutorExited, model.CauseClean, 0, 0))
	w.refused(killDriver(done), model.RejectDriverEnded)
}

func TestSubmitterEndsOnlyItsOwnDrivers(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	foreign := killDriver(id)
	foreign.Principal, foreign.OwnOnly = "bob", true
	w.refused(foreign, model.RejectNotOwner)
	all := killDrivers()
	all.Principal, all.OwnOnly = "bob", true
	w.must(all)
	w.driverIs(id, model.DriverSubmitted, 0)
	w.must(killDrivers())
	w.driverIs(id, model.DriverKilled, 0)
}

func TestKillingAllDriversLeavesApplicationsOfClientModeAlone(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	running := w.must(submitDriver(driverOf(true))).Driver
	w.launch(running, "w1")
	app := w.must(regApp(driverSpec())).App
	w.must(killDrivers())
	w.driverIs(id, model.DriverKilled, 0)
	w.driverIs(running, model.DriverKilling, 1)
	if a := w.app(app); a.State != model.AppWaiting {
		t.Errorf("the application is %s", a.State)
	}
}

// TestSupervisedDriverIsLaunchedAgainWithGrowingPauses has design 8: 1 … 60 s,
// at most ten failures in ten minutes; a run of five seconds resets the pause.
func TestSupervisedDriverIsLaunchedAgainWithGrowingPauses(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	later := w.must(submitDriver(driverOf(false))).Driver
	for i, pause := range []int64{1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000} {
		w.launch(id, fmt.Sprintf("w%d", i%2+1))
		w.report1(fmt.Sprintf("w%d", i%2+1), ended(id.Owner(), i+1, model.ExecutorFailed, model.CauseApp, 3, 0))
		d := w.driverIs(id, model.DriverRelaunching, i+1)
		if got := d.BackoffUntil - w.tick; got != pause {
			t.Fatalf("after failure %d it waits %d ms, want %d", i+1, got, pause)
		}
		w.refuses(id, "w1", model.RejectBlocked)
		w.mayPlace(later) // the other one only
		w.after(pause)
		w.mayPlace(id, later) // in its old place
	}
	w.launch(id, "w1")
	w.report1("w1", ended(id.Owner(), 10, model.ExecutorFailed, model.CauseApp, 4, 0))
	if d := w.driverIs(id, model.DriverFailed, 10); d.ExitCode != 4 || !strings.Contains(d.Reason, "failed 10 times within 10 minutes") {
		t.Errorf("exit code %d: %s", d.ExitCode, d.Reason)
	}
}

func TestRunOfFiveSecondsResetsThePauseOfADriver(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	for i, run := range []int64{0, 0, 5001} {
		w.launch(id, "w1")
		w.after(run)
		w.report1("w1", ended(id.Owner(), i+1, model.ExecutorFailed, model.CauseApp, 1, 0))
		w.after([]int64{1000, 2000, 0}[i])
	}
	if d := w.driver(id); d.BackoffUntil-w.tick != 1000 {
		t.Errorf("waits %d ms, want 1000", d.BackoffUntil-w.tick)
	}
}

// TestPR13ReportOfAnOlderAttemptChangesNothing is the part of the replicated
// state: ids carry the attempt.
func TestPR13ReportOfAnOlderAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.launch(id, "w1")
	w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
	w.after(model.DriverUnprovedMilli)
	w.launch(id, "w2")
	w.must(regWorker("w1", 2, 4, says(id.Owner(), 1, model.ExecutorRunning)))
	before := w.v().HashString()
	for _, r := range []*replogv1.ExecutorReport{
		says(id.Owner(), 1, model.ExecutorStuck), ended(id.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15),
	} {
		w.must(report("w1", 2, 1, r))
	}
	d := w.driverIs(id, model.DriverRunning, 2)
	if e, ok := w.v().Attempt(d); !ok || e.Worker != "w2" || e.State != model.ExecutorRunning || before == w.v().HashString() {
		t.Errorf("the second attempt: %+v", e)
	}
}

// TestLostDriverIsLaunchedAgainByWhatIsProved has design 8: at once if its
// process is known to be gone, else after five minutes; a singleton at once,
// because it has ended itself by then.
func TestLostDriverIsLaunchedAgainByWhatIsProved(t *testing.T) {
	t.Parallel()
	dead := func(gone bool) func(w *world) {
		return func(w *world) {
			m := mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead)
			m.GetMarkWorker().ProcessGone = gone
			w.must(m)
		}
	}
	for _, tc := range []struct {
		name   string
		policy model.DisconnectPolicy
		lose   func(w *world)
		wait   int64
	}{
		{"silent worker", model.DisconnectKeep, dead(false), model.DriverUnprovedMilli},
		{"refused on both ports", model.DisconnectKeep, dead(true), 0},
		{"silent worker of a singleton", model.DisconnectSingleton, dead(false), 0},
		{"it left", model.DisconnectKeep, func(w *world) { w.must(leave("w1", 1)) }, 0},
		{"it came back without it", model.DisconnectKeep, func(w *world) { w.must(regWorker("w1", 2, 4)) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.withWorkers(2, 4)
			spec := driverOf(true)
			spec.Disconnect = tc.policy
			id := w.must(submitDriver(spec)).Driver
			w.launch(id, "w1")
			tc.lose(w)
			d := w.driverIs(id, model.DriverRelaunching, 1)
			if got := max(d.BackoffUntil-w.tick, 0); got != tc.wait {
				t.Errorf("it waits %d ms, want %d", got, tc.wait)
			}
		})
	}
}

func TestSingletonDriverOutlivesTheProofThatItsWorkersProcessIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withWorkers(2, 4)
	spec := driverOf(true)
	spec.Disconnect = model.DisconnectSingleton
	id := w.must(submitDriver(spec)).Driver
	w.launch(id, "w1")
	m := mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead)
	m.GetMarkWorker().ProcessGone = true
	w.must(m)
	w.driverIs(id, model.DriverRunning, 1)
	if got := w.worker("w1").State; got != model.WorkerUnreachable {
		t.Errorf("the worker is %s", got)
	}
}

func TestDriverOfASilentWorkerIsTakenBackWithIt(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.launch(id, "w1")
	app := w.must(regApp(ofDriver(id, 1))).App
	w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
	w.driverIs(id, model.DriverRelaunching, 1)
	if got := w.app(app).State; got.Terminal() {
		t.Errorf("its application is %s although the driver may still be there", got)
	}
	w.after(60_000)
	w.must(regWorker("w1", 2, 4, says(id.Owner(), 1, model.ExecutorRunning)))
	d := w.driverIs(id, model.DriverRunning, 1)
	if e, ok := w.v().Attempt(d); !ok || e.State != model.ExecutorRunning || e.Incarnation != 2 || len(d.Finished) != 0 {
		t.Errorf("taken back as %+v", e)
	}
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorExited, model.CauseClean, 0, 0))
	w.driverIs(id, model.DriverFinished, 1)
}

// What a silent worker says of a driver when it is back counts: it has ended, as it should or not, or is gone. The next
// attempt begins at once then, if there is one; only silence is waited for.
func TestDriverThatHasEndedOnASilentWorkerIsKnownToHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		brought []*replogv1.ExecutorReport
		want    model.DriverState
		wait    int64
	}{
		"finished": {[]*replogv1.ExecutorReport{ended("", 1, model.ExecutorExited, model.CauseClean, 0, 0)}, model.DriverFinished, 0},
		"failed":   {[]*replogv1.ExecutorReport{ended("", 1, model.ExecutorFailed, model.CauseApp, 3, 0)}, model.DriverRelaunching, model.BackoffFirstMilli},
		"lost":     {[]*replogv1.ExecutorReport{ended("", 1, model.ExecutorLost, model.CauseInfra, -1, 9)}, model.DriverRelaunching, 0},
		"gone":     {nil, model.DriverRelaunching, 0},
	} {
		w, id := withDriver()(t, true)
		w.launch(id, "w1")
		app := w.must(regApp(ofDriver(id, 1))).App
		w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
		w.after(60_000)
		if d := w.driverIs(id, model.DriverRelaunching, 1); d.BackoffUntil <= w.tick {
			t.Errorf("%s: it is not waited for", name)
		}
		for i := range c.brought {
			c.brought[i].App = string(id.Owner())
		}
		w.must(regWorker("w1", 2, 4, c.brought...))
		d := w.driverIs(id, c.want, 1)
		if wait := max(0, d.BackoffUntil-w.tick); wait != c.wait || len(d.Finished) != 1 || !w.app(app).State.Terminal() {
			t.Errorf("%s: %d ms to wait, want %d; %d attempts have ended, its application is %s", name, wait, c.wait, len(d.Finished), w.app(app).State)
		}
	}
}

func TestDriverWhosePlaceIsTakenIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w, id := withDriver(1)(t, true)
	w.launch(id, "w1")
	w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
	w.must(regWorker("w1", 2, 1))
	other := w.must(submitDriver(driverOf(false))).Driver
	w.launch(other, "w1")
	w.must(regWorker("w1", 2, 1, says(other.Owner(), 1, model.ExecutorRunning), says(id.Owner(), 1, model.ExecutorRunning)))
	w.driverIs(id, model.DriverRelaunching, 1)
}

func TestApplicationEndsWithItsDriver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		report *replogv1.ExecutorReport
		want   model.AppState
	}{
		{"exit code 0", ended("", 1, model.ExecutorExited, model.CauseClean, 0, 0), model.AppFinished},
		{"exit code 3", ended("", 1, model.ExecutorFailed, model.CauseApp, 3, 0), model.AppFailed},
		{"lost", ended("", 1, model.ExecutorLost, model.CauseInfra, -1, 0), model.AppFailed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, id := withDriver()(t, false)
			w.launch(id, "w1")
			app := w.must(regApp(ofDriver(id, 1))).App
			w.placed(app, "w2", 1)
			tc.report.App = string(id)
			w.report1("w1", tc.report)
			if a := w.app(app); a.State != tc.want || !strings.Contains(a.Reason, string(id)) {
				t.Errorf("the application is %s: %s", a.State, a.Reason)
			}
			if e := w.executor(app, 0); e.State != model.ExecutorKilling {
				t.Errorf("its executor is %s, want it killed by order", e.State)
			}
		})
	}
}

func TestNextAttemptFencesTheApplicationsOfTheOneBefore(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.refused(regApp(ofDriver(id, 1)), model.RejectAttempt)
	w.launch(id, "w1")
	old := w.must(regApp(ofDriver(id, 1))).App
	w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
	w.after(model.DriverUnprovedMilli)
	w.launch(id, "w2")
	if a := w.app(old); a.State != model.AppFailed || !strings.Contains(a.Reason, "begins attempt 2") {
		t.Errorf("the application of the first attempt is %s: %s", a.State, a.Reason)
	}
	w.refused(regApp(ofDriver(id, 1)), model.RejectAttempt)
	w.must(regApp(ofDriver(id, 2)))
	w.must(killDriver(id))
	w.refused(regApp(ofDriver(id, 2)), model.RejectAttempt)
	w.refused(regApp(ofDriver("driver-20261201044001-0077", 1)), model.RejectUnknownDriver)
}

func TestLaunchOfADriverThatItsWorkerCouldNotDoCostsItNothing(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	w.offerDriver(id, "w1")
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorLost, model.CauseInfra, -1, 0))
	if d := w.driverIs(id, model.DriverRelaunching, 1); len(d.Failures) != 0 || d.BackoffUntil != w.tick+1000 {
		t.Errorf("failures %v, again in %d ms", d.Failures, d.BackoffUntil-w.tick)
	}
}

func TestDriverThatIsNotAcknowledgedIsGivenUp(t *testing.T) {
	t.Parallel()
	for supervise, want := range map[bool]model.DriverState{true: model.DriverRelaunching, false: model.DriverError} {
		w, id := withDriver()(t, supervise)
		w.offerDriver(id, "w1")
		e, ok := w.v().Attempt(w.driver(id))
		if !ok {
			t.Fatal("no attempt")
		}
		w.must(expire(id.Owner(), 1, e.ChangeIndex-1))
		w.driverIs(id, model.DriverRunning, 1)
		w.must(expire(id.Owner(), 1, e.ChangeIndex))
		w.driverIs(id, want, 1)
	}
}

func TestDriverThatDoesNotComeUpInTimeFailsToStart(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	w.offerDriver(id, "w1")
	w.refused(withID(lateExecs(id.Owner(), 1), "by-a-person", 1), model.RejectInvalid)
	w.must(lateExecs(id.Owner(), 1))
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
	w.driverIs(id, model.DriverError, 1)
}

func TestDriversBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := model.DefaultSettings()
	settings.MaxDrivers = 1
	named := initCluster("c1")
	named.GetInitCluster().Settings = SettingsToProto(settings)
	w.must(named)
	w.withWorkers(2, 4)
	id := w.must(submitDriver(driverOf(false))).Driver
	other := w.must(submitDriver(driverOf(false))).Driver
	w.launch(id, "w1")
	w.refuses(other, "w1", model.RejectOverTarget)
	w.must(killDriver(id))
	w.refuses(other, "w1", model.RejectOverTarget) // it is still there
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
	w.launch(other, "w1")
}

func TestDriverThatDoesNotFitIsRefused(t *testing.T) {
	t.Parallel()
	w, id := withDriver(1)(t, false)
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.refuses(id, "w1", model.RejectDoesNotFit)
	if v := w.must(placeDrivers(driverPlacement(id, "w2", 9))).Placements[0]; v.Rejection != model.RejectIncarnation {
		t.Errorf("placed for another incarnation: %v", v)
	}
	w.launch(id, "w2")
	w.refuses(id, "w2", model.RejectTransition)
}

func TestRepeatedSubmissionOfADriverGivesTheFirstOne(t *testing.T) {
	t.Parallel()
	w, _ := withDriver()(t, false)
	first := w.must(withID(submitDriver(driverOf(false)), "submit-1", 1))
	again := w.must(withID(submitDriver(driverOf(false)), "submit-1", 1))
	if !again.Repeated || again.Driver != first.Driver || first.Driver == "" {
		t.Errorf("first %+v, again %+v", first, again)
	}
	// … for as long as its record lives, although the request is forgotten.
	w.f.cur.Load().requests = newTable[remembered]()
	if n, ok := w.v().s.driverReq.tree.get([]byte("submit-1")); !ok || n == 0 {
		t.Error("the driver is not found by its request")
	}
}

func TestDriversAreInSnapshots(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.launch(id, "w1")
	w.must(regApp(ofDriver(id, 1)))
	w.must(submitDriver(fullDriverSpec()))
	w.must(killDriver(w.must(submitDriver(driverOf(false))).Driver))
	back := New(CheckInvariants())
	if err := back.Restore(bytes.NewReader(w.snapshot())); err != nil {
		t.Fatal(err)
	}
	if got, want := back.View().HashString(), w.v().HashString(); got != want || back.View().DriverCursor() != "w1" {
		t.Errorf("restored as %s, was %s; cursor %s", got, want, back.View().DriverCursor())
	}
	w.f = back
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorFailed, model.CauseApp, 1, 0))
	w.driverIs(id, model.DriverRelaunching, 1)
}

func TestNoMoreEndedDriversAreKeptThanTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var first model.DriverID
	for i := range model.MaxEndedDrivers + 3 {
		id := w.must(submitDriver(driverOf(false))).Driver
		if i == 0 {
			first = id
		}
		w.must(killDriver(id))
	}
	if _, ok := w.v().Driver(first); ok || w.v().CountEndedDrivers() != model.MaxEndedDrivers {
		t.Errorf("%d ended drivers are kept, the first one too: %t", w.v().CountEndedDrivers(), ok)
	}
}

func TestEachDriverStateHasAWayOut(t *testing.T) {
	t.Parallel()
	for _, from := range model.DriverStates() {
		leads := false
		for _, to := range model.DriverStates() {
			leads = leads || from.CanBecome(to)
			if from.CanBecome(to) && from.Terminal() {
				t.Errorf("%s is final and becomes %s", from, to)
			}
		}
		if !leads && !from.Terminal() {
			t.Errorf("nothing leads out of %s", from)
		}
	}
}
