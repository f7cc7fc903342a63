package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// TestBrokenStatesAreFound breaks one rule at a time behind the back of the
// commands, and expects the checker to name it.
func TestBrokenStatesAreFound(t *testing.T) {
	t.Parallel()
	app := func(change func(*model.App)) func(*tx) {
		return func(t *tx) { change(t.editApp(1)) }
	}
	worker := func(id model.WorkerID, change func(*model.Worker)) func(*tx) {
		return func(t *tx) { change(t.editWorker(id)) }
	}
	executor := func(change func(*model.Executor)) func(*tx) {
		return func(t *tx) {
			a, _ := t.findApp(sampleApp)
			change(t.editExecutor(a, 0))
		}
	}
	for _, tc := range []struct {
		name string
		bend func(*tx)
		want string
	}{
		{"a worker uses more than it offers", worker("w1", func(w *model.Worker) { w.Offer.Cores = 1 }), "worker w1: uses"},
		{"a worker is marked overcommitted and is not", worker("w1", func(w *model.Worker) { w.Overcommitted = true }), "worker w1: uses"},
		{"a gone worker holds executors", worker("w1", func(w *model.Worker) { w.State = model.WorkerDead }), "is DEAD and holds"},
		{"a worker has a state of its own", worker("w1", func(w *model.Worker) { w.State = "SLEEPY" }), `state "SLEEPY"`},
		{"a book says more than the executors hold", func(t *tx) { t.editUsage("w1").Cores++ }, "its book says"},
		{"a book for nothing", func(t *tx) { t.editUsage("w9").Cores++ }, "a book for nothing"},
		{"an application miscounts its live executors", app(func(a *model.App) { a.Live[0]++ }), "counts live"},
		{"an application miscounts its cores", app(func(a *model.App) { a.CoresGranted-- }), "counts live"},
		{"an ended application has live executors", app(func(a *model.App) { a.State = model.AppKilled }), "with live executors"},
		{"a waiting application has had executors", app(func(a *model.App) { a.State = model.AppWaiting }), "is WAITING after"},
		{"an application with a number to come", func(t *tx) { t.meta.nextApp = 1 }, "the next is 1"},
		{"an ended executor appears twice", app(func(a *model.App) { a.Finished = append(a.Finished, a.Finished[0]) }), "out of place"},
		{"an executor that was never placed", app(func(a *model.App) { a.NextExecutor = 0 }), "the next id is 0"},
		{"an executor of no application", func(t *tx) { t.apps.remove(numKey(1)) }, "its application does not exist"},
		{"an executor on no worker", func(t *tx) { t.workers.remove([]byte("w1")) }, "does not exist"},
		{"an executor that has ended among the others", executor(func(e *model.Executor) { e.State = model.ExecutorLost }), "among the unfinished"},
		{"an executor of a profile that is not known", executor(func(e *model.Executor) { e.Profile = 5 }), "profile 5"},
		{"an executor of an incarnation to come", executor(func(e *model.Executor) { e.Incarnation = 9 }), "of incarnation 9"},
		{"an executor moved to another worker", executor(func(e *model.Executor) { e.Worker = "w2" }), "missing from the index"},
		{"an address is held twice", func(t *tx) {
			a, _ := t.findApp(sampleApp)
			t.editExecutor(a, 0).Resources = model.Resources{"gpu": {"0"}}
			t.editExecutor(a, 2).Resources = model.Resources{"gpu": {"0"}}
		}, "held twice"},
		{"a request in order that is not remembered", func(t *tx) { t.requests.remove([]byte("register-1")) }, "in order but not remembered"},
		{"a request from an index to come", func(t *tx) { t.remember("r9", Result{}); t.index = 2 }, "applied at index"},
		{"an application that is not found by its request", func(t *tx) { t.byReq.remove([]byte("register-1")) }, "is not found by its request"},
		{"an ended application out of the list", func(t *tx) {
			k, _, _ := t.ended.first()
			t.ended.remove(k)
		}, "missing from the ended ones"},
		{"a gone worker out of the list", func(t *tx) {
			k, _, _ := t.gone.first()
			t.gone.remove(k)
		}, "missing from the gone ones"},
		{"settings that are not valid", func(t *tx) { t.meta.settings = &model.Settings{DefaultCores: -1} }, "settings or counters"},
		{"a state hash that was not kept up", func(t *tx) { t.hash.add(Hash{hi: 1, lo: 1}) }, "state hash is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := furnished(t)
			x := begin(w.f.cur.Load(), w.index+1, 1<<40)
			tc.bend(x)
			err := (&View{s: x.commit()}).CheckInvariants()
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want ErrBroken with %q", err, tc.want)
			}
		})
	}
}

func TestABrokenInvariantStopsTheNode(t *testing.T) {
	t.Parallel()
	w := furnished(t)
	bad := *w.f.cur.Load()
	bad.hash.add(Hash{lo: 1})
	w.f.cur.Store(&bad)
	entry, err := EncodeBatch(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.f.Apply(w.index+1, entry); !errors.Is(err, ErrBroken) {
		t.Errorf("err = %v, want ErrBroken", err)
	}
	if w.v().Index() != w.index {
		t.Error("the entry was applied all the same")
	}
}

func TestManyComplaintsAreCutShort(t *testing.T) {
	t.Parallel()
	c := &checker{}
	for i := range 3 * maxComplaints {
		c.bad("complaint %d", i)
	}
	if len(c.errs) != maxComplaints || c.more != 2*maxComplaints {
		t.Errorf("%d complaints and %d more, want %d and %d", len(c.errs), c.more, maxComplaints, 2*maxComplaints)
	}
}
