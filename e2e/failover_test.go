//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// pids maps executors to their processes.
func pids(v model.AppView) map[model.ExecutorID]int {
	out := map[model.ExecutorID]int{}
	for _, e := range live(v) {
		out[e.ID] = e.PID
	}
	return out
}

// HA-32: running work does not notice that the leader died.
func TestExecutorsKeepTheirIDsAndProcessesWhenTheLeaderIsKilled(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 3})
	app := c.run(t, "submit", "--executors", "3", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 3))
	leader := c.leader(t)
	leader.proc.kill9(t)
	killed := time.Now()
	next := c.leader(t)
	t.Logf("%s leads %s after the death of %s", next.name, time.Since(killed).Round(time.Millisecond), leader.name)
	second := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0)
	t.Logf("a submission was placed %s after the death", time.Since(killed).Round(time.Millisecond))
	c.awaitRunning(t, second.app(t), 1)
	// Longer than the grace of a new leader.
	steady(t, 12*time.Second, "the executors stay as they were", func() string {
		return cmp.Diff(before, pids(c.describe(t, app)))
	})
	for id, pid := range before {
		if zombie(pid) {
			t.Errorf("process %d of executor %d is gone", pid, id)
		}
	}
}

// Any master serves any client: reads come from its replica, calls are passed
// on to the leader (design 2).
func TestALoneStandbyServesEveryCommand(t *testing.T) {
	c := newCluster(t, size{workers: 2})
	standby := c.standbys(t)[0]
	var v model.ClusterView
	c.via(t, standby, "status", "-o", "json").wantCode(t, 0).decode(t, &v)
	if string(v.Staleness.Master) != standby.ID || len(v.Masters) != 3 || len(v.Workers) != 2 {
		t.Errorf("status is of %s with %d masters and %d workers", v.Staleness.Master, len(v.Masters), len(v.Workers))
	}
	app := c.via(t, standby, "submit", "--", "sleep", "600").wantCode(t, 0).app(t)
	for _, args := range [][]string{
		{"apps"},
		{"app", string(app)},
		{"workers"},
		{"settings", "get"},
		{"settings", "set", "default_cores=0"},
		{"logs", string(app)},
		{"operator", "raft", "list"},
		{"operator", "gossip", "members"},
	} {
		c.via(t, standby, args...).wantCode(t, 0)
	}
	c.via(t, standby, "kill", string(app)).wantCode(t, 0)
	c.via(t, standby, "wait", string(app)).wantCode(t, 130)
}

// Without a quorum the last known state is still there to be read, with its
// age, and says so (design 9).
func TestStatusWithoutALeaderShowsTheStaleStateWithItsAge(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	c.noQuorum = true
	app := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, app, 1)
	leader := c.leader(t)
	leader.proc.signal(t, syscall.SIGKILL)
	for _, m := range c.masters {
		if m != leader {
			m.proc.signal(t, syscall.SIGKILL)
			break
		}
	}
	lost := time.Now()
	last := (*node)(nil)
	eventually(t, goneWithin, "two masters are dead", func() string {
		alive := living(c.masters)
		if len(alive) != 1 {
			return fmt.Sprintf("%d live", len(alive))
		}
		last = alive[0]
		return ""
	})
	eventually(t, leaderWithin, "the last master knows that nobody leads", func() string {
		v, err := last.view()
		if err != nil {
			return err.Error()
		}
		if v.Staleness.Leader != "" {
			return "it names " + string(v.Staleness.Leader)
		}
		return ""
	})
	t.Logf("the last master knew after %s", time.Since(lost).Round(time.Millisecond))
	r := c.run(t, "status", "-o", "json").wantCode(t, 3).wantStderr(t, "no leader since")
	var v model.ClusterView
	r.decode(t, &v)
	if len(v.Apps) != 1 || v.Apps[0].ID != app || len(v.Workers) != 1 {
		t.Errorf("the stale view has applications %+v and %d workers", v.Apps, len(v.Workers))
	}
	// A master looks once a second whether it knows a leader.
	if age, most := v.Staleness.LeaderlessFor, (time.Since(lost) + 2*time.Second).Milliseconds(); age <= 0 || age > most {
		t.Errorf("leaderless for %d ms, want at most %d ms", age, most)
	}
	if r.took > 2*time.Second {
		t.Errorf("status took %s", r.took)
	}
	t.Logf("status took %s: %s", r.took.Round(time.Millisecond), r.stderr)
	refused := c.run(t, "submit", "--timeout", "2s", "--", "true")
	if refused.code != 3 && refused.code != 124 {
		t.Errorf("submit without a leader: code %d, stderr %s", refused.code, refused.stderr)
	}
	refused.wantStderr(t, "leader")
	if v := c.stillRuns(t, app); v != "" {
		t.Error(v)
	}
}

// stillRuns says what is wrong if an application has no process.
func (c *cluster) stillRuns(t testing.TB, app model.AppID) string {
	t.Helper()
	for _, p := range scan(c.markers) {
		if p.app == string(app) {
			return ""
		}
	}
	return fmt.Sprintf("%s has no process", app)
}

// A master that is told to stop hands leadership over first.
func TestALeaderThatIsToldToStopHandsOver(t *testing.T) {
	c := newCluster(t, size{workers: 2})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	leader := c.leader(t)
	leader.proc.signal(t, syscall.SIGTERM)
	told := time.Now()
	r := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0)
	accepted := time.Since(told)
	t.Logf("a submission was placed %s after SIGTERM to the leader", accepted.Round(time.Millisecond))
	if accepted > time.Second {
		t.Errorf("the submission took %s, want at most 1s", accepted)
	}
	took := leader.proc.awaitEnd(t, goneWithin)
	t.Logf("the old leader ended within %s", took.Round(time.Millisecond))
	c.awaitRunning(t, r.app(t), 1)
	if diff := cmp.Diff(before, pids(c.awaitRunning(t, app, 2))); diff != "" {
		t.Errorf("executors changed (-before +after):\n%s", diff)
	}
}
