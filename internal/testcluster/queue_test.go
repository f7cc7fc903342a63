//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd"
)

// set changes settings of the scheduler.
func set(t *testing.T, c *testcluster.Cluster, values map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), orderBound)
	defer cancel()
	if err := c.Client().SetSettings(ctx, values); err != nil {
		t.Fatalf("set %v: %v", values, err)
	}
}

// holds waits until applications have exactly so many running executors, and no others.
func holds(c *testcluster.Cluster, want map[model.AppID]int) {
	c.Until(fmt.Sprintf("executors are %v", want), 20*time.Second, func() error {
		running, others := make(map[model.AppID]int), 0
		for id := range want {
			running[id] = 0
			c.View().Executors(id, func(e *model.Executor) bool {
				if e.State == model.ExecutorRunning {
					running[id]++
				} else {
					others++
				}
				return true
			})
		}
		if !maps.Equal(running, want) || others > 0 {
			return fmt.Errorf("%v run, and %d are in other states", running, others)
		}
		return nil
	})
}

// stays checks that applications hold as much after a change of the leader, and some time later.
func stays(c *testcluster.Cluster, want map[model.AppID]int) {
	holds(c, want)
	failover(c)
	time.Sleep(10 * time.Second)
	holds(c, want)
}

// queued is n sleepers of one core in a queue.
func queued(name, queue string, n int) model.AppSpec {
	s := testcluster.Sleepers(name, n)
	s.Queue = queue
	return s
}

// Of eight cores the urgent queue gets its cap and the others share the rest by weight, as if no leader had died while they
// waited, nor when cores became free.
func TestSimQueuesKeepPriorityWeightAndCapThroughAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		all := c.Submit(testcluster.Sleepers("all", 8))
		c.Running(all, 8, 10*time.Second)
		// What is held already counts from then on.
		set(t, c, map[string]string{model.SettingQueues: "urgent,priority=10,cap_cores=3;heavy,weight=3;light"})
		light := c.Submit(queued("light", "light", 20))
		heavy := c.Submit(queued("heavy", "heavy", 20))
		urgent := c.Submit(queued("urgent", "urgent", 20))
		stays(c, map[model.AppID]int{all: 8, light: 0, heavy: 0, urgent: 0})
		c.Kill(all)
		stays(c, map[model.AppID]int{urgent: 3, heavy: 4, light: 1}) // without priority 2, 4 and 2; without weight 3, 3 and 2
		set(t, c, map[string]string{model.SettingQueues: "urgent,priority=10,cap_cores=4;heavy,weight=3;light"})
		c.Kill(light)
		stays(c, map[model.AppID]int{urgent: 4, heavy: 4})
	})
}

// ending ends so many of the applications, each of one executor, that run on a worker, and forgets them.
func ending(c *testcluster.Cluster, w *testcluster.Worker, apps map[model.AppID]bool, n int) {
	for _, ref := range c.OnWorker(w) {
		if n > 0 && apps[ref.App] {
			n--
			delete(apps, ref.App)
			c.Kill(ref.App)
		}
	}
	if n > 0 {
		c.Fatalf("%d applications too few run on %s", n, w.Host)
	}
}

// A gang of three waits on a full cluster. What becomes free before it is due goes to who came later; what becomes free then
// is kept for it, by the next leader too, until all three are placed at one moment.
func TestSimCoresAreKeptForAGangThroughAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		const due = time.Minute
		cluster(c, 2, 4)
		set(t, c, map[string]string{model.SettingGangAfter: due.String()})
		apps := make(map[model.AppID]bool)
		for i := range 8 {
			apps[c.Submit(testcluster.Sleepers(fmt.Sprintf("small %d", i), 1))] = true
		}
		for id := range apps {
			c.Running(id, 1, 10*time.Second)
		}
		spec := testcluster.Sleepers("gang", 3)
		spec.MinExecutors = 3
		began := time.Now()
		gang := c.Submit(spec)
		early := c.Submit(testcluster.Sleepers("early", 1))
		ending(c, c.Worker(1), apps, 1)
		stays(c, map[model.AppID]int{gang: 0, early: 1})
		time.Sleep(due + time.Second - time.Since(began))
		late := c.Submit(testcluster.Sleepers("late", 1))
		ending(c, c.Worker(0), apps, 2)
		stays(c, map[model.AppID]int{gang: 0, late: 0})
		ending(c, c.Worker(0), apps, 1)
		holds(c, map[model.AppID]int{gang: 3, late: 0})
		failover(c)
		at := make(map[int64]int)
		c.View().Executors(gang, func(e *model.Executor) bool {
			at[e.PlacedTick]++
			return true
		})
		if len(at) != 1 {
			t.Errorf("the gang was placed at %v, want one moment", at)
		}
		ending(c, c.Worker(1), apps, 1)
		stays(c, map[model.AppID]int{gang: 3, late: 1})
	})
}

