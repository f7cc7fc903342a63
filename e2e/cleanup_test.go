//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// How many applications end in which way; 200 together, which is what the
// history of a cluster keeps.
const (
	endsByFinish     = 60
	endsByKill       = 60
	endsByDriver     = 40
	driverProcesses  = 4
	endsWithWorker   = 40
	endsInAll        = endsByFinish + endsByKill + endsByDriver + endsWithWorker
	concurrencyLimit = 8
)

// PR-01 and AC-09: however an application ends, nothing of it stays: no
// process, also none that left its process group, and no charge on a worker.
func TestPR01TwoHundredApplicationsThatEndInFourWaysLeaveNothingBehind(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 4, cores: 60, memory: "60g"})
	started := time.Now()
	since := func() time.Duration { return time.Since(started).Round(time.Millisecond) }

	var drivers []*driverProcess
	for n := range driverProcesses {
		drivers = append(drivers, c.startDrivers(t, fmt.Sprintf("driver-%d", n), endsByDriver/driverProcesses))
	}
	t.Logf("%d drivers have an executor each after %s", endsByDriver, since())
	finishing := c.registerMany(t, "finish", endsByFinish, 1, "sh", "-c", "sleep 600 & setsid sleep 600 & exit 0")
	killed := c.registerMany(t, "kill", endsByKill, 0, "sh", "-c", "sleep 600 & setsid sleep 600 & wait")
	widows := c.registerMany(t, "worker", endsWithWorker, 0, "sh", "-c", "sleep 600 & setsid sleep 600 & wait")
	for _, app := range append(append([]model.AppID(nil), killed...), widows...) {
		c.awaitRunning(t, app, 1)
	}
	t.Logf("all applications have run after %s", since())
	ours := 0
	for _, p := range scan(c.markers) {
		if p.worker == "" { // a daemon or a keeper
			continue
		}
		if ours++; p.app == "" || p.exec == "" {
			t.Errorf("process %s names no application or no executor (%q)", p, p.exec)
		}
	}
	if ours < len(killed)+len(widows)+endsByDriver {
		t.Errorf("only %d processes of executors run: the test looks in the wrong place", ours)
	}

	for _, d := range drivers {
		d.kill()
	}
	driversDied := time.Now()
	c.each(t, killed, func(ctx context.Context, app model.AppID) error {
		return c.client.KillApp(ctx, app, "by the test")
	})
	for _, app := range append(append([]model.AppID(nil), finishing...), killed...) {
		c.awaitEnded(t, app, settleWithin)
	}
	t.Logf("all that finish or are killed have ended after %s", since())

	for _, w := range c.workers[:2] {
		w.proc.kill9(t)
	}
	gone := eventually(t, settleWithin, "nothing is left of the dead workers", func() string {
		return list(append(processesOf(c.workers[0].ID), processesOf(c.workers[1].ID)...))
	})
	t.Logf("nothing was left of the dead workers after %s", gone.Round(time.Millisecond))
	for _, app := range widows {
		c.awaitRunning(t, app, 1)
	}
	t.Logf("executors of the dead workers are replaced after %s", since())
	c.each(t, widows, func(ctx context.Context, app model.AppID) error {
		return c.client.KillApp(ctx, app, "by the test")
	})
	for _, d := range drivers {
		for _, app := range d.apps {
			if v := c.awaitEnded(t, app, time.Minute); v.State != model.AppFailed || v.Reason == "" {
				t.Errorf("%s, whose driver was killed, is %s with the reason %q", app, v.State, v.Reason)
			}
		}
	}
	t.Logf("the applications of dead drivers have ended %s after them", time.Since(driversDied).Round(time.Millisecond))
	c.unused(t)
	t.Logf("no process is left after %s", since())

	c.sameState(t)
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	r, err := c.client.Apps(ctx, rpc.AppsRequest{Ended: true})
	if err != nil {
		t.Fatal(err)
	}
	states := map[model.AppState]int{}
	for _, a := range r.Apps {
		states[a.State]++
	}
	want := map[model.AppState]int{model.AppFinished: endsByFinish, model.AppKilled: endsByKill + endsWithWorker, model.AppFailed: endsByDriver}
	for state, n := range want {
		if states[state] != n {
			t.Errorf("%d applications are %s, want %d of %d", states[state], state, n, endsInAll)
		}
	}
}

// registerMany registers applications of one copy each; completions of 0 keeps
// it running.
func (c *cluster) registerMany(t testing.TB, name string, count, completions int, argv ...string) []model.AppID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	apps := make([]model.AppID, count)
	var g errgroup.Group
	g.SetLimit(concurrencyLimit)
	for n := range count {
		g.Go(func() error {
			spec := commandSpec(fmt.Sprintf("%s-%d", name, n), 1, argv...)
			spec.Completions = completions
			r, err := c.client.RegisterApp(ctx, spec)
			apps[n] = r.App
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("register %s: %v", name, err)
	}
	return apps
}

func (c *cluster) each(t testing.TB, apps []model.AppID, do func(context.Context, model.AppID) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(concurrencyLimit)
	for _, app := range apps {
		g.Go(func() error { return do(ctx, app) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A driver that dies alone ends its application quickly: its listener is
// refused twice (design 8).
func TestTheApplicationOfADriverThatDiesAloneEndsWithinSeconds(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 8})
	var others []*driverProcess
	for n := range 5 {
		others = append(others, c.startDrivers(t, fmt.Sprintf("other-%d", n), 1))
	}
	victim := others[0]
	victim.kill()
	died := time.Now()
	v := c.awaitEnded(t, victim.apps[0], 40*time.Second)
	took := time.Since(died)
	t.Logf("ended after %s: %s", took.Round(time.Millisecond), v.Reason)
	if took > 10*time.Second {
		t.Errorf("the application ended after %s, want a few seconds", took)
	}
	for _, o := range others[1:] {
		if v := c.describe(t, o.apps[0]); v.State != model.AppRunning {
			t.Errorf("%s, whose driver lives, is %s: %s", v.ID, v.State, v.Reason)
		}
	}
}
