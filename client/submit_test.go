package client

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func specs(n int) []model.AppSpec {
	out := make([]model.AppSpec, n)
	for i := range out {
		out[i] = spec
	}
	return out
}

func TestABatchTakesEffectOnceAlthoughAnswersAreLost(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	var calls atomic.Int64
	m := fc.master(t, func(m *fakeMaster) {
		m.afterCommit = func() error {
			if calls.Add(1)%3 == 1 {
				m.lis.cut()
			}
			return nil
		}
		m.verdicts = func(v []rpc.SubmissionVerdict) {
			if calls.Load()%3 == 1 { // and one that says so itself
				v[len(v)-1] = rpc.SubmissionVerdict{Err: fmt.Errorf("%w: time-out", model.ErrOutcomeUnknown)}
			}
		}
	})
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	const n = 3*rpc.MaxSubmissions + 5
	apps := map[model.AppID]bool{}
	for i, v := range c.RegisterApps(within(t, 20*time.Second), specs(n)) {
		if v.Err != nil || apps[v.App] {
			t.Fatalf("submission %d: %+v", i, v)
		}
		apps[v.App] = true
	}
	if len(fc.answers) != n {
		t.Errorf("%d applications for %d submissions", len(fc.answers), n)
	}
	repeated := 0
	for _, times := range fc.calls {
		if times > 1 {
			repeated++
		}
	}
	if repeated == 0 {
		t.Error("no submission was repeated: the test cut nothing")
	}
}

func TestABadSubmissionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, nil)
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	list := specs(3)
	list[1].Name = "bad"
	got := c.RegisterApps(within(t, 10*time.Second), list)
	if got[0].Err != nil || got[2].Err != nil || !errors.Is(got[1].Err, model.ErrInvalid) {
		t.Errorf("got %+v", got)
	}
	if len(fc.calls) != 2 {
		t.Errorf("%d request ids arrived", len(fc.calls))
	}
}

func TestABatchWithAnOldBaseIsRenewedUnlessItMayHaveBeenDone(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	var unsure atomic.Bool
	m := fc.master(t, func(m *fakeMaster) {
		m.verdicts = func(v []rpc.SubmissionVerdict) {
			if unsure.CompareAndSwap(true, false) {
				v[0] = rpc.SubmissionVerdict{Err: model.ErrOutcomeUnknown}
				fc.mu.Lock()
				defer fc.mu.Unlock()
				fc.oldest = fc.index + 1000 // what was remembered is forgotten
				clear(fc.answers)
			}
		}
	})
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	if v := c.RegisterApps(within(t, 10*time.Second), specs(1)); v[0].Err != nil {
		t.Fatal(v[0].Err)
	}
	fc.mu.Lock()
	fc.index, fc.oldest = 100, 50
	fc.mu.Unlock()
	if v := c.RegisterApps(within(t, 10*time.Second), specs(2)); v[0].Err != nil || v[1].Err != nil {
		t.Errorf("an old base was not renewed: %v, %v", v[0].Err, v[1].Err)
	}
	unsure.Store(true)
	v := c.RegisterApps(within(t, 10*time.Second), specs(1))
	if !errors.Is(v[0].Err, model.ErrOutcomeUnknown) {
		t.Errorf("a submission that may have been done was told as %v", v[0].Err)
	}
}
