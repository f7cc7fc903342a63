//go:build linux

package testcluster_test

import (
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
)

func TestSimAClusterRunsWhatIsSubmitted(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.StartWorkers(3)
		leader := c.Settled(20 * time.Second)
		c.AwaitWorkers(3, 10*time.Second)
		app := c.Submit(testcluster.Sleepers("work", 6))
		c.Running(app, 6, 10*time.Second)
		c.KillMaster(leader)
		c.Logf("killed %s", leader.Host)
		c.AwaitLeader(10 * time.Second)
		c.Submit(testcluster.Sleepers("more", 1))
		c.KillWorker(c.Worker(0))
		c.Running(app, 6, 20*time.Second)
		c.RestartWorker(c.Worker(0))
	})
}
