//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/workerd"
)

const orderBound = 30 * time.Second

func drain(t *testing.T, c *testcluster.Cluster, w *testcluster.Worker, terms model.DrainTerms) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), orderBound)
	defer cancel()
	req := rpc.DrainRequest{Workers: rpc.WorkerChoice{IDs: []string{string(w.ID())}}, Terms: terms}
	if _, err := c.Client().DrainWorkers(ctx, req); err != nil {
		t.Fatalf("drain %s: %v", w.Host, err)
	}
}

func undrain(t *testing.T, c *testcluster.Cluster, w *testcluster.Worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), orderBound)
	defer cancel()
	if _, err := c.Client().UndrainWorkers(ctx, rpc.WorkerChoice{IDs: []string{string(w.ID())}}); err != nil {
		t.Fatalf("undrain %s: %v", w.Host, err)
	}
}

// offers waits until every master that is up says that so many cores of the worker can be placed on, at most for 2 s.
func offers(t *testing.T, c *testcluster.Cluster, w *testcluster.Worker, cores int) {
	t.Helper()
	c.Until(fmt.Sprintf("%s offers %d cores", w.Host, cores), 2*time.Second, func() error {
		for _, m := range c.Masters() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			r, err := c.Client(m).Workers(ctx)
			cancel()
			if err != nil {
				return err
			}
			for _, x := range r.Workers {
				if x.ID == w.ID() && x.CoresFree != cores {
					return fmt.Errorf("%s says %d, in state %s", m.Host, x.CoresFree, x.State)
				}
			}
		}
		return nil
	})
}

// processes counts the executors whose process lives, on all machines.
func processes(c *testcluster.Cluster) int {
	n := 0
	for _, w := range c.Workers() {
		n += len(w.Runs())
	}
	return n
}

// emptied waits until a worker is DRAINED while at least so many processes live at any moment.
func emptied(t *testing.T, c *testcluster.Cluster, w *testcluster.Worker, atLeast int, limit time.Duration) time.Duration {
	t.Helper()
	return c.Until(w.Host+" is DRAINED", limit, func() error {
		if n := processes(c); n < atLeast {
			t.Fatalf("%d processes are left of %d: one was lost before it was replaced", n, atLeast)
		}
		if state := c.WorkerState(w); state != model.WorkerDrained {
			return fmt.Errorf("it is %s with %v", state, c.OnWorker(w))
		}
		return nil
	})
}

// TestSimUX08AWorkerOffersWhatItShouldAfterEachStepOfADrain drains, cancels, drains with a deadline and restarts the
// worker in the middle, and has the leader die between the steps.
func TestSimUX08AWorkerOffersWhatItShouldAfterEachStepOfADrain(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		_, app, _ := busy(c)
		w := c.Worker(c.Rand.Intn(3))
		had := len(c.OnWorker(w))
		die := func() {
			leader := c.AwaitLeader(10 * time.Second)
			c.KillMaster(leader)
			c.AwaitLeader(10*time.Second, leader)
			c.RestartMaster(leader)
		}
		drain(t, c, w, model.DrainTerms{Reason: "step 1"})
		offers(t, c, w, 0)
		undrain(t, c, w)
		c.Running(app, 6, 30*time.Second) // whatever was begun is settled
		offers(t, c, w, 4-len(c.OnWorker(w)))

		drain(t, c, w, model.DrainTerms{Reason: "step 2", DeadlineMilli: (10 * time.Minute).Milliseconds()})
		die()
		offers(t, c, w, 0)
		took := emptied(t, c, w, 6, time.Minute)
		t.Logf("%d executors moved in %s", had, took)
		c.Running(app, 6, 20*time.Second)

		c.StopWorker(w)
		c.RestartWorker(w)
		emptied(t, c, w, 6, 20*time.Second)
		die()
		offers(t, c, w, 0)
		c.Settled(20 * time.Second)

		undrain(t, c, w)
		offers(t, c, w, 4)
		c.AwaitWorkers(3, 10*time.Second)
		c.Running(app, 6, 10*time.Second)
	})
}

