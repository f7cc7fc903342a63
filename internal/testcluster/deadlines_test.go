//go:build linux

package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// A driver has so much time from its submission on, whether it waits or runs, and
// however often the leader changes meanwhile: the clock is that of the cluster.
func TestSimTheTimeOfADriverIsUpUnderTheNextLeaderToo(t *testing.T) {
	const most, late = 40 * time.Second, 6 * time.Second
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(1)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(1, 10*time.Second)
		spec := driverSpec(true, "", "sleep", "forever")
		spec.MaxRuntimeMilli = most.Milliseconds()
		began := time.Now()
		runs := submitDriver(t, c, spec)
		driverIs(c, runs, model.DriverRunning, 1, 10*time.Second)
		spec.MemoryMiB = 1 << 20
		waits := submitDriver(t, c, spec)
		for range 2 {
			time.Sleep(10 * time.Second)
			failover(c)
		}
		var last time.Time
		c.Until("the time of both is up", 2*most, func() error {
			for _, id := range []model.DriverID{runs, waits} {
				d, ok := c.View().Driver(id)
				if !ok || d.State != model.DriverFailed {
					return fmt.Errorf("%s: %+v", id, d)
				}
			}
			last = time.Now()
			return nil
		})
		if took := last.Sub(began); took < most-time.Second || took > most+late {
			t.Errorf("they ended after %s, want %s and a little", took, most)
		}
		ended(t, c, runs, model.DriverFailed, 1, 124)
		ended(t, c, waits, model.DriverFailed, 0, 124)
	})
}
