//go:build linux

package testcluster_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// counted is how often something is tried: short in a usual run, else the count of the field report, which takes minutes.
func counted(short, whole int) int {
	if os.Getenv("HEARTH_SIM_FULL") != "" {
		return whole
	}
	return short
}

// failover kills the leader and starts it again once another leads.
func failover(c *testcluster.Cluster) {
	leader := c.AwaitLeader(10 * time.Second)
	c.KillMaster(leader)
	c.AwaitLeader(10*time.Second, leader)
	c.RestartMaster(leader)
}

// cluster starts three masters and n workers of some cores.
func cluster(c *testcluster.Cluster, n, cores int) {
	c.StartMasters(3)
	for i := range n {
		c.StartWorkerOn(fmt.Sprintf("w%d", i+1), workerd.Config{Cores: cores, MemoryMiB: 16384})
	}
	c.Settled(20 * time.Second)
	c.AwaitWorkers(n, 10*time.Second)
}

// describe is what the leader's state has of an application.
func describe(t *testing.T, c *testcluster.Cluster, id model.AppID) *model.App {
	t.Helper()
	a, ok := c.View().App(id)
	if !ok {
		t.Fatalf("application %s is not there", id)
	}
	return a
}

// All workers of an application lose power at once, the leader dies while they are away, and the first that is back takes
// work. Nothing of it counts against the application.
func TestSimSC01TheLossOfAllWorkersDoesNotCountAgainstAnApplication(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 3, 4)
		app := c.Submit(testcluster.Sleepers("spot", 12))
		c.Running(app, 12, 10*time.Second)
		for i := range 3 {
			c.PowerOff(c.Worker(i).Host)
		}
		c.Until("all executors are LOST", c.WorkerTimeout+5*time.Second, func() error { return c.IsRunning(app, 0) })
		failover(c)
		if a := describe(t, c, app); a.State.Terminal() || len(a.Failures) != 0 || len(a.Finished) != 12 {
			t.Errorf("%s with %d failures and %d losses, want it to go on, none, and 12", a.State, len(a.Failures), len(a.Finished))
		}
		c.RestartWorker(c.Worker(0))
		c.Running(app, 4, 5*time.Second)
		c.RestartWorker(c.Worker(1))
		c.RestartWorker(c.Worker(2))
		c.Running(app, 12, 5*time.Second)
	})
}

// Workers are killed, stopped, cut off and lose power between the grant of an executor and the word that it is being
// launched, one of each kind in every round, and come back soon, late or after the verdict. Executors go to the workers
// with the most free cores, so to none that was struck in the same round.
func TestSimSC14AnExecutorGrantedToADyingWorkerIsReplaced(t *testing.T) {
	const workers = 2 * strikes
	rounds := counted(8, 1000) / strikes
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, workers, 4)
		limit := c.WorkerTimeout + 5*time.Second
		for round := range rounds {
			if round == rounds/2 {
				failover(c)
			}
			var hit []*struck
			for how := range strikes { // the last one takes its time
				app := c.Submit(testcluster.Sleepers(fmt.Sprintf("granted %d of round %d", how, round), 1))
				mend := strike(c, grantedTo(c, app), how)
				hit = append(hit, &struck{app: app, mend: mend, returns: time.Now().Add(time.Duration(c.Rand.Int63n(int64(2 * time.Second))))})
			}
			c.Until(fmt.Sprintf("round %d: all executors run", round), limit, func() error {
				var errs []error
				for _, s := range hit {
					s.rise(time.Now())
					errs = append(errs, c.IsRunning(s.app, 1))
				}
				if err := unacknowledged(c, 30*time.Second); err != nil {
					t.Fatal(err)
				}
				return errors.Join(errs...)
			})
			for _, s := range hit {
				s.rise(s.returns)
				c.Kill(s.app)
			}
			c.AwaitWorkers(workers, 15*time.Second)
			c.Until("nothing runs", 15*time.Second, func() error { return atMost(c, 0) })
		}
	})
}

// struck is an application whose executor was granted to a worker that broke.
type struck struct {
	app     model.AppID
	mend    func() // nil: it was mended
	returns time.Time
}

// rise mends the worker when it is time.
func (s *struck) rise(now time.Time) {
	if s.mend != nil && !now.Before(s.returns) {
		s.mend()
		s.mend = nil
	}
}

// grantedTo waits until an executor of an application is PLACED, and returns its worker.
func grantedTo(c *testcluster.Cluster, app model.AppID) *testcluster.Worker {
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(100 * time.Microsecond) {
		var at model.WorkerID
		c.View().Executors(app, func(e *model.Executor) bool {
			at = e.Worker
			return false
		})
		for _, w := range c.Workers() {
			if w.ID() == at {
				return w
			}
		}
	}
	c.Fatalf("no executor of %s is granted", app)
	return nil
}

