//go:build linux

package testcluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// A process that SIGKILL does not end is shown as STUCK, with its number, 15 s after it was told to end. It stays charged,
// its worker takes other work, and the charge ends with the process, whoever leads.
func TestSimPR18AProcessThatCannotBeKilledIsShownAndStaysCharged(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 1, 4)
		w := c.Worker(0)
		spec := testcluster.Sleepers("hung", 1)
		spec.Profile.Cores, spec.Command.Argv = 2, []string{"undead", "12"}
		app := c.Submit(spec)
		ref := c.Running(app, 1, 10*time.Second)[0]
		c.Kill(app)
		state := func(want model.ExecutorState) func() error {
			return func() error {
				e, ok := c.View().Executor(ref)
				if !ok || e.State != want || e.PID == 0 {
					return fmt.Errorf("%+v, want %s with a process id", e, want)
				}
				return nil
			}
		}
		took := c.Until("it is STUCK", 17*time.Second, state(model.ExecutorStuck))
		if took < 14*time.Second {
			t.Errorf("it was STUCK after %s, want 15 s", took)
		}
		failover(c)
		if err := state(model.ExecutorStuck)(); err != nil {
			t.Error(err)
		}
		other := c.Submit(testcluster.Sleepers("other", 4))
		c.Until("the worker takes what it has room for", 5*time.Second, func() error { return c.IsRunning(other, 2) })
		if used := c.View().Usage(w.ID()).Cores; used != 4 {
			t.Errorf("%d cores are in use, want 4: the stuck process stays charged", used)
		}
		c.Running(other, 4, 15*time.Second) // the process has gone
		if e, ok := c.View().Executor(ref); ok && !e.State.Terminal() {
			t.Errorf("%s is %s after its process has gone", ref, e.State)
		}
	})
}

// Processes are killed by SIGKILL while they are being granted, launched or have just begun to run: each application has all
// its executors again in time.
func TestSimPR20ProcessesKilledWhileTheyAreAssignedAreReplaced(t *testing.T) {
	const together, limit = 10, 30 * time.Second
	rounds := counted(2, 100)
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 3, 8)
		killed := 0
		for round := range rounds {
			if round == rounds/2 {
				failover(c)
			}
			var apps []model.AppID
			for i := range together {
				apps = append(apps, c.Submit(testcluster.Sleepers(fmt.Sprintf("victim %d of round %d", i, round), 2)))
			}
			victims := make(map[model.AppID]bool)
			c.Until("every application has lost one", 10*time.Second, func() error {
				for _, w := range c.Workers() {
					for _, ref := range w.Runs() {
						if !victims[ref.App] && c.Rand.Intn(4) == 0 && w.Murder(ref) {
							victims[ref.App] = true
							killed++
						}
					}
				}
				if len(victims) < together {
					return fmt.Errorf("%d have", len(victims))
				}
				return nil
			})
			for _, app := range apps {
				c.Running(app, 2, limit)
				c.Kill(app)
			}
		}
		t.Logf("%d were killed", killed)
	})
}

// A worker that hangs is given up, and useful again soon after it wakes.
func TestSimPR20AWorkerThatHangsIsUsableSoonAfterItWakes(t *testing.T) {
	hangs := time.Duration(counted(30, 300)) * time.Second
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 2)
		app := c.Submit(testcluster.Sleepers("work", 4))
		c.Running(app, 4, 10*time.Second)
		w := c.Worker(0)
		c.Net.Pause(w.Host)
		c.Until("it is DEAD", c.WorkerTimeout+5*time.Second, func() error {
			if s := c.WorkerState(w); s != model.WorkerDead {
				return fmt.Errorf("it is %s", s)
			}
			return nil
		})
		time.Sleep(hangs - c.WorkerTimeout)
		failover(c)
		c.Net.Resume(w.Host)
		c.Until("it runs its share", 10*time.Second, func() error { return c.IsRunning(app, 4) })
		if n := len(c.OnWorker(w)); n != 2 {
			t.Errorf("%d executors are on the worker that woke, want 2", n)
		}
	})
}
