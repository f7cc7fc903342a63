//go:build linux

package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
)

// sessions waits until n workers and one driver have a session with a leader.
func sessions(c *testcluster.Cluster, n int, limit time.Duration) time.Duration {
	return c.Until("every session is open", limit, func() error {
		leader, err := c.Leader()
		if err != nil {
			return err
		}
		if w, d := leader.Sessions(); w != n || d != 1 {
			return fmt.Errorf("%d workers and %d drivers have one", w, d)
		}
		return nil
	})
}

// Workers and drivers wait at the standbys for the new leader; nobody sleeps through it.
func TestSimSessionsAreBackATenthOfASecondAfterTheDeathOfTheLeader(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		const workers = 6
		c.StartMasters(3)
		c.StartWorkers(workers)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(workers, 10*time.Second)
		d := c.StartDriver("driver", 3)
		for range 4 {
			leader := c.Settled(20 * time.Second)
			sessions(c, workers, 20*time.Second)
			time.Sleep(2*time.Second + time.Duration(c.Rand.Int63n(int64(time.Second))))
			c.KillMaster(leader)
			took := sessions(c, workers, 20*time.Second)
			t.Logf("all sessions were open again %s after the death of %s", took, leader.Host)
			if took > 100*time.Millisecond {
				t.Errorf("the sessions took %s, want at most 100 ms", took)
			}
			c.RestartMaster(leader)
		}
		if r := c.Do(d, 10*time.Second, "true"); r.ExitCode != 0 {
			t.Errorf("a task ended with %+v", r)
		}
	})
}
