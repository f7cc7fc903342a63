//go:build linux

package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// onWorkers starts a cluster of three masters and n workers, and an application with one executor for every worker.
func onWorkers(c *testcluster.Cluster, n int) (leader *testcluster.Master, app model.AppID) {
	c.StartMasters(3)
	c.StartWorkers(n)
	leader = c.Settled(20 * time.Second)
	c.AwaitWorkers(n, 10*time.Second)
	app = c.Submit(testcluster.Sleepers("work", n))
	c.Running(app, n, 10*time.Second)
	return leader, app
}

// busyWorker returns a worker that runs something.
func busyWorker(t *testing.T, c *testcluster.Cluster) *testcluster.Worker {
	t.Helper()
	for _, w := range c.Workers() {
		if len(c.OnWorker(w)) > 0 {
			return w
		}
	}
	t.Fatal("no worker runs anything")
	return nil
}

// elsewhere waits until none of refs is unfinished and the application has n live executors again.
func elsewhere(c *testcluster.Cluster, app model.AppID, refs []model.ExecutorRef, n int, limit time.Duration) time.Duration {
	return c.Until("the executors are replaced", limit, func() error {
		v := c.View()
		for _, r := range refs {
			if e, ok := v.Executor(r); ok && !e.State.Terminal() {
				return fmt.Errorf("%s is %s on %s", r, e.State, e.Worker)
			}
		}
		live := 0
		v.Executors(app, func(e *model.Executor) bool {
			if e.State.Live() {
				live++
			}
			return true
		})
		if live != n {
			return fmt.Errorf("%d live executors, want %d", live, n)
		}
		return nil
	})
}

func TestSimAKilledWorkerIsReplacedAtOnce(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		_, app := onWorkers(c, 3)
		for range 3 {
			w := busyWorker(t, c)
			lost := c.OnWorker(w)
			c.KillWorker(w)
			if took := elsewhere(c, app, lost, 3, time.Second); took > 50*time.Millisecond {
				t.Errorf("replaced after %s, want at most 50 ms", took)
			}
			c.RestartWorker(w)
			c.AwaitWorkers(3, 10*time.Second)
		}
	})
}

// The process is there and says nothing: a second and a half later nothing new is placed on it, and its executors are
// replaced at worker_timeout, not before.
func TestSimAStoppedWorkerGetsNothingNewAndIsReplacedAtTheTimeout(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		_, app := onWorkers(c, 2)
		w := busyWorker(t, c)
		lost := c.OnWorker(w)
		time.Sleep(time.Duration(c.Rand.Int63n(int64(time.Second)))) // anywhere between two beats
		c.Net.Pause(w.Host)
		paused := time.Now()
		time.Sleep(1500 * time.Millisecond)
		more := c.Submit(testcluster.Sleepers("more", 2))
		c.Running(more, 2, 5*time.Second)
		if got := c.OnWorker(w); len(got) != len(lost) {
			t.Errorf("%v were placed on a worker that is silent, had %v", got, lost)
		}
		elsewhere(c, app, lost, 2, c.WorkerTimeout+5*time.Second)
		// Its last answered beat is up to a beat older than the pause.
		if took := time.Since(paused); took < c.WorkerTimeout-1100*time.Millisecond || took > c.WorkerTimeout+500*time.Millisecond {
			t.Errorf("replaced %s after it was stopped, want %s after its last beat", took, c.WorkerTimeout)
		}
		c.Net.Resume(w.Host)
	})
}

// A cut of two seconds harms nobody: no executor is lost, killed or replaced, and no driver notices.
func TestSimACutOfTwoSecondsHarmsNobody(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, app := onWorkers(c, 2)
		d := c.StartDriver("driven", 2)
		c.Running(d.App(), 2, 20*time.Second)
		before, starts := c.View(), c.Starts()
		for n, cut := range []func(host string){
			func(host string) { c.Net.Partition(host, leader.Host) },
			func(host string) { c.Net.Reset(host, leader.Host); c.Net.Partition(host, leader.Host) },
			func(host string) { c.Net.CutOneWay(host, leader.Host) },
			func(host string) { c.Net.CutOneWay(leader.Host, host) },
		} {
			for _, host := range []string{c.Worker(0).Host, d.Host} {
				cut(host)
				time.Sleep(2 * time.Second)
				c.Net.HealLink(host, leader.Host)
				time.Sleep(time.Duration(c.Rand.Int63n(int64(3 * time.Second))))
			}
			c.Logf("cut %d is over", n)
		}
		c.AwaitWorkers(2, 10*time.Second)
		time.Sleep(c.WorkerTimeout)
		if got := c.Starts(); got != starts {
			t.Errorf("%d processes were started, had %d", got, starts)
		}
		for _, a := range []model.AppID{app, d.App()} {
			before.Executors(a, func(e *model.Executor) bool {
				if now, ok := c.View().Executor(e.Ref()); !ok || now.State != model.ExecutorRunning {
					t.Errorf("executor %s is %+v, want it RUNNING", e.Ref(), now)
				}
				return true
			})
		}
		if d.Ended() {
			t.Error("the driver has ended")
		}
	})
}

