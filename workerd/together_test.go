//go:build linux

package workerd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/model"
)

// gatheringAgent is an agent with a journal on disk and without processes, whose loop is the test.
func gatheringAgent(t *testing.T) (*agent, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	opened, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.journal.close() })
	rep := newReports(1)
	a := &agent{
		log: discardLogger(), fence: testFence(t, filepath.Join(t.TempDir(), "fence")), reports: rep, journal: opened.journal,
		table: newTable(discardLogger(), opened.journal, rep), keepers: newKeepers(discardLogger(), nil, "worker-1"),
		calls: make(chan func()), orders: make(chan model.WorkerDown, maxDownQueue), done: make(chan struct{}), slots: make(chan struct{}, 1),
	}
	a.keepers.ctx = t.Context()
	a.fence.session(1)
	return a, path
}

func launchesFrom(n int) (orders []model.WorkerDown) {
	for i := range n {
		o := launchOf(model.ExecutorRef{App: "app-20261130061500-0001", Executor: model.ExecutorID(i)})
		o.Fence = model.Fence{Cluster: model.ClusterIdentity{ID: "c", EpochID: 1}, Term: 1, Incarnation: 1, ViewIndex: 1}
		orders = append(orders, model.WorkerDown{Launch: o})
	}
	return orders
}

func journaled(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, _, err := scanJournal(b)
	if err != nil {
		t.Fatal(err)
	}
	return len(records)
}

func TestOrdersThatWaitTogetherAreInTheJournalBeforeAnythingStarts(t *testing.T) {
	a, path := gatheringAgent(t)
	const n = 10
	orders := launchesFrom(n)
	for _, d := range orders[1:] {
		a.orders <- d
	}
	a.together(func() {
		a.obey(orders[0])
		if got := journaled(t, path); got != 0 || len(a.effects) != 1 {
			t.Errorf("while more orders wait, %d records are written and %d starts noted, want 0 and 1", got, len(a.effects))
		}
	})
	if got := journaled(t, path); got != n {
		t.Errorf("%d launches are in the journal, want %d", got, n)
	}
	// Without a keeper each start comes back as lost, by a job: they have begun now.
	for len(a.reports.pending) < n {
		a.together(<-a.calls)
	}
	a.jobs.Wait()
	if got := journaled(t, path); got != 2*n {
		t.Errorf("%d records after the ends, want %d", got, 2*n)
	}
}

func TestNothingStartsThatTheJournalDoesNotHave(t *testing.T) {
	a, _ := gatheringAgent(t)
	if err := a.journal.close(); err != nil {
		t.Fatal(err)
	}
	orders := launchesFrom(3)
	for _, d := range orders[1:] {
		a.orders <- d
	}
	a.together(func() { a.obey(orders[0]) })
	a.jobs.Wait() // none: else it would wait for the loop
	for i, d := range orders {
		r := a.table.said(d.Launch.Ref)
		if r.State != model.ExecutorFailed || r.Cause != model.CauseStart {
			t.Errorf("launch %d is reported as %s (%s), want FAILED at the start", i, r.State, r.Cause)
		}
	}
}

func TestWhoeverWaitsForTheAgentWaitsForTheJournal(t *testing.T) {
	a, path := gatheringAgent(t)
	order := launchesFrom(1)[0]
	got := make(chan string, 1)
	go func() {
		err := a.do(t.Context(), func() { a.obey(order) })
		b, readErr := os.ReadFile(path)
		records, _, decodeErr := scanJournal(b)
		got <- fmt.Sprint(len(records), err, readErr, decodeErr)
	}()
	a.together(<-a.calls)
	if s := <-got; s != "1 <nil> <nil> <nil>" {
		t.Errorf("when the call had returned, the journal had: %s", s)
	}
	a.together(<-a.calls) // the start that failed
	a.jobs.Wait()
}

func TestOrdersOfASessionThatHasEndedAreNotLost(t *testing.T) {
	a, path := gatheringAgent(t)
	for _, d := range launchesFrom(2) {
		if err := a.order(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	closed := make(chan struct{})
	go func() { a.closed(); close(closed) }()
	a.together(<-a.calls)
	<-closed
	if got := journaled(t, path); got != 2 || len(a.orders) != 0 {
		t.Errorf("%d launches are in the journal and %d orders wait, want 2 and 0", got, len(a.orders))
	}
	for len(a.reports.pending) < 2 {
		a.together(<-a.calls)
	}
	a.jobs.Wait()
}

func TestTheSessionOfAnAgentWhoseDiskHangsHangsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := gatheringAgent(t)
		hang := make(chan struct{})
		over := make(chan struct{})
		go func() {
			defer close(over)
			a.together(func() { <-hang })
			a.together(<-a.calls) // the session's, which waits for it
		}()
		synctest.Wait()
		orders := launchesFrom(2)
		if err := a.order(t.Context(), orders[0]); err != nil {
			t.Error(err)
		}
		time.Sleep(agentPatience + time.Millisecond)
		taken := make(chan struct{})
		go func() {
			defer close(taken)
			if err := a.order(t.Context(), orders[1]); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		select {
		case <-taken:
			t.Error("an order was taken for an agent that hangs")
		default:
		}
		close(hang)
		<-over
		<-taken
		for len(a.reports.pending) < 1 { // the first order was among what ran together
			a.together(<-a.calls)
		}
		a.finishOrders()
		for len(a.reports.pending) < 2 {
			a.together(<-a.calls)
		}
		a.jobs.Wait()
	})
}
