//go:build linux

package testcluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// TestSimHA21RacingFirstStartsFoundOneCluster starts masters in any order over a lossy network.
func TestSimHA21RacingFirstStartsFoundOneCluster(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.Expect = 3
		c.Net.SetDatagramLoss(0.3)
		for _, n := range c.Rand.Perm(3) {
			c.StartMaster(n)
			time.Sleep(time.Duration(c.Rand.Int63n(int64(2 * time.Second))))
		}
		c.Settled(20 * time.Second)
	})
}

// TestSimHA37AnIsolatedLeaderAcknowledgesNothing is HA-08 as well: another leads meanwhile, and after the heal the old
// leader has what the others have.
func TestSimHA37AnIsolatedLeaderAcknowledgesNothing(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		old := c.Settled(20 * time.Second)
		cl := c.Client(c.Masters(old)...)
		if _, err := c.TrySubmit(cl, testcluster.Sleepers("before", 1), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		near := c.ClientOn(old.Host, old)
		c.Net.Isolate(old.Host)
		stale := make(chan error, 1)
		go func() {
			_, err := c.TrySubmit(near, testcluster.Sleepers("stale", 1), 10*time.Second)
			stale <- err
		}()
		began := time.Now()
		after, err := c.TrySubmit(cl, testcluster.Sleepers("after", 1), 10*time.Second)
		// The client knew the old leader: it must not wait out its attempt.
		if took := time.Since(began); err != nil || took > 3*time.Second {
			t.Fatalf("accepted by the new leader after %s (%v), want at most 3 s", took, err)
		}
		if _, leads := old.Leading(); leads {
			t.Error("the isolated leader still believes that it leads")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if v, err := near.App(ctx, rpc.AppRequest{ID: string(after), Strong: true}); err == nil {
			t.Errorf("the isolated leader answered a strong read: %+v", v)
		}
		if err := <-stale; err == nil {
			t.Error("the isolated leader acknowledged a registration")
		}
		c.Net.Heal()
		c.Until("the old leader has what was registered meanwhile", 10*time.Second, func() error {
			if _, ok := old.View().App(after); !ok {
				return errors.New("it lacks the new application")
			}
			return nil
		})
	})
}

// TestSimHA09LeadershipIsHandedAround ends with one leader scope, whose belief is Raft's.
func TestSimHA09LeadershipIsHandedAround(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.Settled(20 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		for range 20 {
			leader, err := c.Leader()
			if err == nil {
				err = leader.Transfer(ctx, "")
			}
			if err != nil {
				c.Logf("transfer: %v", err)
			}
			time.Sleep(time.Duration(c.Rand.Int63n(int64(300 * time.Millisecond))))
		}
		if _, err := c.TrySubmit(c.Client(), testcluster.Sleepers("late", 1), 5*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // the belief is compared once a second
		leaders := 0
		for _, m := range c.Masters() {
			_, scope := m.Leading()
			_, leads := m.Belief()
			if scope != leads {
				t.Errorf("%s: leader scope %v, raft leads %v", m.Host, scope, leads)
			}
			if leads {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("got %d leaders, want 1", leaders)
		}
	})
}

// TestSimAOneWayCutToAFollowerLosesNothing lets the leader hear a follower that does not hear it, the other way round, and
// both over streams only.
func TestSimAOneWayCutToAFollowerLosesNothing(t *testing.T) {
	cuts := map[string]func(c *testcluster.Cluster, leader, follower string){
		"leader to follower": func(c *testcluster.Cluster, l, f string) { c.Net.CutOneWay(l, f) },
		"follower to leader": func(c *testcluster.Cluster, l, f string) { c.Net.CutOneWay(f, l) },
		"datagrams both ways": func(c *testcluster.Cluster, l, f string) {
			c.Net.CutDatagrams(l, f)
			c.Net.CutDatagrams(f, l)
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
				c.StartMasters(3)
				leader := c.Settled(20 * time.Second)
				term, _ := leader.Leading()
				follower := c.Masters(leader)[c.Rand.Intn(2)]
				cut(c, leader.Host, follower.Host)
				register(c, c.Client(), 10)
				if name == "datagrams both ways" {
					if now, leads := leader.Leading(); !leads || now != term {
						t.Errorf("leads %v in term %d, want the same leader in term %d: only gossip was cut", leads, now, term)
					}
				}
				c.Net.Heal()
				register(c, c.Client(), 2)
			})
		})
	}
}

// register submits n applications, one a second, each of which must be acknowledged.
func register(c *testcluster.Cluster, cl *client.Client, n int) (apps []model.AppID) {
	for range n {
		c.Serial++
		app, err := c.TrySubmit(cl, testcluster.Sleepers(fmt.Sprintf("app-%d", c.Serial), 1), 10*time.Second)
		if err != nil {
			c.Fatalf("registration %d: %v", c.Serial, err)
		}
		apps = append(apps, app)
		time.Sleep(time.Second)
	}
	return apps
}

// TestSimHA03ANewLeaderIsReadyAtOnce has no grace that a new leader waits out, and none for a worker that does not answer.
func TestSimHA03ANewLeaderIsReadyAtOnce(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		old := c.Settled(20 * time.Second)
		c.KillMaster(old)
		var elected time.Time
		c.Until("another leads by Raft", 10*time.Second, func() error {
			for _, m := range c.Masters() {
				if _, leads := m.Belief(); leads {
					elected = time.Now()
					return nil
				}
			}
			return errors.New("nobody does")
		})
		next := c.AwaitLeader(5*time.Second, old)
		if took := time.Since(elected); took > 200*time.Millisecond {
			t.Errorf("with 0 workers and 0 applications recovery took %s, want at most 200 ms", took)
		}
		c.RestartMaster(old)

		c.StartWorkers(3)
		c.AwaitWorkers(3, 10*time.Second)
		app := c.Submit(testcluster.Sleepers("work", 3))
		c.Running(app, 3, 10*time.Second)
		// One worker is unreachable from everybody; the others must not wait for it.
		gone := c.Worker(c.Rand.Intn(3))
		c.Net.Isolate(gone.Host)
		c.KillMaster(next)
		c.AwaitLeader(10*time.Second, next)
		c.Until("the reachable workers are ALIVE and serve", 2*time.Second, func() error {
			for _, w := range c.Workers() {
				if state := c.WorkerState(w); w != gone && state != model.WorkerAlive {
					return fmt.Errorf("%s is %s", w.Host, state)
				}
			}
			return nil
		})
		began := time.Now()
		c.Running(c.Submit(testcluster.Sleepers("new", 1)), 1, 5*time.Second)
		if took := time.Since(began); took > 3*time.Second { // a second of life makes it RUNNING
			t.Errorf("a new application ran after %s while one worker was missing, want at most 3 s", took)
		}
	})
}
