//go:build linux

package workerd

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

func discardLogger() hclog.Logger { return hclog.NewNullLogger() }

// memoryRecorder keeps records in *records, if that is not nil.
type recorderFunc func(...journalRecord) error

func (f recorderFunc) append(r ...journalRecord) error { return f(r...) }

func memoryRecorder(records *[]journalRecord) recorder {
	return recorderFunc(func(r ...journalRecord) error {
		if records != nil {
			*records = append(*records, r...)
		}
		return nil
	})
}

var start = time.Date(2026, 11, 30, 6, 15, 0, 0, time.UTC)

func testTable() *table { return newTable(discardLogger(), memoryRecorder(nil), newReports(1)) }

func launchOf(r model.ExecutorRef) *model.LaunchOrder {
	return &model.LaunchOrder{Ref: r, Spec: model.AppSpec{Kind: model.AppKindCommand}, MemoryMiB: 512}
}

func kinds(effects []effect) []effectKind {
	var out []effectKind
	for _, e := range effects {
		out = append(out, e.kind)
	}
	return out
}

// said returns what waits to be reported of r.
func (t *table) said(r model.ExecutorRef) model.ExecutorReport {
	if p := t.reports.pending[r]; p != nil {
		return p.report
	}
	return model.ExecutorReport{}
}

func wantKinds(t *testing.T, what string, got []effect, want ...effectKind) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(got)); diff != "" {
		t.Errorf("%s: effects (-want +got):\n%s", what, diff)
	}
}

func running(tab *table, r model.ExecutorRef, pid int) []effect {
	return tab.started(r, keeper.Started{Proc: keeper.Proc{PID: pid}}, start)
}

func TestALaunchOrderedTwiceStartsOnce(t *testing.T) {
	tab := testTable()
	wantKinds(t, "first", tab.launch(launchOf(ref(0))), effectStart)
	wantKinds(t, "second, while starting", tab.launch(launchOf(ref(0))))
	running(tab, ref(0), 10)
	wantKinds(t, "third, while running", tab.launch(launchOf(ref(0))))
	tab.exited(ref(0), 10, keeper.Exit{})
	wantKinds(t, "fourth, after its end", tab.launch(launchOf(ref(0))))
	tab.reports.pending = map[model.ExecutorRef]*pendingReport{}
	wantKinds(t, "acknowledged", tab.acknowledged(ref(0)), effectForget)
	wantKinds(t, "fifth, after the acknowledgement", tab.launch(launchOf(ref(0))))
	if got := tab.said(ref(0)).State; got != model.ExecutorExited {
		t.Errorf("the answer to the fifth is %q, want EXITED", got)
	}
}

func TestAKillBeatsALaunchInAnyOrder(t *testing.T) {
	kill := &model.KillOrder{Ref: ref(0), GraceMilli: 1000, Reason: "no longer wanted"}
	t.Run("the kill comes first", func(t *testing.T) {
		tab := testTable()
		wantKinds(t, "kill", tab.killOrder(kill))
		wantKinds(t, "launch", tab.launch(launchOf(ref(0))))
		if got := tab.said(ref(0)); got.State != model.ExecutorKilled || got.Cause != model.CauseKill {
			t.Errorf("reported %+v, want KILLED", got)
		}
	})
	t.Run("the kill comes while the process is being started", func(t *testing.T) {
		tab := testTable()
		tab.launch(launchOf(ref(0)))
		wantKinds(t, "kill", tab.killOrder(kill))
		got := running(tab, ref(0), 9)
		wantKinds(t, "started", got, effectKill)
		if got[0].grace != time.Second {
			t.Errorf("grace %s, want 1s", got[0].grace)
		}
		tab.exited(ref(0), 9, keeper.Exit{Code: -1, Signal: 15})
		if got := tab.said(ref(0)); got.State != model.ExecutorKilled || got.Signal != 15 {
			t.Errorf("reported %+v, want KILLED by 15", got)
		}
	})
	t.Run("the start fails after the kill", func(t *testing.T) {
		tab := testTable()
		tab.launch(launchOf(ref(0)))
		tab.killOrder(kill)
		tab.startFailed(ref(0), errors.New("no such command"), false)
		if got := tab.said(ref(0)); got.State != model.ExecutorKilled {
			t.Errorf("reported %+v, want KILLED", got)
		}
	})
	t.Run("the worker was started anew between them", func(t *testing.T) {
		var records []journalRecord
		tab := newTable(discardLogger(), memoryRecorder(&records), newReports(1))
		tab.killOrder(kill)
		tab = testTable()
		tab.restore(records)
		tab.attach(nil, start)
		wantKinds(t, "launch", tab.launch(launchOf(ref(0))))
	})
}