// strikes are the ways in which strike breaks a worker.
const strikes = 4

// strike breaks a worker in one of four ways, of which only the last takes time, and returns how to mend it.
func strike(c *testcluster.Cluster, w *testcluster.Worker, how int) (mend func()) {
	c.Logf("strike %d at %s", how, w.Host)
	switch how {
	case 0:
		c.KillWorker(w)
	case 1:
		c.Net.Isolate(w.Host)
		return func() { c.Net.Rejoin(w.Host) }
	case 2:
		c.PowerOff(w.Host)
	default:
		c.StopWorker(w)
	}
	return func() { c.RestartWorker(w) }
}

// unacknowledged says which executors have been PLACED for longer than limit.
func unacknowledged(c *testcluster.Cluster, limit time.Duration) error {
	var err error
	v := c.View()
	v.AllExecutors(func(e *model.Executor) bool {
		if age := v.Tick() - e.StateTick; e.State == model.ExecutorPlaced && age > limit.Milliseconds() {
			err = fmt.Errorf("%s has been PLACED for %d ms", e.Ref(), age)
		}
		return err == nil
	})
	return err
}

// Fifty applications whose executors die as soon as they are started write little into the log, and an idle cluster of many
// workers next to nothing.
func TestSimSC15WhatFailsAgainAndAgainDoesNotFloodTheLog(t *testing.T) {
	const apps, perSecond, watched = 50, 5, 30 * time.Second
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 3, 20)
		cl := c.Client()
		done := make(chan error, apps)
		defer func() { // they would be tried for ten minutes yet
			c.View().ActiveApps(func(a *model.App) bool { c.Kill(a.ID); return true })
		}()
		for i := range apps {
			spec := testcluster.Sleepers(fmt.Sprintf("doomed %d", i), 1)
			spec.Command.Argv = []string{"fail", "1"}
			go func() {
				_, err := c.TrySubmit(cl, spec, time.Minute)
				done <- err
			}()
		}
		for range apps {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		first, began := c.View().Index(), time.Now()
		time.Sleep(watched / 2)
		failover(c)
		time.Sleep(watched / 2)
		grown := c.View().Index() - first
		t.Logf("%d entries in %s for %d applications, %d processes", grown, time.Since(began), apps, c.Starts())
		if most := uint64(perSecond * time.Since(began).Seconds()); grown > most {
			t.Errorf("the log grew by %d entries in %s, want at most %d", grown, time.Since(began), most)
		}
		if c.Starts() < 4*apps {
			t.Errorf("%d processes were started, want at least %d: nothing was tried again", c.Starts(), 4*apps)
		}
		if most := 7 * apps; c.Starts() > most { // pauses of 1, 2, 4, 8 and 16 s leave room for six
			t.Errorf("%d processes were started, want at most %d: there are no pauses", c.Starts(), most)
		}
	})
}

func TestSimSC15AnIdleClusterWritesNextToNothing(t *testing.T) {
	workers, watched := counted(10, 100), 10*time.Second
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, workers, 1)
		time.Sleep(2 * time.Second) // what registrations leave behind
		first := c.View().Index()
		time.Sleep(watched)
		if grown := c.View().Index() - first; grown > uint64(watched.Seconds()) {
			t.Errorf("an idle cluster of %d workers wrote %d entries in %s, want at most one a second", workers, grown, watched)
		}
	})
}

// Executors are killed, the leader dies, and as many as were asked for run again within five seconds.
func TestSimSC18KilledExecutorsComeBackWithinFiveSeconds(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		app := c.Submit(testcluster.Sleepers("fixed", 4))
		refs := c.Running(app, 4, 10*time.Second)
		for _, n := range []int{1, 3} {
			for _, ref := range refs[:n] {
				for _, w := range c.Workers() {
					w.Murder(ref)
				}
			}
			began := time.Now()
			failover(c)
			c.Until("the deaths are known", 2*time.Second, func() error {
				if e, ok := c.View().Executor(refs[n-1]); ok && !e.State.Terminal() {
					return fmt.Errorf("%s is %s", e.Ref(), e.State)
				}
				return nil
			})
			refs = c.Running(app, 4, 5*time.Second-time.Since(began))
			if a := describe(t, c, app); a.Targets[model.ProfileDefault] != 4 {
				t.Errorf("the target is %d, want 4", a.Targets[model.ProfileDefault])
			}
		}
	})
}