// A gang of six waits where there are eight cores. Of what becomes free four are kept for it, which is half of all, and not one
// more, by whoever leads: the rest goes to who came later. So a gang that is larger than half of a cluster waits for an
// opportunity, and holds nobody else up for ever.
func TestSimAtMostHalfOfTheCoresAreKeptForAGangThroughAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		cluster(c, 2, 4)
		set(t, c, map[string]string{model.SettingGangAfter: "1s"})
		apps := make(map[model.AppID]bool)
		for i := range 8 {
			apps[c.Submit(testcluster.Sleepers(fmt.Sprintf("small %d", i), 1))] = true
		}
		for id := range apps {
			c.Running(id, 1, 10*time.Second)
		}
		spec := testcluster.Sleepers("gang", 6)
		spec.MinExecutors = 6
		gang := c.Submit(spec)
		time.Sleep(2 * time.Second) // it is due
		late := c.Submit(testcluster.Sleepers("late", 8))
		ending(c, c.Worker(0), apps, 3)
		stays(c, map[model.AppID]int{gang: 0, late: 0})
		for got := range 2 { // one at a time: six at once would be the opportunity
			ending(c, c.Worker(1), apps, 1)
			holds(c, map[model.AppID]int{gang: 0, late: got})
		}
		failover(c)
		ending(c, c.Worker(1), apps, 1)
		holds(c, map[model.AppID]int{gang: 0, late: 2})
		ending(c, c.Worker(0), apps, 1)
		ending(c, c.Worker(1), apps, 1)
		stays(c, map[model.AppID]int{gang: 0, late: 4})
		c.Kill(late)
		stays(c, map[model.AppID]int{gang: 6})
	})
}

// Labels say where executors may be and where they had better be, under each leader; and an application ends when its time is
// up by the clock of the cluster, in which a leader's death takes nothing away and adds nothing.
func TestSimLabelsAndRunTimesHoldThroughAFailover(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		for i, labels := range []map[string]string{{"disk": "ssd"}, {"disk": "hdd", "zone": "b"}, {"disk": "hdd"}} {
			c.StartWorkerOn(fmt.Sprintf("w%d", i+1), workerd.Config{Cores: 4, MemoryMiB: 16384, Labels: labels})
		}
		c.Settled(20 * time.Second)
		c.AwaitWorkers(3, 10*time.Second)
		need := testcluster.Sleepers("need", 6)
		need.Require = map[string]string{"disk": "ssd"}
		prefer := testcluster.Sleepers("prefer", 1)
		prefer.Prefer = map[string]string{"zone": "b"}
		needs, prefers := c.Submit(need), c.Submit(prefer)
		stays(c, map[model.AppID]int{needs: 4, prefers: 1})
		if n := len(c.OnWorker(c.Worker(0))); n != 4 {
			t.Errorf("%d executors are on the worker with the label, want 4", n)
		}
		if n := len(c.OnWorker(c.Worker(1))); n != 1 {
			t.Errorf("%d executors are on the worker that is preferred, want 1", n)
		}
		short := testcluster.Sleepers("short", 1)
		short.MaxRuntimeMilli = (30 * time.Second).Milliseconds()
		began := time.Now()
		app := c.Submit(short)
		c.Running(app, 1, 10*time.Second)
		time.Sleep(10 * time.Second)
		failover(c)
		c.Until("the time of the application is up", 30*time.Second, func() error {
			if a := describe(t, c, app); a.State != model.AppFailed {
				return fmt.Errorf("it is %s", a.State)
			}
			return nil
		})
		if took := time.Since(began); took < 29*time.Second || took > 35*time.Second {
			t.Errorf("it ended after %s, want 30 s and a little", took)
		}
		stays(c, map[model.AppID]int{needs: 4, prefers: 1, app: 0})
		c.Kill(needs) // it would wait for ever
	})
}