// Copies on a drained worker run on while there is no room for others in their place, under the next leader too. As soon as
// there is, they go, and no fewer run at any moment.
func TestSimCopiesOnADrainedWorkerRunOnUntilThereIsRoomForOthers(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		app := c.Submit(testcluster.Sleepers("full", 8))
		before := c.Running(app, 8, 10*time.Second)
		w := c.Worker(0)
		drain(t, c, w, model.DrainTerms{Reason: "repair"})
		time.Sleep(5 * time.Second)
		failover(c)
		time.Sleep(5 * time.Second)
		if n, starts := processes(c), c.Starts(); n != 8 || starts != 8 {
			t.Fatalf("%d processes run and %d were started, want the same 8: %v", n, starts, before)
		}
		c.StartWorkerOn("w3", workerd.Config{Cores: 4, MemoryMiB: 16384})
		emptied(t, c, w, 8, 30*time.Second)
		c.Running(app, 8, 10*time.Second)
	})
}

// TestSimTheDeadlineOfADrainSurvivesAFailover leaves copies that do a piece of work alone until then.
func TestSimTheDeadlineOfADrainSurvivesAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(2)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		spec := testcluster.Sleepers("pieces", 4)
		spec.Completions = 100
		app := c.Submit(spec)
		c.Running(app, 4, 10*time.Second)
		w := c.Worker(c.Rand.Intn(2))
		before := c.OnWorker(w)
		if len(before) == 0 {
			t.Fatal("nothing runs on the worker")
		}
		began := time.Now()
		drain(t, c, w, model.DrainTerms{DeadlineMilli: (40 * time.Second).Milliseconds()})
		time.Sleep(10 * time.Second)
		leader := c.AwaitLeader(10 * time.Second)
		c.KillMaster(leader)
		c.AwaitLeader(10*time.Second, leader)
		time.Sleep(20 * time.Second)
		if now := c.OnWorker(w); len(now) != len(before) {
			t.Errorf("before the deadline %v run of %v", now, before)
		}
		emptied(t, c, w, 0, time.Minute-time.Since(began))
		if took := time.Since(began); took < 40*time.Second || took > 55*time.Second {
			t.Errorf("the worker is drained after %s, want just after 40 s", took)
		}
		c.RestartMaster(leader)
		c.Settled(20 * time.Second)
		c.Running(app, 4, 20*time.Second)
		undrain(t, c, w)
		c.AwaitWorkers(2, 10*time.Second)
		c.Kill(app)
	})
}

// TestSimADriversExecutorIsReplacedBeforeItLeavesADrainedWorker loses no task meanwhile.
func TestSimADriversExecutorIsReplacedBeforeItLeavesADrainedWorker(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(2)
		leader := c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		d := c.StartDriver("job", 1)
		first := c.Running(d.App(), 1, 10*time.Second)
		var w *testcluster.Worker
		for _, x := range c.Workers() {
			if len(c.OnWorker(x)) > 0 {
				w = x
			}
		}
		drain(t, c, w, model.DrainTerms{})
		c.KillMaster(leader)
		if r := c.Do(d, time.Minute, "true"); r.Reruns != 0 {
			t.Errorf("the task ran %d times", r.Reruns+1)
		}
		emptied(t, c, w, 1, time.Minute)
		second := c.Running(d.App(), 1, 20*time.Second)
		if second[0] == first[0] {
			t.Errorf("%v still runs", first)
		}
		if r := c.Do(d, time.Minute, "true"); r.Reruns != 0 {
			t.Errorf("the task ran %d times", r.Reruns+1)
		}
		c.RestartMaster(leader)
		c.Settled(20 * time.Second)
		undrain(t, c, w)
		c.AwaitWorkers(2, 10*time.Second)
	})
}