func TestTheEndOfAProcessIsCalledByItsName(t *testing.T) {
	for _, c := range []struct {
		name  string
		kill  *killing
		exit  keeper.Exit
		state model.ExecutorState
		cause model.Cause
	}{
		{"exit 0 is clean", nil, keeper.Exit{}, model.ExecutorExited, model.CauseClean},
		{"another code is the app's failure", nil, keeper.Exit{Code: 3}, model.ExecutorFailed, model.CauseApp},
		{"a signal of its own is the app's failure", nil, keeper.Exit{Code: -1, Signal: 11}, model.ExecutorFailed, model.CauseApp},
		{"out of memory is the app's failure", nil, keeper.Exit{Code: -1, Signal: 9, OOMKilled: true}, model.ExecutorFailed, model.CauseApp},
		{"an order to end it makes it killed", &killing{}, keeper.Exit{Code: -1, Signal: 15, KillRequested: true}, model.ExecutorKilled, model.CauseKill},
		{"an order makes it killed whatever its code", &killing{}, keeper.Exit{KillRequested: true}, model.ExecutorKilled, model.CauseKill},
		{"with its worker it is lost", nil, keeper.Exit{Code: -1, Signal: 9, KillRequested: true}, model.ExecutorLost, model.CauseInfra},
		{"what ended before the worker told it to has its own end", &killing{infra: true}, keeper.Exit{}, model.ExecutorExited, model.CauseClean},
		{"so has what failed before", &killing{infra: true}, keeper.Exit{Code: 3}, model.ExecutorFailed, model.CauseApp},
		{"a signal as the worker stops may be anybody's", &killing{infra: true}, keeper.Exit{Code: -1, Signal: 15}, model.ExecutorLost, model.CauseInfra},
		{"when the worker stops it is lost", &killing{infra: true}, keeper.Exit{KillRequested: true}, model.ExecutorLost, model.CauseInfra},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &executor{ref: ref(0), kill: c.kill}
			if got := e.verdict(c.exit); got.State != c.state || got.Cause != c.cause || got.Reason == "" && c.kill == nil {
				t.Errorf("got %+v, want %s (%s)", got, c.state, c.cause)
			}
		})
	}
}

func TestACommandIsRunningOnceItHasLivedASecond(t *testing.T) {
	tab := testTable()
	tab.launch(launchOf(ref(0)))
	running(tab, ref(0), 9)
	if next := tab.settle(start.Add(999 * time.Millisecond)); !next.Equal(start.Add(time.Second)) || tab.said(ref(0)).State != model.ExecutorLaunching {
		t.Errorf("before: next look at %s, state %s", next, tab.said(ref(0)).State)
	}
	if next := tab.settle(start.Add(time.Second)); !next.IsZero() || tab.said(ref(0)).State != model.ExecutorRunning {
		t.Errorf("then: next look at %s, state %s", next, tab.said(ref(0)).State)
	}
	driver := launchOf(ref(1))
	driver.Spec.Kind = model.AppKindDriver
	tab.launch(driver)
	running(tab, ref(1), 10)
	tab.settle(start.Add(time.Hour))
	if got := tab.said(ref(1)).State; got != model.ExecutorLaunching {
		t.Errorf("an executor with a driver is %s by itself, want LAUNCHING", got)
	}
}

func TestScratchGoesWhenTheAppIsOverAndNothingOfItIsLeft(t *testing.T) {
	tab := testTable()
	tab.launch(launchOf(ref(0)))
	tab.launch(launchOf(ref(1)))
	running(tab, ref(0), 9)
	wantKinds(t, "app ended", tab.appEnded(app1))
	wantKinds(t, "first exit", tab.exited(ref(0), 9, keeper.Exit{}))
	wantKinds(t, "last one never started", tab.startFailed(ref(1), errors.New("x"), false), effectClean)
	wantKinds(t, "said again", tab.appEnded(app1), effectClean)
	tab.cleaned(app1)
	if tab.uses(app1) {
		t.Error("the app is still in use")
	}
}

