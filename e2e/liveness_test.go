//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	workerKills     = 5
	replacedWithin  = 100 * time.Millisecond // from kill -9 to the committed replacement
	workerTimeout   = 10 * time.Second       // the default
	starvedFor      = time.Minute
	starvedRuns     = 50 * time.Millisecond // of each starvedCycle: 5 %
	starvedCycle    = time.Second
	shunnedWithin   = 1500 * time.Millisecond
	beforeTimeoutBy = 1500 * time.Millisecond // the last beat is up to a beat older than the stop
)

// replacedAfter waits on the leader until an application has count live
// executors and none on the worker, and returns how long after since that was
// committed.
func replacedAfter(t *testing.T, svc rpc.ClusterService, app model.AppID, after uint64, worker string, count int, since time.Time) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	for {
		v, err := svc.WaitApp(ctx, rpc.WaitAppRequest{App: app, After: after})
		if err != nil {
			t.Fatalf("wait for the replacement: %v", err)
		}
		if len(live(v)) == count && len(on(v, worker)) == 0 {
			return time.Since(since)
		}
		after = v.ChangeIndex
	}
}

// From the kill to the commit of the replacement, seen from outside: the
// session that breaks wakes the leader, two refused ports are the proof.
func TestAKilledWorkerIsReplacedWithinAHundredMilliseconds(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 4, cores: 4})
	e := newEars(t)
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	var took []time.Duration
	for n := range workerKills {
		v := c.awaitRunning(t, app, 4)
		victim := c.workers[n%len(c.workers)]
		if len(on(v, victim.ID)) == 0 {
			i := slices.IndexFunc(c.workers, func(w *node) bool { return len(on(v, w.ID)) > 0 })
			victim = c.workers[i]
		}
		svc := rpc.ClusterClient(e.to(t, c.leader(t)))
		since := time.Now()
		victim.proc.signal(t, syscall.SIGKILL)
		took = append(took, replacedAfter(t, svc, app, v.ChangeIndex, victim.ID, 4, since))
		victim.proc.awaitEnd(t, goneWithin)
		back := c.restart(t, victim)
		eventually(t, settleWithin, "the worker is ALIVE again", func() string {
			if w, _ := worker(c.status(t), back.ID); w.State != model.WorkerAlive {
				return string(w.State)
			}
			return ""
		})
	}
	report(t, "kill -9 of a worker to the committed replacement", took)
	slices.Sort(took)
	if half := took[len(took)/2]; half > replacedWithin {
		t.Errorf("half of the replacements took more than %s, want at most %s: %v", half, replacedWithin, took)
	}
}

// A worker that is stopped gets nothing new after a second and a half, and is
// replaced at worker_timeout.
func TestAStoppedWorkerGetsNothingNewAndIsReplacedAtItsTimeout(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2, cores: 8})
	e := newEars(t)
	svc := rpc.ClusterClient(e.to(t, c.leader(t)))
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 2)
	victim := c.workers[0]
	if len(on(v, victim.ID)) != 1 {
		t.Fatalf("%d executors are on %s, want the two spread", len(on(v, victim.ID)), victim.ID)
	}
	victim.stop(t)
	stopped := time.Now()
	steady(t, shunnedWithin, "it is ALIVE", func() string {
		if w, _ := worker(c.status(t), victim.ID); w.State != model.WorkerAlive {
			return string(w.State)
		}
		return ""
	})
	more := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	if got := on(c.awaitRunning(t, more, 4), victim.ID); len(got) > 0 {
		t.Errorf("%d executors were placed on a worker that says nothing", len(got))
	}
	took := replacedAfter(t, svc, app, v.ChangeIndex, victim.ID, 2, stopped)
	t.Logf("replaced %s after the stop", took.Round(time.Millisecond))
	if took < workerTimeout-beforeTimeoutBy {
		t.Errorf("replaced after %s, want not before worker_timeout (%s) without a beat", took, workerTimeout)
	}
	victim.cont(t)
	c.awaitRunning(t, app, 2)
}

// HA-27: a leader that gets 5 % of a processor for a minute, while the beats of
// its workers keep arriving, declares nobody dead.
func TestHA27AStarvedLeaderDeclaresNobodyDead(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{masters: 1, workers: 3})
	leader := c.leader(t)
	app := c.run(t, "submit", "--executors", "3", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 3))
	fates := func() map[model.WorkerID]uint64 {
		out := map[model.WorkerID]uint64{}
		for _, w := range c.status(t).Workers {
			if !w.State.Gone() {
				out[w.ID] = w.Incarnation // a worker that was declared dead comes back in another
			}
		}
		return out
	}
	workers := fates()
	turns := time.NewTicker(starvedCycle)
	defer turns.Stop()
	for range int(starvedFor / starvedCycle) {
		leader.stop(t)
		rest := time.NewTimer(starvedCycle - starvedRuns)
		<-rest.C
		leader.cont(t)
		<-turns.C
	}
	eventually(t, settleWithin, "every worker is ALIVE", func() string {
		for _, w := range c.status(t).Workers {
			if w.State != model.WorkerAlive {
				return fmt.Sprintf("%s is %s: %s", w.ID, w.State, w.Reason)
			}
		}
		return ""
	})
	if diff := cmp.Diff(workers, fates()); diff != "" {
		t.Errorf("workers were declared dead (incarnations, -before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before, pids(c.awaitRunning(t, app, 3))); diff != "" {
		t.Errorf("executors have changed (-before +after):\n%s", diff)
	}
}
