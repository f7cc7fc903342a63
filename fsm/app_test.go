package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestAnApplicationIsRegistered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	res := w.must(regApp(commandSpec(2, 5, model.RestartAlways)))
	a := w.app(res.App)
	if want := model.AppIDFor(startWall+w.tick, 1); res.App != want || res.Token != token {
		t.Errorf("result = %+v, want id %s and the token", res, want)
	}
	if diff := cmp.Diff(commandSpec(2, 5, model.RestartAlways), a.Spec); diff != "" {
		t.Errorf("specification (-want +got):\n%s", diff)
	}
	if a.State != model.AppWaiting || a.Targets[0] != 2 || a.SubmittedTick != w.tick || a.Principal != "ann" {
		t.Errorf("app = %+v, want WAITING with a target of 2", a)
	}
	if second := w.must(regApp(driverSpec())).App; second <= res.App {
		t.Errorf("the second id %s does not follow %s", second, res.App)
	}
	bad := driverSpec()
	bad.Name = ""
	w.refused(regApp(bad), model.RejectInvalid)
	c := regApp(driverSpec())
	c.GetRegisterApp().Token = ""
	w.refused(c, model.RejectInvalid)
	lost := driverSpec()
	lost.Queue = "none"
	w.refused(regApp(lost), model.RejectInvalid)
	if text := w.do(regApp(lost))[0].Text; !strings.Contains(text, `queue "none" is not one of the cluster's queues (default): leave it out for default`) {
		t.Errorf("an unknown queue is refused with %q", text)
	}
	if got := w.v().AppByPrefix("app-"); len(got) != 2 || got[0] != res.App {
		t.Errorf("by prefix: %v, want both in order", got)
	}
}

func TestAnApplicationEndsOnceAndItsExecutorsAreKilled(t *testing.T) {
	t.Parallel()
	verdict := func(app model.AppID, state model.AppState) *replogv1.Command {
		c := finish(app, state, 255)
		c.Principal, c.GetFinishApp().Token = "master", ""
		return c
	}
	for _, tc := range []struct {
		name  string
		end   func(model.AppID) *replogv1.Command
		state model.AppState
		code  int
		other func(model.AppID) *replogv1.Command
	}{
		{"finished by its driver", func(a model.AppID) *replogv1.Command { return finish(a, model.AppFinished, 0) }, model.AppFinished, 0, killApp},
		{"failed by its driver", func(a model.AppID) *replogv1.Command { return finish(a, model.AppFailed, 7) }, model.AppFailed, 7, killApp},
		{"failed by the leader's verdict", func(a model.AppID) *replogv1.Command { return verdict(a, model.AppFailed) }, model.AppFailed, 255, killApp},
		{"killed by a user", killApp, model.AppKilled, 130, func(a model.AppID) *replogv1.Command { return finish(a, model.AppFinished, 0) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).withWorkers(1, 8)
			app := w.must(regApp(driverSpec())).App
			w.placed(app, "w1", 1)
			w.placed(app, "w1", 1)
			w.report1("w1", says(app, 0, model.ExecutorLaunching))
			w.must(tc.end(app))
			a := w.app(app)
			if a.State != tc.state || a.ExitCode != tc.code || a.Reason == "" || a.EndedTick != w.tick {
				t.Errorf("app = %+v, want %s with code %d", a, tc.state, tc.code)
			}
			for id := range 2 {
				if e := w.executor(app, model.ExecutorID(id)); e.State != model.ExecutorKilling {
					t.Errorf("executor %d is %s, want KILLING", id, e.State)
				}
			}
			if got := w.v().Usage("w1").Cores; got != 2 {
				t.Errorf("%d cores in use, want 2 until the worker reports", got)
			}
			if res := w.must(tc.end(app)); !res.Repeated {
				t.Error("the same end again is not taken for a repeat")
			}
			w.refused(tc.other(app), model.RejectAppEnded)
			w.refused(confirm(app, 0), model.RejectAppEnded)
			w.report1("w1", ended(app, 0, model.ExecutorKilled, model.CauseKill, -1, 15), ended(app, 1, model.ExecutorKilled, model.CauseKill, -1, 0))
			if got := w.v().Usage("w1"); got.Executors != 0 {
				t.Errorf("usage = %+v, want none", got)
			}
			if a := w.app(app); len(a.Finished) != 2 || a.CoresGranted != 0 {
				t.Errorf("app = %+v, want two ended executors", a)
			}
		})
	}
}

