package masterd

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// orderFence returns the fence of an order, false for what is none.
func orderFence(d model.WorkerDown) (model.Fence, bool) {
	switch {
	case d.Launch != nil:
		return d.Launch.Fence, true
	case d.Kill != nil:
		return d.Kill.Fence, true
	case d.AppEnded != nil:
		return d.AppEnded.Fence, true
	}
	return model.Fence{}, false
}

// A worker ignores an order with a lower view index than it has seen in the
// session, so two goroutines must not overtake each other with theirs: what is
// said only once (an end of an application, the kill of a stranger) would be
// lost.
func TestOrdersOfOneSessionAreSentInTheOrderOfTheirViews(t *testing.T) {
	m, ctx := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	const ended = 5000
	s := &workerSession{
		l: m.leading.Load(), hello: model.WorkerHello{Worker: w.id, Incarnation: 1},
		out:      make(chan model.WorkerDown),
		launched: make(map[model.ExecutorRef]time.Time),
		killed:   make(map[model.ExecutorRef]time.Time),
		apps:     make(map[model.AppID]struct{}),
		open:     make(map[model.ExecutorRef]struct{}),
		here:     make(map[model.AppID]int),
	}
	for n := range ended {
		s.apps[model.AppID(fmt.Sprintf("app-20261130061500-%04d", 100+n))] = struct{}{}
	}
	done := make(chan error, 2)
	go func() { done <- s.sync(ctx, nil, true) }()
	first, _ := orderFence(<-s.out)
	if err := m.propose(ctx, verdictCommand(verdict{worker: workerOf(t, m, w.id), state: model.WorkerUnreachable, reason: "moves the index"})); err != nil {
		t.Fatal(err)
	}
	stranger := running(model.ExecutorRef{App: "app-20261130061500-0099", Executor: 3})
	go func() { done <- s.killStrangers(ctx, []model.ExecutorReport{stranger}) }()
	highest := first.ViewIndex
	for range ended { // those that are left, and the kill
		select {
		case d := <-s.out:
			f, _ := orderFence(d)
			if f.ViewIndex < highest {
				t.Fatalf("got an order of view %d after one of view %d", f.ViewIndex, highest)
			}
			highest = f.ViewIndex
		case <-ctx.Done():
			t.Fatal("the orders did not come")
		}
	}
	if highest == first.ViewIndex {
		t.Error("the kill was not made from the newer view: this test shows nothing")
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func workerOf(t *testing.T, m *testMaster, id model.WorkerID) *model.Worker {
	t.Helper()
	w, ok := m.fsm.View().Worker(id)
	if !ok {
		t.Fatalf("worker %s is not registered", id)
	}
	return w
}