// Two of eight that die at one moment are dead; four are an event of the network, and the timeout decides.
func TestSimManyWorkersThatGoAtOnceAreAnEventOfTheNetwork(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		onWorkers(c, 8)
		dead := func(n int) error {
			got := 0
			for i := range 8 {
				if c.WorkerState(c.Worker(i)) == model.WorkerDead {
					got++
				}
			}
			if got != n {
				return fmt.Errorf("%d workers are DEAD, want %d", got, n)
			}
			return nil
		}
		c.KillWorker(c.Worker(0))
		c.KillWorker(c.Worker(1))
		c.Until("two deaths are found", 100*time.Millisecond, func() error { return dead(2) })
		time.Sleep(3 * time.Second) // beyond the window
		gone := time.Now()
		for i := 2; i < 6; i++ {
			c.KillWorker(c.Worker(i))
		}
		for time.Since(gone) < c.WorkerTimeout-1100*time.Millisecond {
			if err := dead(2); err != nil {
				t.Fatalf("%s after four workers went at once: %v", time.Since(gone), err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		c.Until("the others are found", 2*time.Second, func() error { return dead(6) })
		for i := range 6 {
			c.RestartWorker(c.Worker(i))
		}
	})
}

// PR-16: a worker that is back before the timeout keeps what it has; one that comes after it finds its executors
// replaced, once, and none is started after the originals are known to run.
func TestSimPR16AReturningWorkerCausesAtMostOneReplacement(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		_, app := onWorkers(c, 3)
		for _, tc := range []struct {
			away     time.Duration
			replaced bool
		}{{c.WorkerTimeout * 9 / 10, false}, {c.WorkerTimeout * 3 / 2, true}} {
			w := busyWorker(t, c)
			refs, starts := c.OnWorker(w), c.Starts()
			// The state's time runs from the last answered beat.
			time.Sleep(time.Duration(c.Rand.Int63n(int64(100 * time.Millisecond))))
			c.Net.Isolate(w.Host)
			time.Sleep(tc.away - time.Second) // its last beat was up to a second before
			if !tc.replaced && c.Starts() != starts {
				t.Errorf("%d processes were started while the worker was away for less than its timeout", c.Starts()-starts)
			}
			if tc.replaced {
				time.Sleep(time.Second)
			}
			atReturn := c.Starts()
			c.Net.Rejoin(w.Host)
			c.AwaitWorkers(3, 15*time.Second)
			c.Running(app, 3, 15*time.Second)
			time.Sleep(2 * c.WorkerTimeout)
			if got := c.Starts(); got != atReturn {
				t.Errorf("away for %s: %d processes were started after it was back", tc.away, got-atReturn)
			}
			if got := c.Starts() - starts; tc.replaced && got != len(refs) || !tc.replaced && got != 0 {
				t.Errorf("away for %s: %d replacements of %d executors", tc.away, got, len(refs))
			}
		}
	})
}

// A new leader knows nobody's silence but what it has seen itself, and blames nobody for the time before.
func TestSimANewLeaderArmsItsDeadlinesAfresh(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, app := onWorkers(c, 3)
		w := busyWorker(t, c)
		lost := c.OnWorker(w)
		c.Net.Isolate(w.Host)
		time.Sleep(c.WorkerTimeout * 6 / 10)
		c.KillMaster(leader)
		c.AwaitLeader(10*time.Second, leader)
		led := time.Now()
		c.Until("its executors are given up", 2*c.WorkerTimeout, func() error {
			if got := c.OnWorker(w); len(got) > 0 {
				return fmt.Errorf("%v are on the worker that is cut off", got)
			}
			return nil
		})
		if took := time.Since(led); took < c.WorkerTimeout-100*time.Millisecond || took > c.WorkerTimeout+time.Second {
			t.Errorf("given up %s after the election, want %s", took, c.WorkerTimeout)
		}
		elsewhere(c, app, lost, 3, time.Second)
		c.Net.Rejoin(w.Host)
	})
}

// The worker dies with the leader, on a machine that lives: the next leader dials it back and need not wait.
func TestSimAWorkerThatDiedWithTheLeaderIsFoundByTheNext(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		leader, app := onWorkers(c, 3)
		w := busyWorker(t, c)
		lost := c.OnWorker(w)
		c.KillMaster(leader)
		c.KillWorker(w)
		c.AwaitLeader(10*time.Second, leader)
		elsewhere(c, app, lost, 3, 2*time.Second)
		c.RestartWorker(w)
	})
}