func TestOnlyTheDriverOrTheLeaderMayFinishAnApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.must(regApp(driverSpec())).App
	for _, change := range []func(*replogv1.Command){
		func(c *replogv1.Command) { c.GetFinishApp().Token = "guess" },
		func(c *replogv1.Command) { c.GetFinishApp().Token = "" },
		func(c *replogv1.Command) { c.GetFinishApp().Token, c.Principal, c.RequestId = "", "master", "r1" },
	} {
		c := finish(app, model.AppFinished, 0)
		change(c)
		w.refused(c, model.RejectBadToken)
	}
	w.refused(finish("app-20261130061500-0042", model.AppFinished, 0), model.RejectUnknownApp)
	w.refused(finish(app, model.AppKilled, 0), model.RejectInvalid)
	w.refused(killApp("nonsense"), model.RejectUnknownApp)
}

func TestTargetsChangeWithTheToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.must(regApp(driverSpec())).App
	w.must(targets(app, 0, 3))
	if got := w.app(app).Targets[0]; got != 3 {
		t.Errorf("target = %d, want 3", got)
	}
	c := targets(app, 1, 2)
	c.GetSetTargets().Profiles = []*replogv1.NumberedProfile{{Id: 1, Profile: &replogv1.Profile{Cores: 2, MemoryMib: 64}}}
	w.must(c)
	w.must(c) // the same again
	if got := w.app(app); got.Targets[1] != 2 || got.Profiles[1].Cores != 2 {
		t.Errorf("app = %+v, want profile 1 with a target of 2", got)
	}
	other := targets(app, 1, 2)
	other.GetSetTargets().Profiles = []*replogv1.NumberedProfile{{Id: 1, Profile: &replogv1.Profile{Cores: 3, MemoryMib: 64}}}
	w.refused(other, model.RejectInvalid)
	w.refused(targets(app, 9, 1), model.RejectInvalid)
	w.refused(targets(app, 0, -2), model.RejectInvalid)
	bad := targets(app, 0, 1)
	bad.GetSetTargets().Token = "guess"
	w.refused(bad, model.RejectBadToken)
	w.must(killApp(app))
	w.refused(targets(app, 0, 1), model.RejectAppEnded)
}

func TestAnApplicationThatRunsTooLongFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	spec := driverSpec()
	spec.MaxRuntimeMilli = 60_000
	app := w.must(regApp(spec)).App
	w.placed(app, "w1", 1)
	w.after(60_000).must(settle(string(app)))
	if got := w.app(app).State; got != model.AppRunning {
		t.Fatalf("at the limit it is %s, want RUNNING", got)
	}
	if !w.v().MayFallDue() {
		t.Error("nothing may fall due, although it has a limit")
	}
	w.after(1)
	if due := w.v().Due(w.tick); len(due) != 1 || due[0] != app {
		t.Errorf("due = %v, want the application", due)
	}
	w.must(settle(string(app), "nonsense"))
	a := w.app(app)
	if a.State != model.AppFailed || a.ExitCode != 124 || !strings.Contains(a.Reason, "longer than 1m0s") {
		t.Errorf("app = %s, code %d, %q; want FAILED, 124 and the limit", a.State, a.ExitCode, a.Reason)
	}
	if e := w.executor(app, 0); e.State != model.ExecutorKilling {
		t.Errorf("executor is %s, want KILLING", e.State)
	}
}

func TestEndedApplicationsAreKeptUpToALimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.f.check = false
	held := w.must(withID(regApp(driverSpec()), "held", 0)).App
	w.placed(held, "w1", 1)
	w.must(killApp(held))
	var ids []model.AppID
	for range model.MaxEndedApps + 3 {
		id := w.after(1).must(regApp(driverSpec())).App
		w.must(killApp(id))
		ids = append(ids, id)
	}
	if _, ok := w.v().App(ids[2]); ok {
		t.Error("one of the oldest is still kept")
	}
	if _, ok := w.v().App(ids[3]); !ok {
		t.Error("one within the limit is gone")
	}
	if got := w.v().CountEnded(); got != model.MaxEndedApps+1 {
		t.Errorf("%d are kept, want %d and the one whose executor may still run", got, model.MaxEndedApps+1)
	}
	var newest model.AppID
	w.v().EndedApps(func(a *model.App) bool { newest = a.ID; return false })
	if newest != ids[len(ids)-1] {
		t.Errorf("the newest is %s, want %s", newest, ids[len(ids)-1])
	}
	// Its executor ends: now it is the oldest, and goes.
	w.report1("w1", ended(held, 0, model.ExecutorKilled, model.CauseKill, -1, 9))
	if _, ok := w.v().App(held); ok {
		t.Error("the oldest is kept beyond the limit")
	}
	if _, ok := w.v().AppByRequest("held"); ok {
		t.Error("its request is still indexed")
	}
	if err := w.v().CheckInvariants(); err != nil {
		t.Error(err)
	}
}

func TestEndedExecutorsAreKeptUpToALimitAndThenCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.f.check = false
	app := w.must(regApp(driverSpec())).App
	const n = model.MaxFinishedExecutors + 10
	for range n {
		id := w.placed(app, "w1", 1)
		w.report1("w1", ended(app, id, model.ExecutorKilled, model.CauseKill, -1, 9))
	}
	a := w.app(app)
	if len(a.Finished) != model.MaxFinishedExecutors || a.FinishedCount[model.CauseKill] != 10 || a.Finished[0].ID != 10 {
		t.Errorf("%d kept from %d, %v counted; want %d from 10, 10 counted", len(a.Finished), a.Finished[0].ID, a.FinishedCount, model.MaxFinishedExecutors)
	}
	w.must(killApp(app))
	a = w.app(app)
	if len(a.Finished) != model.MaxFinishedExecutorsEnded || a.FinishedCount[model.CauseKill] != n-model.MaxFinishedExecutorsEnded {
		t.Errorf("after the end %d kept, %v counted", len(a.Finished), a.FinishedCount)
	}
	if err := w.v().CheckInvariants(); err != nil {
		t.Error(err)
	}
}

func TestMutatingCallsLeaveAuditLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.must(killExecs(app, 0))
	w.must(killApp(app))
	w.must(setting(model.SettingDefaultCores, "2"))
	w.must(leave("w1", 1))
	var got []string
	for _, l := range w.v().Audit(0) {
		got = append(got, strings.TrimSpace(l.Principal+" "+l.Action+" "+l.Object))
	}
	want := []string{
		"leave worker w1", "ann set setting default_cores=2", fmt.Sprintf("ann kill app %s", app),
		fmt.Sprintf("kill executor %s/0", app), fmt.Sprintf("ann register app %s", app), "register worker w1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if lines := w.v().Audit(2); len(lines) != 2 {
		t.Errorf("%d lines for a limit of 2", len(lines))
	}
}

func TestANoteOnAnApplicationIsShownUntilItIsTakenBackOrTheApplicationEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.must(regApp(driverSpec())).App
	reason := func() string {
		a, ok := w.v().App(app)
		if !ok {
			t.Fatal("the application is gone")
		}
		return a.Reason
	}
	w.must(noteApp(app, "left alone"))
	if got := reason(); got != "left alone" {
		t.Errorf("the reason is %q", got)
	}
	before := w.v().HashString()
	if res := w.must(noteApp(app, "left alone")); !res.Repeated || w.v().HashString() != before {
		t.Error("the same note again changed something")
	}
	w.must(noteApp(app, ""))
	if got := reason(); got != "" {
		t.Errorf("the reason is %q after the note was taken back", got)
	}
	w.must(noteApp(app, "left alone"))
	w.must(finish(app, model.AppFinished, 0))
	if got := reason(); got == "left alone" {
		t.Error("an application that has ended is still noted")
	}
	if res := w.do(noteApp(app, "late"))[0]; res.Rejection != model.RejectAppEnded {
		t.Errorf("a note on an application that has ended: %+v", res)
	}
	if res := w.do(noteApp("app-20261201044001-0099", "x"))[0]; res.Rejection != model.RejectUnknownApp {
		t.Errorf("a note on an unknown application: %+v", res)
	}
}
