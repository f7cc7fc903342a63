//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// driverSpec is a driver in cluster mode of one core.
func driverSpec(supervise bool, policy model.DisconnectPolicy, argv ...string) model.DriverSpec {
	return model.DriverSpec{
		Name: "driver", Cores: 1, MemoryMiB: 64, Supervise: supervise, Disconnect: policy, Command: model.Command{Argv: argv},
	}
}

func submitDriver(t *testing.T, c *testcluster.Cluster, spec model.DriverSpec) model.DriverID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	reply, err := c.Client().SubmitDriver(ctx, spec)
	if err != nil {
		t.Fatalf("submit driver: %v", err)
	}
	return reply.Driver
}

func killDriver(t *testing.T, c *testcluster.Cluster, id model.DriverID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Client().KillDriver(ctx, id, "test"); err != nil {
		t.Fatalf("kill %s: %v", id, err)
	}
}

// driverIs waits until a driver is in a state with so many attempts and, if it runs, its process too.
func driverIs(c *testcluster.Cluster, id model.DriverID, state model.DriverState, attempt int, limit time.Duration) time.Duration {
	return c.Until(fmt.Sprintf("%s is %s with attempt %d", id, state, attempt), limit, func() error {
		v := c.View()
		d, ok := v.Driver(id)
		if !ok {
			return fmt.Errorf("it is not known")
		}
		if d.State != state || d.Attempt != attempt {
			return fmt.Errorf("it is %s with attempt %d (%s)", d.State, d.Attempt, d.Reason)
		}
		if e, present := v.Attempt(d); state == model.DriverRunning && (!present || e.State != model.ExecutorRunning) {
			return fmt.Errorf("its process is not RUNNING")
		}
		return nil
	})
}

// newLeader kills the leader, waits for the next one, and starts the dead one again.
func newLeader(c *testcluster.Cluster) {
	leader := c.AwaitLeader(20 * time.Second)
	c.KillMaster(leader)
	c.AwaitLeader(20*time.Second, leader)
	c.RestartMaster(leader)
}

