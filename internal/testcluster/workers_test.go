//go:build linux

package testcluster_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// busy is a cluster whose 3 workers run 6 executors.
func busy(c *testcluster.Cluster) (leader *testcluster.Master, app model.AppID, refs []model.ExecutorRef) {
	c.StartMasters(3)
	c.StartWorkers(3)
	leader = c.Settled(20 * time.Second)
	c.AwaitWorkers(3, 10*time.Second)
	app = c.Submit(testcluster.Sleepers("work", 6))
	return leader, app, c.Running(app, 6, 10*time.Second)
}

// same fails unless exactly these executors still run, without one more having been started.
func same(t *testing.T, c *testcluster.Cluster, app model.AppID, refs []model.ExecutorRef) {
	t.Helper()
	if now := c.Running(app, len(refs), 15*time.Second); !slices.Equal(now, refs) {
		t.Errorf("executors %v run, want %v", now, refs)
	}
	if n := c.Starts(); n != len(refs) {
		t.Errorf("%d processes were started, want %d", n, len(refs))
	}
}

// TestSimHA01AWorkerThatRegistersTwiceStaysTheSame cuts a worker from the leader for 3 s and delays what it sends, so that its old and its
// new registration reach the leader within 500 ms.
func TestSimHA01AWorkerThatRegistersTwiceStaysTheSame(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, app, refs := busy(c)
		w := c.Worker(c.Rand.Intn(3))
		before := w.ID()
		c.Net.Partition(leader.Host, w.Host)
		time.Sleep(3*time.Second - time.Duration(c.Rand.Int63n(int64(500*time.Millisecond))))
		// The new attempt is under way when the old stream comes back to life.
		c.Net.SetLinkLatency(w.Host, leader.Host, time.Duration(c.Rand.Int63n(int64(500*time.Millisecond))))
		c.Net.HealLink(leader.Host, w.Host)
		time.Sleep(5 * time.Second)
		c.Net.SetLinkLatency(w.Host, leader.Host, time.Millisecond)
		c.AwaitWorkers(3, 10*time.Second)
		records := 0
		c.View().Workers(func(rec *model.Worker) bool {
			if rec.ID == before {
				records++
			}
			return true
		})
		if n := c.View().CountWorkers(); records != 1 || n != 3 {
			t.Errorf("%d records of the worker, %d of all; want 1 and 3", records, n)
		}
		if w.Exited() {
			t.Error("the worker has ended")
		}
		same(t, c, app, refs)
	})
}

// TestSimHA02FiftyWorkersFollowEveryChangeOfTheLeader moves leadership every second and kills leaders, and counts workers.
func TestSimHA02FiftyWorkersFollowEveryChangeOfTheLeader(t *testing.T) {
	const workers = 50
	moves, kills := 100, 30
	if os.Getenv("HEARTH_SIM_FULL") == "" { // the row's counts take minutes
		moves, kills = 3, 1
	}
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		for i := range workers {
			c.StartWorkerOn("w"+strconv.Itoa(i+1), workerd.Config{Cores: 1, MemoryMiB: 512})
		}
		c.Settled(20 * time.Second)
		c.AwaitWorkers(workers, 20*time.Second)
		check := func(what string, n int) {
			took := c.AwaitWorkers(workers, 2*time.Second)
			for _, w := range c.Workers() {
				if w.Exited() {
					t.Fatalf("%s %d: %s has ended", what, n, w.Host)
				}
			}
			if n := c.View().CountWorkers(); n != workers {
				t.Fatalf("%s: %d records of %d workers", what, n, workers)
			}
			c.Until("every worker has a session", 2*time.Second-took, c.Attached)
		}
		for i := range moves {
			began := time.Now()
			c.Transfer(5 * time.Second)
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("move %d took %s, want less than 300 ms", i, took)
			}
			check("move", i)
			time.Sleep(max(0, time.Second-time.Since(began)))
		}
		for i := range kills {
			old := c.AwaitLeader(5 * time.Second)
			c.KillMaster(old)
			c.AwaitLeader(5*time.Second, old)
			check("kill", i)
			c.RestartMaster(old)
			c.Settled(20 * time.Second)
		}
	})
}

// TestSimHA26ABoxWithLeaderAndWorkerLosesPower has the box's executors run elsewhere in T + 7 s.
func TestSimHA26ABoxWithLeaderAndWorkerLosesPower(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		leader := c.Settled(20 * time.Second)
		boxed := c.StartWorkerOn(leader.Host, workerd.Config{Cores: 4, MemoryMiB: 4096})
		c.StartWorkers(2)
		c.AwaitWorkers(3, 10*time.Second)
		app := c.Submit(testcluster.Sleepers("work", 4))
		c.Running(app, 4, 10*time.Second)
		if len(c.OnWorker(boxed)) == 0 {
			t.Fatal("nothing runs on the box")
		}
		c.PowerOff(leader.Host)
		began := time.Now()
		c.AwaitLeader(10*time.Second, leader)
		c.Until("its executors run elsewhere", c.WorkerTimeout+7*time.Second-time.Since(began), func() error {
			if left := c.OnWorker(boxed); len(left) > 0 {
				return fmt.Errorf("the state still has %v on the box", left)
			}
			return c.IsRunning(app, 4)
		})
		t.Logf("elsewhere after %s", time.Since(began))
	})
}

