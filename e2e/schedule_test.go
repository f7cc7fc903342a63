//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// perWorker counts executors on each worker.
func perWorker(v model.AppView) map[model.WorkerID]int {
	out := map[model.WorkerID]int{}
	for _, e := range live(v) {
		out[e.Worker]++
	}
	return out
}

// SC-07: a limit of 48 cores with 16 per executor is three executors of 16,
// whichever way the scheduler fills workers.
func TestFortyEightCoresAtSixteenEachAreThreeExecutorsOnFourWorkersOfSixteen(t *testing.T) {
	c := newCluster(t, size{workers: 4, cores: 16})
	for _, spread := range []string{"true", "false"} {
		c.run(t, "settings", "set", "spread_out_apps="+spread).wantCode(t, 0)
		r := c.run(t, "submit", "--max-cores", "48", "--executor-cores", "16", "--", "sleep", "600").wantCode(t, 0)
		app := r.app(t)
		v := c.awaitRunning(t, app, 3)
		for _, e := range live(v) {
			if e.Cores != 16 {
				t.Errorf("spread_out_apps=%s: executor %d has %d cores, want 16", spread, e.ID, e.Cores)
			}
		}
		if on := perWorker(v); len(on) != 3 || v.Cores != 48 {
			t.Errorf("spread_out_apps=%s: executors on %v with %d cores, want 3 workers and 48 cores", spread, on, v.Cores)
		}
		steady(t, time.Second, "no fourth executor", func() string {
			if n := len(live(c.describe(t, app))); n != 3 {
				return fmt.Sprintf("%d executors", n)
			}
			return ""
		})
		c.run(t, "kill", string(app)).wantCode(t, 0)
		c.unused(t)
	}
}

// SC-07: what one application gives back goes to the next one at once.
func TestTheFourthExecutorStartsWithinASecondAfterTheOtherApplicationEnds(t *testing.T) {
	c := newCluster(t, size{workers: 4, cores: 8})
	first := c.run(t, "submit", "--max-cores", "4", "--executor-cores", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, first, 1)
	second := c.run(t, "submit", "--max-cores", "24", "--executor-cores", "6", "--", "sleep", "600").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, second, 3)
	if on := perWorker(v); len(on) != 3 || v.Cores != 18 {
		t.Errorf("the second application is on %v with %d cores, want 3 workers and 18 cores", on, v.Cores)
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	started := time.Now()
	if err := c.client.KillApp(ctx, first, "its end is measured"); err != nil {
		t.Fatal(err)
	}
	eventually(t, settleWithin, "the fourth executor has a process", func() string {
		v = c.describe(t, second)
		for _, e := range v.Executors {
			if e.ID == 3 && e.PID != 0 && !e.Terminal {
				return ""
			}
		}
		return fmt.Sprintf("%d executors", len(live(v)))
	})
	took := time.Since(started)
	t.Logf("the fourth executor was launched %s after the first application was killed", took.Round(time.Millisecond))
	if took > time.Second {
		t.Errorf("the fourth executor took %s, want at most 1s", took)
	}
	c.awaitRunning(t, second, 4)
}
