package masterd

import (
	"errors"
	"strings"
	"testing"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func TestABatchIsCommittedTogetherWithAVerdictForEach(t *testing.T) {
	m, ctx := startOne(t)
	base := m.fsm.View().Index()
	bad := sleeper("bad")
	bad.Command.Argv = nil
	subs := []rpc.Submission{
		{RequestID: "r-1", Base: base, Spec: sleeper("one")},
		{RequestID: "r-2", Base: base, Spec: bad},
		{RequestID: "r-1", Base: base, Spec: sleeper("one")}, // repeated within the batch
		{RequestID: "", Base: base, Spec: sleeper("nameless")},
		{RequestID: "r-3", Base: base, Spec: sleeper("three")},
		{RequestID: "r-4", Base: base + 1000, Spec: sleeper("of the future")},
	}
	got, err := clusterService{m.Master}.RegisterApps(ctx, rpc.CallInfo{Principal: "ann"}, subs)
	if err != nil {
		t.Fatal(err)
	}
	v := got.Verdicts
	if len(v) != len(subs) || got.LeaderAddr != m.GRPCAddr() {
		t.Fatalf("got %d verdicts, leader %s", len(v), got.LeaderAddr)
	}
	for _, i := range []int{0, 2, 4} {
		if v[i].Err != nil || v[i].App == "" || v[i].Token == "" {
			t.Errorf("submission %d: %+v", i, v[i])
		}
	}
	if v[0].App != v[2].App || v[0].App == v[4].App {
		t.Errorf("a repeated request id got %s after %s; another one got %s", v[2].App, v[0].App, v[4].App)
	}
	if v[0].Index != v[4].Index {
		t.Errorf("one batch was committed by entries %d and %d", v[0].Index, v[4].Index)
	}
	for _, i := range []int{1, 3} {
		if !errors.Is(v[i].Err, model.ErrInvalid) {
			t.Errorf("submission %d: got %v, want it invalid", i, v[i].Err)
		}
	}
	if !errors.Is(v[5].Err, model.ErrRequestExpired) || !strings.Contains(v[5].Err.Error(), "of the future") {
		t.Errorf("a base that does not exist: got %v", v[5].Err)
	}
	a, ok := m.fsm.View().App(v[0].App)
	if !ok || a.Principal != "ann" || a.RequestID != "r-1" {
		t.Errorf("the state has %+v", a)
	}
}

func TestAWorkerSessionIsToldWhichExecutorsChanged(t *testing.T) {
	h := newHub()
	w, unwatch := h.watchWorker("worker-a")
	defer unwatch()
	if _, all := w.drain(nil); !all {
		t.Error("a new watch does not begin with everything")
	}
	ref := model.ExecutorRef{App: "app-20261130061500-0001", Executor: 3}
	h.publish(7, []fsm.Change{
		{Kind: fsm.ChangeExecutor, App: ref.App, Executor: ref.Executor, Worker: "worker-a"},
		{Kind: fsm.ChangeExecutor, App: ref.App, Executor: 4, Worker: "worker-b"},
	})
	<-w.poke
	if refs, all := w.drain(nil); all || len(refs) != 1 || refs[0] != ref {
		t.Errorf("got %v, all %v", refs, all)
	}
	h.publish(8, []fsm.Change{{Kind: fsm.ChangeWorker, Worker: "worker-a"}})
	<-w.poke
	if refs, all := w.drain(nil); all || len(refs) != 0 {
		t.Errorf("a change of the worker's record named %v, all %v", refs, all)
	}
	many := make([]fsm.Change, maxWatchedRefs+1)
	for i := range many {
		many[i] = fsm.Change{Kind: fsm.ChangeExecutor, App: ref.App, Executor: model.ExecutorID(i), Worker: "worker-a"}
	}
	h.publish(9, many)
	if refs, all := w.drain(nil); !all || len(refs) > maxWatchedRefs {
		t.Errorf("a slow session was told %d by name, all %v", len(refs), all)
	}
	h.publish(10, nil)
	if _, all := w.drain(nil); !all {
		t.Error("a restored snapshot did not stand for everything")
	}
}

func TestThePlannerIsToldWhatChangedInOrder(t *testing.T) {
	h := newHub()
	r, unwatch := h.watchRecords()
	defer unwatch()
	if got := r.drain(); !got.All {
		t.Error("a new watch does not begin with everything")
	}
	h.publish(7, []fsm.Change{
		{Kind: fsm.ChangeExecutor, App: "app-2", Worker: "worker-b"},
		{Kind: fsm.ChangeApp, App: "app-1"},
		{Kind: fsm.ChangeExecutor, App: "app-2", Executor: 1, Worker: "worker-a"},
	})
	<-r.poke
	got := r.drain()
	if got.All || len(got.Apps) != 2 || got.Apps[0] != "app-1" || len(got.Workers) != 2 || got.Workers[0] != "worker-a" {
		t.Errorf("got %+v", got)
	}
	if got := r.drain(); got.All || len(got.Apps)+len(got.Workers) != 0 {
		t.Errorf("told twice: %+v", got)
	}
}

func TestADriverSessionIsToldWhichOfItsExecutorsChanged(t *testing.T) {
	h := newHub()
	const app = model.AppID("app-20261130061500-0001")
	w, unwatch := h.watchExecutors(app)
	defer unwatch()
	if _, all := w.drain(nil); !all {
		t.Error("a new watch does not begin with everything")
	}
	h.publish(7, []fsm.Change{
		{Kind: fsm.ChangeExecutor, App: app, Executor: 3, Worker: "worker-a"},
		{Kind: fsm.ChangeExecutor, App: "app-20261130061500-0002", Executor: 4, Worker: "worker-a"},
	})
	<-w.poke
	if refs, all := w.drain(nil); all || len(refs) != 1 || refs[0] != (model.ExecutorRef{App: app, Executor: 3}) {
		t.Errorf("got %v, all %v", refs, all)
	}
	h.publish(8, []fsm.Change{{Kind: fsm.ChangeApp, App: app}})
	<-w.poke
	if refs, all := w.drain(nil); all || len(refs) != 0 {
		t.Errorf("a change of the application's record named %v, all %v", refs, all)
	}
	h.publish(9, nil)
	if _, all := w.drain(nil); !all {
		t.Error("a restored snapshot did not stand for everything")
	}
}
