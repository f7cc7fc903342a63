//go:build linux

package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// driven is a cluster of 3 workers on which a driver has n executors.
func driven(c *testcluster.Cluster, n int) (leader *testcluster.Master, d *testcluster.Driver, refs []model.ExecutorRef) {
	c.StartMasters(3)
	c.StartWorkers(3)
	leader = c.Settled(20 * time.Second)
	c.AwaitWorkers(3, 10*time.Second)
	d = c.StartDriver("driven", n)
	return leader, d, c.Running(d.App(), n, 20*time.Second)
}

// end lets the driver finish its application.
func end(t *testing.T, d *testcluster.Driver) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.Finish(ctx, model.AppFinished, "done", 0); err != nil {
		t.Errorf("finish: %v", err)
	}
}

// work runs tasks, each of which must succeed.
func work(t *testing.T, c *testcluster.Cluster, d *testcluster.Driver, n int) {
	t.Helper()
	for range n {
		if r := c.Do(d, 10*time.Second, "/bin/true"); r.Outcome != model.TaskDone || r.ExitCode != 0 {
			t.Fatalf("task: %+v", r)
		}
	}
}

// TestSimHA32AnApplicationOutlivesTenMinutesWithoutMasters keeps driver and executors at work meanwhile.
func TestSimHA32AnApplicationOutlivesTenMinutesWithoutMasters(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		_, d, refs := driven(c, 8)
		for _, m := range c.Masters() {
			c.KillMaster(m)
		}
		for range 10 {
			time.Sleep(time.Minute)
			work(t, c, d, 4)
			if d.Ended() {
				t.Fatal("the driver has given up")
			}
		}
		for i := range 3 {
			c.StartMaster(i)
		}
		began := time.Now()
		c.Until("the application is RUNNING with the executors it had", 10*time.Second, func() error {
			leader, err := c.Leader()
			if err != nil {
				return err
			}
			if app, ok := leader.View().App(d.App()); !ok || app.State != model.AppRunning {
				return fmt.Errorf("application there %v, %+v", ok, app)
			}
			return errors.Join(c.Attached(), c.IsRunning(d.App(), 8))
		})
		t.Logf("in order %s after the masters came back", time.Since(began))
		// The time a leader gives everybody passes too.
		time.Sleep(time.Minute)
		same(t, c, d.App(), refs)
		work(t, c, d, 4)
		end(t, d)
	})
}

// TestSimHA41SilentlyDroppedPacketsAreNoticedByBothEnds cuts a worker from the leader, then an executor from its driver.
func TestSimHA41SilentlyDroppedPacketsAreNoticedByBothEnds(t *testing.T) {
	const limit = 20 * time.Second
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, d, _ := driven(c, 3)
		w := c.Worker(c.Rand.Intn(3))
		c.Net.Partition(leader.Host, w.Host)
		left, marked := false, false
		c.Until("worker and leader notice", limit, func() error {
			status, err := w.Status(context.Background())
			left = left || err == nil && status.Leader != leader.GRPCAddr()
			marked = marked || c.WorkerState(w) != model.WorkerAlive
			if !left || !marked {
				return fmt.Errorf("worker left the session: %v; leader saw the worker go: %v", left, marked)
			}
			return nil
		})
		c.Net.Heal()
		c.AwaitWorkers(3, limit)
		refs := c.Running(d.App(), 3, limit) // the leader may have replaced what was cut off

		var busy *testcluster.Worker
		for _, w := range c.Workers() {
			if len(w.Runs()) > 0 {
				busy = w
			}
		}
		c.Net.Partition(d.Host, busy.Host)
		dials := c.Dials(busy.Host)
		c.Until("executor and driver notice", limit, func() error {
			suspect := 0
			for _, e := range d.Executors(context.Background()) {
				if e.State == driver.ExecutorSuspect {
					suspect++
				}
			}
			if n := c.Dials(busy.Host) - dials; suspect != len(busy.Runs()) || n < len(busy.Runs()) {
				return fmt.Errorf("%d executors are suspect, %d have dialled again, of %d", suspect, n, len(busy.Runs()))
			}
			return nil
		})
		c.Net.Heal()
		work(t, c, d, 10)
		if now := c.Running(d.App(), 3, limit); !slices.Equal(now, refs) {
			t.Errorf("executors %v run, want %v: a cut of their driver shorter than its patience costs none", now, refs)
		}
		end(t, d)
	})
}
