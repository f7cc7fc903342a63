//go:build linux

package testcluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// onWorker submits two drivers, a supervised one and another, and waits until both run on the only worker.
func onWorker(t *testing.T, c *testcluster.Cluster) (supervised, other model.DriverID) {
	t.Helper()
	c.StartMasters(1)
	c.StartWorkers(1)
	c.Settled(20 * time.Second)
	c.AwaitWorkers(1, 10*time.Second)
	supervised = submitDriver(t, c, driverSpec(true, "", "sleep", "forever"))
	other = submitDriver(t, c, driverSpec(false, "", "sleep", "forever"))
	driverIs(c, supervised, model.DriverRunning, 1, 20*time.Second)
	driverIs(c, other, model.DriverRunning, 1, 20*time.Second)
	return supervised, other
}

// A worker that is restarted and keeps what it runs keeps drivers too: they are neither launched again nor elsewhere, and
// one that ends meanwhile is known to have, with its code. One that does not come back in time has lost them.
func TestSimADriverOutlivesAPlannedRestartOfItsWorker(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		supervised, other := onWorker(t, c)
		short := submitDriver(t, c, driverSpec(false, "", "sleep", "20"))
		driverIs(c, short, model.DriverRunning, 1, 20*time.Second)
		c.StartWorkers(1) // there is another place, which nobody needs
		c.AwaitWorkers(2, 10*time.Second)
		w := c.Worker(0)
		c.HandOver(w, time.Minute)
		time.Sleep(40 * time.Second) // longer than a worker may be silent, if it has said nothing
		for _, id := range []model.DriverID{supervised, other, short} {
			driverIs(c, id, model.DriverRunning, 1, 0)
		}
		c.RestartWorker(w)
		driverIs(c, short, model.DriverFinished, 1, 10*time.Second)
		time.Sleep(10 * time.Second)
		driverIs(c, supervised, model.DriverRunning, 1, 0)
		driverIs(c, other, model.DriverRunning, 1, 0)
		if n := c.Starts(); n != 3 {
			t.Errorf("%d processes were started, want 3", n)
		}

		c.HandOver(w, 20*time.Second)
		driverIs(c, supervised, model.DriverRelaunching, 1, 30*time.Second)
		driverIs(c, other, model.DriverError, 1, time.Second)
		time.Sleep(time.Minute)
		driverIs(c, supervised, model.DriverRelaunching, 1, 0) // a worker that keeps what it runs proves nothing by being gone
		c.RestartWorker(w)
		driverIs(c, supervised, model.DriverRunning, 2, 10*time.Second)
		for _, id := range []model.DriverID{supervised, other} {
			if n := c.MostAtOnce(id.Owner()); n != 1 {
				t.Errorf("%d attempts of %s ran at once", n, id)
			}
		}
		killDriver(t, c, supervised)
		driverIs(c, supervised, model.DriverKilled, 2, 20*time.Second)
	})
}

// A worker that is stopped ends its drivers: a supervised one is launched elsewhere at once, once its process is gone,
// whatever its code; another one is finished if it ends with code 0, else an error, which says why.
func TestSimADriverWhoseWorkerIsStoppedIsLaunchedElsewhere(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		supervised, other := onWorker(t, c)
		polite, service := submitDriver(t, c, driverSpec(false, "", "polite")), submitDriver(t, c, driverSpec(true, "", "polite"))
		driverIs(c, polite, model.DriverRunning, 1, 20*time.Second)
		driverIs(c, service, model.DriverRunning, 1, 20*time.Second)
		c.StartWorkers(1)
		c.AwaitWorkers(2, 10*time.Second)
		c.StopWorker(c.Worker(0))
		driverIs(c, supervised, model.DriverRunning, 2, 2*time.Second)
		driverIs(c, service, model.DriverRunning, 2, 2*time.Second)
		driverIs(c, other, model.DriverError, 1, 0)
		driverIs(c, polite, model.DriverFinished, 1, 0)
		if d, _ := c.View().Driver(other); d.ExitCode != 255 || !strings.Contains(d.Reason, "the worker is stopping") {
			t.Errorf("the other one: code %d, %q", d.ExitCode, d.Reason)
		}
		if n := c.MostAtOnce(supervised.Owner()); n != 1 {
			t.Errorf("%d attempts ran at once", n)
		}
		killDriver(t, c, service)
		killDriver(t, c, supervised)
		driverIs(c, supervised, model.DriverKilled, 2, 20*time.Second)
	})
}

// A drained worker gives a supervised driver away, and waits for another one until the deadline; both ways of asking,
// from outside and by the worker itself, do the same.
func TestSimADrainedWorkerGivesItsDriversAway(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *testcluster.Cluster, *testcluster.Worker, model.DrainTerms){
		"drain": drain,
		"decommission": func(t *testing.T, _ *testcluster.Cluster, w *testcluster.Worker, terms model.DrainTerms) {
			ctx, cancel := context.WithTimeout(context.Background(), orderBound)
			defer cancel()
			if err := w.Decommission(ctx, terms); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				supervised, other := onWorker(t, c)
				polite := submitDriver(t, c, driverSpec(true, "", "polite"))
				driverIs(c, polite, model.DriverRunning, 1, 20*time.Second)
				c.StartWorkers(1)
				c.AwaitWorkers(2, 10*time.Second)
				began := time.Now()
				ask(t, c, c.Worker(0), model.DrainTerms{Reason: "repair", DeadlineMilli: 60_000})
				driverIs(c, supervised, model.DriverRunning, 2, 2*time.Second)
				driverIs(c, polite, model.DriverRunning, 2, 2*time.Second) // although it ended with 0: it was asked to
				killDriver(t, c, polite)
				driverIs(c, polite, model.DriverFinished, 2, 2*time.Second)
				if d, _ := c.View().Driver(supervised); d.Worker != c.Worker(1).ID() || len(d.Failures) != 0 {
					t.Errorf("it runs on %s after %d failures", d.Worker, len(d.Failures))
				}
				time.Sleep(time.Until(began.Add(59 * time.Second)))
				driverIs(c, other, model.DriverRunning, 1, 0)
				driverIs(c, other, model.DriverKilled, 1, 3*time.Second)
				if d, _ := c.View().Driver(other); !strings.Contains(d.Reason, "repair") {
					t.Errorf("it was ended because %q", d.Reason)
				}
				emptied(t, c, c.Worker(0), 0, 2*time.Second)
				if n := c.MostAtOnce(supervised.Owner()); n != 1 {
					t.Errorf("%d attempts ran at once", n)
				}
				killDriver(t, c, supervised)
				driverIs(c, supervised, model.DriverKilled, 2, 20*time.Second)
			})
		})
	}
}
