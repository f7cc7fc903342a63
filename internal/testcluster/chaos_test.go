//go:build linux

package testcluster_test

import (
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
)

// TestSimRandomFaults breaks everything at random and then asks whether anything was lost, doubled or left stuck.
func TestSimRandomFaults(t *testing.T) { testcluster.Run(t, randomFaults) }

// Most seeds are short, because there are many; one in eight is long enough for every time-out to run out meanwhile.
const (
	shortChaos = 5 * time.Second
	longChaos  = 20 * time.Second
)

func randomFaults(t *testing.T, c *testcluster.Cluster) {
	c.StartMasters(3)
	c.StartWorkers(3)
	c.Settled(20 * time.Second)
	c.AwaitWorkers(3, 10*time.Second)
	if c.Rand.Intn(8) == 0 {
		c.Chaos(longChaos)
	} else {
		c.Chaos(shortChaos)
	}
	for i := range 3 {
		if w := c.Worker(i); !w.Up() {
			c.RestartWorker(w)
		}
	}
	c.Rest()
	t.Logf("%s; %d processes were started", c.Told(), c.Starts())
	c.Kill(c.Submit(testcluster.Sleepers("last", 1)))
}