func TestAfterARestartTheTableFollowsTheKeeper(t *testing.T) {
	var records []journalRecord
	tab := newTable(discardLogger(), memoryRecorder(&records), newReports(1))
	for i := range 4 {
		tab.launch(launchOf(ref(i)))
		running(tab, ref(i), 100+i)
	}
	tab.killOrder(&model.KillOrder{Ref: ref(2)})
	tab.exited(ref(3), 103, keeper.Exit{})

	tab = newTable(discardLogger(), memoryRecorder(&records), newReports(2))
	tab.restore(slices.Clone(records))
	if got := len(tab.processes()); got != 3 {
		t.Errorf("%d processes remembered, want 3", got)
	}
	stranger := ref(9)
	got := tab.attach([]keeper.Entry{
		{Key: ref(0).String(), State: keeper.StateRunning, Proc: keeper.Proc{PID: 100}},
		{Key: ref(2).String(), State: keeper.StateExited, Proc: keeper.Proc{PID: 102}, Exit: &keeper.Exit{Code: -1, Signal: 15, KillRequested: true}},
		{Key: ref(3).String(), State: keeper.StateExited, Exit: &keeper.Exit{}},
		{Key: stranger.String(), State: keeper.StateRunning, Proc: keeper.Proc{PID: 900}},
	}, start)
	wantKinds(t, "attach", got, effectKill)
	if got[0].ref != stranger {
		t.Errorf("killed %s, want the one nobody knows", got[0].ref)
	}
	var states []model.ExecutorState
	for _, r := range tab.inventory() {
		states = append(states, r.State)
	}
	want := []model.ExecutorState{model.ExecutorLaunching, model.ExecutorLost, model.ExecutorKilled, model.ExecutorExited}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

// An answer would only bring the next order, until the worker has left.
func TestAStoppingWorkerStartsNothingAndBouncesNothing(t *testing.T) {
	tab := testTable()
	tab.launch(launchOf(ref(0)))
	running(tab, ref(0), 9)
	wantKinds(t, "stop", tab.stop(time.Second), effectKill)
	wantKinds(t, "launch", tab.launch(launchOf(ref(1))))
	if got := tab.said(ref(1)); got.State != "" {
		t.Errorf("reported %+v, want nothing", got)
	}
	if tab.live() != 1 {
		t.Errorf("%d live, want 1", tab.live())
	}
}

// Any sequence of orders and events, with restarts of the worker between them: no executor is
// started twice or after a kill, a final report never changes, and the journal gives back the same
// table.
func TestOrdersInAnySequenceStartNothingTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var records []journalRecord
		tab := newTable(discardLogger(), memoryRecorder(&records), newReports(1))
		starts := map[model.ExecutorRef]int{}
		killed := map[model.ExecutorRef]bool{}
		alive := map[model.ExecutorRef]bool{} // in the imaginary keeper
		final := map[model.ExecutorRef]model.ExecutorReport{}
		do := func(effects []effect) {
			for _, e := range effects {
				if e.kind == effectStart {
					starts[e.ref]++
					if killed[e.ref] {
						r.Fatalf("%s started after a kill", e.ref)
					}
				}
			}
		}
		for range 60 {
			x := ref(rapid.IntRange(0, 3).Draw(r, "executor"))
			switch rapid.IntRange(0, 8).Draw(r, "what") {
			case 0, 1:
				do(tab.launch(launchOf(x)))
			case 2:
				killed[x] = true
				do(tab.killOrder(&model.KillOrder{Ref: x}))
			case 3:
				if e := tab.execs[x]; e != nil && e.starting {
					alive[x] = true
					do(running(tab, x, 5))
				}
			case 4:
				do(tab.startFailed(x, errors.New("no"), false))
			case 5:
				if alive[x] {
					delete(alive, x)
					do(tab.exited(x, 5, keeper.Exit{}))
				}
			case 6:
				do(tab.acknowledged(x))
			case 7:
				tab.settle(start.Add(time.Hour))
			case 8:
				tab = newTable(discardLogger(), memoryRecorder(&records), newReports(1))
				tab.restore(slices.Clone(records))
				var entries []keeper.Entry
				for k := range alive {
					entries = append(entries, keeper.Entry{Key: k.String(), State: keeper.StateRunning})
				}
				do(tab.attach(entries, start))
				copied := testTable()
				copied.restore(tab.records())
				if diff := cmp.Diff(tab.inventory(), copied.inventory()); diff != "" {
					r.Fatalf("compacted journal differs:\n%s", diff)
				}
			}
			for _, report := range tab.inventory() {
				if was, ok := final[report.Ref]; ok && !cmp.Equal(was, report) {
					r.Fatalf("the end of %s changed: %+v, then %+v", report.Ref, was, report)
				}
				if report.State.Terminal() {
					final[report.Ref] = report
				}
			}
			for k, n := range starts {
				if n > 1 {
					r.Fatalf("%s was started %d times", k, n)
				}
			}
		}
	})
}

