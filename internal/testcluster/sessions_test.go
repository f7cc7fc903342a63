//go:build linux

package testcluster_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
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

// A new leader is ready at once where there is nothing to recover, and takes a worker as it comes (Spark waits for each one's
// inventory).
func TestSimHA03ANewLeaderIsReadyAtOnceAndTakesEachWorkerAsItComes(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		for range 3 {
			time.Sleep(2 * time.Second)
			next := c.Transfer(5 * time.Second)
			elected := time.Now()
			if next == leader {
				t.Fatal("leadership has not moved")
			}
			c.Until("the new leader is ready", 200*time.Millisecond, func() error {
				if _, ready := next.Leading(); !ready {
					return errors.New("it is not")
				}
				return nil
			})
			t.Logf("ready %s after leadership had moved", time.Since(elected))
			leader = next
		}
		// Of three workers one is gone for good: it holds nobody up.
		c.StartWorkers(3)
		c.AwaitWorkers(3, 10*time.Second)
		c.Submit(testcluster.Sleepers("work", 3))
		lost := c.Worker(2)
		c.PowerOff(lost.Host)
		c.KillMaster(leader)
		came := c.Until("a session with each worker that lives", 5*time.Second, func() error {
			now, err := c.Leader()
			if err != nil {
				return err
			}
			if n, _ := now.Sessions(); n != 2 {
				return fmt.Errorf("%d workers have one", n)
			}
			return nil
		})
		app := c.Submit(testcluster.Sleepers("new", 1))
		took := c.Until("an executor of a new application", time.Second, func() error {
			v, err := c.Client().App(t.Context(), rpc.AppRequest{ID: string(app)})
			if err == nil && v.Live == 0 {
				err = errors.New("it has none")
			}
			return err
		})
		t.Logf("the workers had come after %s; a new application got its executor %s later", came, took)
		for _, w := range []*testcluster.Worker{c.Worker(0), c.Worker(1)} {
			if s := c.WorkerState(w); s != model.WorkerAlive {
				t.Errorf("%s is %s", w.Host, s)
			}
		}
		c.Rest()
	})
}
