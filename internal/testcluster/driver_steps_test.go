//go:build linux

package testcluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// attemptIs polls until the present attempt of a driver is in a state, every 50 µs: the leader is to die right then.
func attemptIs(t *testing.T, c *testcluster.Cluster, id model.DriverID, state model.ExecutorState) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Microsecond) {
		v := c.View()
		if d, ok := v.Driver(id); ok {
			if e, present := v.Attempt(d); present && e.State == state {
				return
			}
		}
	}
	t.Fatalf("no attempt of %s is %s", id, state)
}

// ended compares what has become of a driver with what must have.
func ended(t *testing.T, c *testcluster.Cluster, id model.DriverID, state model.DriverState, attempts, code int) {
	t.Helper()
	d, ok := c.View().Driver(id)
	if !ok || d.State != state || d.Attempt != attempts || d.ExitCode != code || len(d.Finished) != attempts {
		t.Errorf("%s is %+v, want %s with code %d after %d attempts", id, d, state, code, attempts)
	}
	if n := c.MostAtOnce(id.Owner()); n > 1 {
		t.Errorf("%d attempts of %s ran at once", n, id)
	}
}

// The leader is killed in each step of a driver's life. Whatever it was about to do is done by the next one, once: no two
// attempts run at once, none is lost or started twice, and each driver ends as if nothing had happened.
func TestSimNoStepOfADriverIsLostOrRepeatedWhenTheLeaderDiesInIt(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.Settled(20 * time.Second)

		// SUBMITTED: it waits, there is no worker. PLACED: its launch has not been ordered, or not been heard of.
		placed := submitDriver(t, c, driverSpec(false, "", "sleep", "forever"))
		newLeader(c)
		driverIs(c, placed, model.DriverSubmitted, 0, time.Second)
		c.StartWorkers(2)
		attemptIs(t, c, placed, model.ExecutorPlaced)
		newLeader(c)
		driverIs(c, placed, model.DriverRunning, 1, 20*time.Second)

		// RELAUNCHING: it fails again and again, through everything that follows.
		failing := submitDriver(t, c, driverSpec(true, "", "fail", "3"))
		driverIs(c, failing, model.DriverRelaunching, 2, 20*time.Second)
		newLeader(c)

		// LAUNCHING: its artifact is on the way.
		spec := driverSpec(false, "", "sleep", "forever")
		spec.Artifacts = webServer{size: 40_000, pieces: 10, sent: 10, pause: 2 * time.Second}.serve(t, c, "files")
		fetching := submitDriver(t, c, spec)
		attemptIs(t, c, fetching, model.ExecutorLaunching)
		time.Sleep(8 * time.Second)
		newLeader(c)
		attemptIs(t, c, fetching, model.ExecutorLaunching)
		driverIs(c, fetching, model.DriverRunning, 1, 30*time.Second)

		// RUNNING: nobody notices.
		newLeader(c)
		time.Sleep(5 * time.Second)
		driverIs(c, placed, model.DriverRunning, 1, time.Second)
		driverIs(c, fetching, model.DriverRunning, 1, time.Second)

		// KILLING: it does not obey SIGTERM, so it is there for another ten seconds.
		deaf := submitDriver(t, c, driverSpec(true, "", "deaf"))
		driverIs(c, deaf, model.DriverRunning, 1, 20*time.Second)
		killDriver(t, c, deaf)
		driverIs(c, deaf, model.DriverKilling, 1, time.Second)
		newLeader(c)
		driverIs(c, deaf, model.DriverKilling, 1, 0)
		driverIs(c, deaf, model.DriverKilled, 1, 20*time.Second)
		ended(t, c, deaf, model.DriverKilled, 1, 130)

		reportedInVain(t, c, driverSpec(false, "", "sleep", "8"), model.DriverFinished, 0)
		reportedInVain(t, c, driverSpec(false, "", "brittle", "*", "8"), model.DriverFailed, 1)

		// What fails has been launched again once for each failure, after 1, 2, 4, 8 … s.
		var d *model.Driver
		c.Until("the one that fails waits for its next attempt", time.Minute, func() error {
			if d, _ = c.View().Driver(failing); d.State != model.DriverRelaunching || len(d.Failures) != d.Attempt || d.Attempt < 4 {
				return fmt.Errorf("it is %s after %d failures of %d attempts", d.State, len(d.Failures), d.Attempt)
			}
			return nil
		})
		attempts := d.Attempt
		killDriver(t, c, failing)
		ended(t, c, failing, model.DriverKilled, attempts, 130)
		for _, id := range []model.DriverID{placed, fetching} {
			killDriver(t, c, id)
			driverIs(c, id, model.DriverKilled, 1, 20*time.Second)
			ended(t, c, id, model.DriverKilled, 1, 130)
		}
		if n := c.Starts(); n != 5+attempts {
			t.Errorf("%d processes were started", n)
		}
	})
}

// reportedInVain has a driver end after 8 s, by itself, while its leader reaches no other master: the worker's report
// cannot be committed, and that leader dies.
func reportedInVain(t *testing.T, c *testcluster.Cluster, spec model.DriverSpec, state model.DriverState, code int) {
	t.Helper()
	id := submitDriver(t, c, spec)
	driverIs(c, id, model.DriverRunning, 1, 20*time.Second)
	leader := c.AwaitLeader(20 * time.Second)
	e, ok := leader.View().AttemptAt(id.Ref(1))
	if !ok {
		t.Fatalf("%s has no attempt", id)
	}
	time.Sleep(time.Until(time.UnixMilli(e.PlacedWall).Add(8*time.Second - 100*time.Millisecond)))
	for _, m := range c.Masters(leader) {
		c.Net.Partition(leader.Host, m.Host)
	}
	c.Until(fmt.Sprintf("the process of %s has ended", id), time.Second, func() error {
		for _, w := range c.Workers() {
			if slices.Contains(w.Runs(), id.Ref(1)) {
				return fmt.Errorf("it runs on %s", w.Host)
			}
		}
		return nil
	})
	time.Sleep(10 * time.Millisecond) // the report is with the leader
	if d, ok := leader.View().Driver(id); !ok || d.State != model.DriverRunning {
		t.Errorf("its end was committed: %+v", d)
	}
	if _, leads := leader.Leading(); !leads {
		t.Error("its leader has given up before it died")
	}
	c.KillMaster(leader)
	c.Net.Heal()
	c.AwaitLeader(20*time.Second, leader)
	c.RestartMaster(leader)
	driverIs(c, id, state, 1, 20*time.Second)
	ended(t, c, id, state, 1, code)
}