func TestReportsAreRepeatedUntilAcknowledged(t *testing.T) {
	q := newReports(3)
	put := func(n int, s model.ExecutorState) { q.put(model.ExecutorReport{Ref: ref(n), State: s}) }
	send := func(now time.Time) *model.WorkerReport {
		m, _ := q.peek(now)
		if m != nil {
			q.sent(m, now)
		}
		return m
	}
	put(0, model.ExecutorLaunching)
	put(1, model.ExecutorLaunching)
	first := send(start)
	if first.Seq != 1 || len(first.Executors) != 2 || first.Incarnation != 3 {
		t.Fatalf("first message %+v", first)
	}
	if m := send(start.Add(reportRepeat - 1)); m != nil {
		t.Errorf("repeated too soon: %+v", m)
	}
	put(0, model.ExecutorRunning)
	if m := send(start.Add(1)); m.Seq != 2 || len(m.Executors) != 1 {
		t.Errorf("second message %+v, want one executor under 2", m)
	}
	if done := q.ack(1); !slices.Equal(done, []model.ExecutorRef{ref(1)}) {
		t.Errorf("acknowledged %v, want only what has not changed since", done)
	}
	if m := send(start.Add(1 + reportRepeat)); m.Seq != 3 || len(m.Executors) != 1 {
		t.Errorf("repetition %+v, want one executor under 3", m)
	}
	q.session(3)
	if m := send(start.Add(2 + reportRepeat)); m.Seq != 4 {
		t.Errorf("on a new session %+v, want 4", m)
	}
	q.session(4)
	if m := send(start.Add(3 + reportRepeat)); m.Seq != 1 || m.Incarnation != 4 {
		t.Errorf("of a new incarnation %+v, want 1", m)
	}
	q.ack(1)
	if q.waiting() != 0 {
		t.Errorf("%d still waiting", q.waiting())
	}
	for i := range MaxReportsPerMessage + 5 {
		put(i, model.ExecutorRunning)
	}
	if m := send(start); len(m.Executors) != MaxReportsPerMessage {
		t.Errorf("%d reports in one message, want %d", len(m.Executors), MaxReportsPerMessage)
	}
	if m := send(start); len(m.Executors) != 5 {
		t.Errorf("%d reports in the next, want 5", len(m.Executors))
	}
}

// The process of the journal is somebody else's by now, so its keeper does not
// have it: the executor is lost, and no effect concerns a process.
func TestPR11AnExecutorWhoseNumberBelongsToAStrangerIsLost(t *testing.T) {
	tab := testTable()
	stranger := keeper.Proc{PID: 4711, StartTicks: 1, BootID: "before"}
	tab.restore([]journalRecord{
		{Kind: recordLaunch, Ref: ref(0), Run: model.AppKindCommand, MemoryMiB: 512},
		{Kind: recordStart, Ref: ref(0), Proc: &stranger},
	})
	for _, e := range tab.attach(nil, start) {
		if e.kind == effectKill {
			t.Errorf("effect %v would send a signal", e)
		}
	}
	if got := tab.said(ref(0)).State; got != model.ExecutorLost {
		t.Errorf("state: got %s, want %s", got, model.ExecutorLost)
	}
}