// A leader dies in each step of a driver's life; nothing is lost, started twice or forgotten.
func TestSimADriverGoesThroughItsLifeAcrossFailovers(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.Settled(20 * time.Second)

		// Queued: there is no worker yet. The same id waits at the next leader, unlike Spark's (case 74).
		id := submitDriver(t, c, driverSpec(false, "", "sleep", "forever"))
		newLeader(c)
		driverIs(c, id, model.DriverSubmitted, 0, time.Second)

		// Submitted while the leader dies: one driver, whatever the client has to repeat (case 76).
		leader := c.AwaitLeader(20 * time.Second)
		submitted := make(chan model.DriverID, 1)
		cl := c.Client()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			reply, err := cl.SubmitDriverWithID(ctx, "submit-once", driverSpec(false, "", "sleep", "forever"))
			if err != nil {
				t.Errorf("submit while the leader dies: %v", err)
			}
			submitted <- reply.Driver
		}()
		time.Sleep(time.Duration(c.Rand.Int63n(int64(3 * time.Millisecond))))
		c.KillMaster(leader)
		second := <-submitted
		c.AwaitLeader(20*time.Second, leader)
		c.RestartMaster(leader)
		if n := c.View().CountActiveDrivers(); n != 2 {
			t.Errorf("%d drivers after two submissions", n)
		}

		// Launching: the leader dies as soon as the worker is there.
		c.StartWorkers(2)
		c.Until("it is placed", 20*time.Second, func() error {
			if d, ok := c.View().Driver(id); !ok || d.Attempt == 0 {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		newLeader(c)
		driverIs(c, id, model.DriverRunning, 1, 20*time.Second)
		driverIs(c, second, model.DriverRunning, 1, 20*time.Second)

		// Running: nobody notices.
		starts := c.Starts()
		newLeader(c)
		time.Sleep(5 * time.Second)
		driverIs(c, id, model.DriverRunning, 1, time.Second)
		if got := c.Starts(); got != starts {
			t.Errorf("%d processes were started, %d before the failover", got, starts)
		}

		// Killed: the order survives the leader that took it.
		killDriver(t, c, id)
		newLeader(c)
		driverIs(c, id, model.DriverKilled, 1, 20*time.Second)

		// Relaunched: pauses and failures are counted on.
		failing := submitDriver(t, c, driverSpec(true, "", "fail", "3"))
		for attempt := 2; attempt <= 3; attempt++ {
			c.Until("it fails", time.Minute, func() error {
				if d, ok := c.View().Driver(failing); !ok || d.Attempt < attempt {
					return fmt.Errorf("attempt %d is not reached", attempt)
				}
				return nil
			})
			newLeader(c)
		}
		if d, ok := c.View().Driver(failing); !ok || len(d.Failures) < 2 || d.ExitCode != 3 {
			t.Errorf("after failovers %+v", d)
		}
		killDriver(t, c, failing)
		c.Until("it is killed for good", 20*time.Second, func() error {
			if d, ok := c.View().Driver(failing); !ok || d.State != model.DriverKilled {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		killDriver(t, c, second)
		driverIs(c, second, model.DriverKilled, 1, 20*time.Second)
	})
}

// PR-13, with its number: a worker is cut off for 3 T with a singleton, which is launched again on another one. When the
// worker returns, its copy is ended, the new one stays RUNNING, and what the worker reports changes nothing.
func TestSimPR13ACopyThatComesBackDoesNotEndTheDriver(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(2)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		id := submitDriver(t, c, driverSpec(true, model.DisconnectSingleton, "sleep", "forever"))
		driverIs(c, id, model.DriverRunning, 1, 20*time.Second)
		w := busyWorker(t, c)
		c.Net.Isolate(w.Host)
		cut := time.Now()
		took := driverIs(c, id, model.DriverRunning, 2, 3*c.WorkerTimeout)
		if took < c.WorkerTimeout-time.Second*11/10 {
			t.Errorf("launched again after %s, before %s", took, c.WorkerTimeout)
		}
		if runs := w.Runs(); len(runs) != 0 {
			t.Errorf("the worker that is cut off still runs %v", runs)
		}
		time.Sleep(3*c.WorkerTimeout - time.Since(cut))
		c.Net.Rejoin(w.Host)
		c.AwaitWorkers(2, 30*time.Second)
		time.Sleep(10 * time.Second)
		driverIs(c, id, model.DriverRunning, 2, time.Second)
		if runs := w.Runs(); len(runs) != 0 {
			t.Errorf("the worker that came back runs %v", runs)
		}
		killDriver(t, c, id)
		driverIs(c, id, model.DriverKilled, 2, 20*time.Second)
	})
}

// A driver with the policy "keep" runs on while its worker is cut off for a minute: it is neither launched again nor ended,
// but taken back.
func TestSimADriverThatIsKeptIsTakenBackAfterAMinuteOfSilence(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(2)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(2, 10*time.Second)
		id := submitDriver(t, c, driverSpec(true, model.DisconnectKeep, "sleep", "forever"))
		driverIs(c, id, model.DriverRunning, 1, 20*time.Second)
		starts, w := c.Starts(), busyWorker(t, c)
		c.Net.Isolate(w.Host)
		driverIs(c, id, model.DriverRelaunching, 1, 2*c.WorkerTimeout)
		time.Sleep(time.Minute)
		driverIs(c, id, model.DriverRelaunching, 1, time.Second)
		c.Net.Rejoin(w.Host)
		driverIs(c, id, model.DriverRunning, 1, 30*time.Second)
		if got := c.Starts(); got != starts {
			t.Errorf("%d processes were started, %d before", got, starts)
		}
		killDriver(t, c, id)
		driverIs(c, id, model.DriverKilled, 1, 20*time.Second)
	})
}

// A supervised driver is launched elsewhere at once when its worker's process is gone; another one ends as ERROR.
func TestSimADriverWhoseWorkerIsKilledIsLaunchedElsewhere(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(1)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(1, 10*time.Second)
		supervised := submitDriver(t, c, driverSpec(true, "", "sleep", "forever"))
		other := submitDriver(t, c, driverSpec(false, "", "sleep", "forever"))
		driverIs(c, supervised, model.DriverRunning, 1, 20*time.Second)
		driverIs(c, other, model.DriverRunning, 1, 20*time.Second)
		c.StartWorkers(1)
		c.AwaitWorkers(2, 10*time.Second)
		c.KillWorker(c.Worker(0))
		driverIs(c, supervised, model.DriverRunning, 2, 5*time.Second)
		driverIs(c, other, model.DriverError, 1, time.Second)
		killDriver(t, c, supervised)
		driverIs(c, supervised, model.DriverKilled, 2, 20*time.Second)
	})
}