// TestSimHA28AHundredRestartsOfMastersKillNothing restarts masters again and again.
func TestSimHA28AHundredRestartsOfMastersKillNothing(t *testing.T) {
	restarts := 100
	if os.Getenv("HEARTH_SIM_FULL") == "" {
		restarts = 8
	}
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		_, app, refs := busy(c)
		for i := range restarts {
			m := c.Master(c.Rand.Intn(3))
			if c.Rand.Intn(2) == 0 {
				c.KillMaster(m)
			} else {
				c.StopMaster(m)
			}
			time.Sleep(time.Duration(c.Rand.Int63n(int64(2 * time.Second))))
			c.RestartMaster(m)
			c.AwaitLeader(20 * time.Second)
			time.Sleep(time.Duration(c.Rand.Int63n(int64(2 * time.Second))))
			if n := c.Starts(); n != len(refs) {
				t.Fatalf("after restart %d: %d processes were started, want %d", i, n, len(refs))
			}
		}
		same(t, c, app, refs)
	})
}

// TestSimAOneWayCutOfAWorkerForAWhileCostsNothing takes each direction between leader and worker away, and datagrams alone.
func TestSimAOneWayCutOfAWorkerForAWhileCostsNothing(t *testing.T) {
	cuts := map[string]func(c *testcluster.Cluster, leader, worker string){
		"leader to worker": func(c *testcluster.Cluster, l, w string) { c.Net.CutOneWay(l, w) },
		"worker to leader": func(c *testcluster.Cluster, l, w string) { c.Net.CutOneWay(w, l) },
		"datagrams of the worker": func(c *testcluster.Cluster, _, w string) {
			for _, host := range c.Net.Hosts() {
				c.Net.CutDatagrams(w, host)
				c.Net.CutDatagrams(host, w)
			}
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
				leader, app, refs := busy(c)
				w := c.Worker(c.Rand.Intn(3))
				cut(c, leader.Host, w.Host)
				if name == "datagrams of the worker" {
					time.Sleep(30 * time.Second) // the session is the second witness: nothing may come of it
					if state := c.WorkerState(w); state != model.WorkerAlive {
						t.Errorf("the worker is %s without datagrams", state)
					}
				} else {
					time.Sleep(5 * time.Second)
				}
				c.Net.Heal()
				c.AwaitWorkers(3, 15*time.Second)
				same(t, c, app, refs)
			})
		})
	}
}

// TestSimTheLeaderIsKilledWhileWorkersAreBusy costs no executor and starts none.
func TestSimTheLeaderIsKilledWhileWorkersAreBusy(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, app, refs := busy(c)
		c.KillMaster(leader)
		c.AwaitLeader(5*time.Second, leader)
		c.AwaitWorkers(3, 5*time.Second)
		same(t, c, app, refs)
	})
}

// TestSimPR15ASingletonIsDeadBeforeItsReplacementStarts cuts off the worker of a singleton whose clock runs up to 10 % fast
// or slow. That no second copy runs meanwhile is a rule of every scenario; this one makes sure that there is a replacement,
// and that it stays.
func TestSimPR15ASingletonIsDeadBeforeItsReplacementStarts(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		for i := range 3 {
			c.ClockRate = 0.9 + 0.2*c.Rand.Float64()
			c.StartWorkerOn("w"+strconv.Itoa(i+1), workerd.Config{Cores: 2, MemoryMiB: 512})
		}
		c.Settled(20 * time.Second)
		c.AwaitWorkers(3, 10*time.Second)
		spec := testcluster.Sleepers("singleton", 1)
		spec.Disconnect = model.DisconnectSingleton
		spec.Command.Argv = []string{"deaf"} // SIGTERM does not move it
		app := c.Submit(spec)
		first := c.Running(app, 1, 10*time.Second)
		var w *testcluster.Worker
		for _, x := range c.Workers() {
			if len(x.Runs()) > 0 {
				w = x
			}
		}
		time.Sleep(time.Duration(c.Rand.Int63n(int64(time.Second))))
		c.Net.Isolate(w.Host)
		died := c.Until("the worker ends it", c.WorkerTimeout, func() error {
			if n := len(w.Runs()); n > 0 {
				return fmt.Errorf("%d processes", n)
			}
			return nil
		})
		if limit := 8 * c.WorkerTimeout / 10; died > limit {
			t.Errorf("it died %s after the cut, want at most 0.7 of the timeout by a clock that is 10 %% slow", died)
		}
		if n := c.Starts(); n != 1 {
			t.Errorf("%d processes were started while the leader still waited", n)
		}
		var second []model.ExecutorRef
		c.Until("another runs", c.WorkerTimeout, func() error {
			if second = c.Running(app, 1, c.WorkerTimeout); slices.Equal(first, second) {
				return fmt.Errorf("the state still has %v", first)
			}
			return nil
		})
		c.Net.Heal()
		c.AwaitWorkers(3, 15*time.Second)
		time.Sleep(2 * c.WorkerTimeout)
		if now := c.Running(app, 1, time.Second); !slices.Equal(now, second) || c.Starts() != 2 {
			t.Errorf("after the return %v runs, want %v; %d starts", now, second, c.Starts())
		}
	})
}
