//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// A driver is gone with its machine, without a word, before an executor has reached it: none counts as running, and the
// application ends soon after its driver's time-out, under the next leader too.
func TestSimAC04NoExecutorRunsForADriverThatHasVanished(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		for _, w := range c.Workers() {
			c.Net.Partition("d1", w.Host)
		}
		d := c.StartDriver("vanishing", 2)
		c.Until("executors are started", 10*time.Second, func() error {
			if c.Starts() < 2 {
				return fmt.Errorf("%d are", c.Starts())
			}
			return nil
		})
		c.Net.Isolate(d.Host)
		began := time.Now()
		failover(c)
		took := c.Until("the application has ended", 35*time.Second, func() error {
			a := describe(t, c, d.App())
			c.View().Executors(a.ID, func(e *model.Executor) bool {
				if e.State == model.ExecutorRunning {
					t.Fatalf("%s is RUNNING, and its driver never saw it", e.Ref())
				}
				return true
			})
			if !a.State.Terminal() {
				return fmt.Errorf("it is %s", a.State)
			}
			return nil
		})
		a := describe(t, c, d.App())
		t.Logf("%s %s after the driver vanished, %d launches: %s", a.State, time.Since(began), c.Starts(), a.Reason)
		if a.State != model.AppFailed || c.Starts() > 10 {
			t.Errorf("%s after %s and %d launches, want FAILED and at most ten", a.State, took, c.Starts())
		}
	})
}

// Executors that do not heed SIGTERM hold their cores until they are gone, whoever leads: what wants them starts afterwards,
// and live processes never claim more than the worker has.
func TestSimAC05CoresAreFreeOnlyWhenTheProcessIsGone(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 1, 8)
		w := c.Worker(0)
		spec := func(name string, program ...string) model.AppSpec {
			s := testcluster.Sleepers(name, 2)
			s.Profile.Cores, s.Command.Argv = 4, program
			return s
		}
		first := c.Submit(spec("deaf", "deaf"))
		c.Running(first, 2, 10*time.Second)
		second := c.Submit(spec("waiting", "sleep", "forever"))
		c.Kill(first)
		killed := time.Now()
		failover(c)
		c.Until("the second application runs", 15*time.Second, func() error {
			used, live := c.View().Usage(w.ID()).Cores, 4*len(w.Runs())
			if used > 8 || used < live || live > 8 {
				t.Fatalf("%d cores are in use by the books and %d by processes, of 8", used, live)
			}
			for _, ref := range w.Runs() {
				if ref.App == second && time.Since(killed) < 9*time.Second {
					t.Fatalf("%s runs %s after processes that live for 10 s were told to end", ref, time.Since(killed))
				}
			}
			return c.IsRunning(second, 2)
		})
	})
}

// A third of all packets is lost and the leader dies while executors end: each end is known soon, once. Soon is less than ten
// seconds nearly always; how long a leader's election takes on such a network has no bound, so twice that is the limit.
func TestSimAC06EveryEndIsKnownOnceWhateverIsLost(t *testing.T) {
	const together = 20
	rounds := counted(2, 25)
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 4, 5)
		for round := range rounds {
			spec := testcluster.Sleepers(fmt.Sprintf("ends %d", round), together)
			spec.Completions, spec.Command.Argv = together, []string{"sleep", "4"}
			app := c.Submit(spec)
			c.Running(app, together, 10*time.Second)
			c.Net.SetLoss(0.3)
			c.Until("the first have ended", 10*time.Second, func() error { return atMost(c, together-1) })
			failover(c)
			c.Until("all have ended", 10*time.Second, func() error { return atMost(c, 0) })
			took := c.Until("their ends are known", 20*time.Second, func() error {
				if a := describe(t, c, app); !a.State.Terminal() || a.CoresGranted != 0 {
					return fmt.Errorf("%s with %d of %d ends, %d cores", a.State, a.Completed, together, a.CoresGranted)
				}
				return nil
			})
			a := describe(t, c, app)
			t.Logf("round %d: known after %s", round, took)
			if a.State != model.AppFinished || a.Completed != together || len(a.Finished) != together || len(a.Failures) != 0 {
				t.Errorf("%s with %d completions of %d executors and %d failures, want FINISHED, %d, %d and none",
					a.State, a.Completed, len(a.Finished), len(a.Failures), together, together)
			}
			c.Net.SetLoss(0)
			c.Settled(20 * time.Second)
			c.AwaitWorkers(4, 20*time.Second)
			c.Until("every worker has its session", 20*time.Second, c.Attached) // else those that have one are done before the others begin
		}
		if n := c.Starts(); n != rounds*together {
			t.Errorf("%d processes were started, want %d", n, rounds*together)
		}
	})
}

// atMost says whether at most n processes live on all workers.
func atMost(c *testcluster.Cluster, n int) error {
	live := 0
	for _, w := range c.Workers() {
		live += len(w.Runs())
	}
	if live > n {
		return fmt.Errorf("%d live", live)
	}
	return nil
}

// Applications are killed at any moment of their lives, the leader dies meanwhile, and in the end nothing is in use,
// wanted or alive.
func TestSimAC09WhatIsKilledAtAnyMomentLeavesNothingBehind(t *testing.T) {
	apps, callers := counted(60, 1000), 12
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 3, 8)
		type life struct {
			name  string
			n     int
			lives time.Duration
		}
		todo, done := make(chan life, apps), make(chan error, callers)
		cl := c.Client()
		for range callers {
			go func() {
				for l := range todo {
					app, err := c.TrySubmit(cl, testcluster.Sleepers(l.name, l.n), time.Minute)
					if err != nil {
						done <- err
						return
					}
					time.Sleep(l.lives)
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					err = cl.KillApp(ctx, app, "test")
					cancel()
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for i := range apps {
			todo <- life{fmt.Sprintf("short %d", i), 1 + c.Rand.Intn(3), time.Duration(c.Rand.Int63n(int64(1500 * time.Millisecond)))}
		}
		close(todo)
		time.Sleep(2 * time.Second)
		failover(c)
		for range callers {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		c.Until("nothing is left", 30*time.Second, func() error {
			v := c.View()
			if n := v.CountActive(); n > 0 {
				return fmt.Errorf("%d applications want something", n)
			}
			for _, w := range c.Workers() {
				if u := v.Usage(w.ID()); u.Cores != 0 || u.MemoryMiB != 0 || u.Executors != 0 {
					return fmt.Errorf("%s is used: %+v", w.Host, u)
				}
			}
			return atMost(c, 0)
		})
		t.Logf("%d processes were started for %d applications", c.Starts(), apps)
	})
}
