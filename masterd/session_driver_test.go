package masterd

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// What a driver is told of executors named by the hub is what it would be told by a look at all.
func TestADriverIsToldTheSameByNameAsByALookAtEverything(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	spec := sleeper("two")
	spec.Executors, spec.Restart = 2, model.RestartNever // no replacement comes between two looks
	app, err := c.RegisterApp(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	var refs []model.ExecutorRef
	for range 2 {
		refs = append(refs, w.next("launch", isLaunch).Launch.Ref)
	}
	watch, unwatch := m.hub.watchExecutors(app.App)
	defer unwatch()
	watch.drain(nil)
	newSession := func() *driverSession {
		return &driverSession{l: m.leading.Load(), hello: model.DriverHello{App: app.App}, sent: map[model.ExecutorID]uint64{}}
	}
	byName, byLook := newSession(), newSession()
	first := byName.everything(m.fsm.View())
	if len(first) != 2 {
		t.Fatalf("the driver is told of %d executors at first, want 2: %+v", len(first), first)
	}
	byLook.everything(m.fsm.View())

	failed := model.ExecutorReport{Ref: refs[0], State: model.ExecutorFailed, Cause: model.CauseApp, ExitCode: 3, PID: 42, Reason: "exit code 3"}
	for seq, report := range []model.ExecutorReport{running(refs[0]), running(refs[1]), failed} {
		w.report(uint64(seq)+1, report) //nolint:gosec // small
		touched, all := watch.drain(nil)
		if all {
			t.Fatal("the hub says that everything has changed: this test shows nothing")
		}
		v := m.fsm.View()
		got, want := byName.some(v, touched), byLook.everything(v)
		byID := func(a, b model.DriverExecutor) int { return int(a.ID) - int(b.ID) }
		slices.SortFunc(got, byID)
		slices.SortFunc(want, byID)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("report %d of %s (-everything +by name):\n%s", seq+1, report.Ref, diff)
		}
		if !slices.ContainsFunc(got, func(e model.DriverExecutor) bool { return e.ID == report.Ref.Executor && e.State == report.State }) {
			t.Errorf("report %d: the driver is not told that %s is %s: %+v", seq+1, report.Ref, report.State, got)
		}
	}
	if _, told := byName.sent[refs[0].Executor]; told {
		t.Errorf("%s has ended and counts as unfinished still", refs[0])
	}
}
