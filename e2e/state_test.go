//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// askTimeout bounds one question to the cluster; a change of leader may lie in
// the middle of it.
const askTimeout = 20 * time.Second

// view reads the replica of one master.
func (n *node) view() (model.ClusterView, error) {
	var v model.ClusterView
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	resp, err := n.of.access.get(ctx, n.HTTP, "/v1/cluster")
	if err != nil {
		return v, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return v, fmt.Errorf("%s answers %s", n.name, resp.Status)
	}
	return v, json.NewDecoder(resp.Body).Decode(&v)
}

// leader waits until one living master says of itself that it leads.
func (c *cluster) leader(t testing.TB) *node {
	t.Helper()
	var leader *node
	eventually(t, leaderWithin, "a leader", func() string {
		leader = nil
		var term uint64
		for _, m := range living(c.masters) {
			v, err := m.view()
			if err == nil && string(v.Staleness.Leader) == m.ID && v.Staleness.Term > term {
				leader, term = m, v.Staleness.Term
			}
		}
		if leader == nil {
			return "no master leads"
		}
		return ""
	})
	return leader
}

func (c *cluster) standbys(t testing.TB) []*node {
	t.Helper()
	leader := c.leader(t)
	var out []*node
	for _, m := range living(c.masters) {
		if m != leader {
			out = append(out, m)
		}
	}
	return out
}

// sameState waits until all living masters have applied the same index, and
// compares their hashes there.
func (c *cluster) sameState(t testing.TB) {
	t.Helper()
	eventually(t, settleWithin, "all replicas at one index", func() string {
		var first model.ClusterView
		for n, m := range living(c.masters) {
			v, err := m.view()
			if err != nil {
				return err.Error()
			}
			if n == 0 {
				first = v
				continue
			}
			if v.Staleness.AppliedIndex != first.Staleness.AppliedIndex {
				return fmt.Sprintf("%s is at %d, %s at %d", first.Staleness.Master, first.Staleness.AppliedIndex, m.ID, v.Staleness.AppliedIndex)
			}
			if v.StateHash != first.StateHash {
				t.Fatalf("replicas differ at index %d: %s has %s, %s has %s",
					first.Staleness.AppliedIndex, first.Staleness.Master, first.StateHash, m.ID, v.StateHash)
			}
		}
		if first.StateHash == "" {
			return "no master shows its hash"
		}
		return ""
	})
}

// describe reads one application with its executors.
func (c *cluster) describe(t testing.TB, app model.AppID) model.AppView {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	v, err := c.client.App(ctx, rpc.AppRequest{ID: string(app), Strong: true})
	if err != nil {
		t.Fatalf("describe %s: %v", app, err)
	}
	return v
}

func (c *cluster) status(t testing.TB) model.ClusterView {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	v, err := c.client.Status(ctx)
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return v
}

// worker finds a worker in a view.
func worker(v model.ClusterView, id string) (model.WorkerView, bool) {
	for _, w := range v.Workers {
		if string(w.ID) == id {
			return w, true
		}
	}
	return model.WorkerView{}, false
}

// awaitWorker waits until the master that is asked, which may be any of them and
// lag behind, says that a worker is in a state.
func (c *cluster) awaitWorker(t testing.TB, n *node, state model.WorkerState) {
	t.Helper()
	eventually(t, settleWithin, fmt.Sprintf("%s is %s", n.name, state), func() string {
		w, ok := worker(c.status(t), n.ID)
		if !ok || w.State != state {
			return "it is " + string(w.State)
		}
		return ""
	})
}

// live are the executors that are not over, by id.
func live(v model.AppView) []model.ExecutorView {
	var out []model.ExecutorView
	for _, e := range v.Executors {
		if !e.Terminal {
			out = append(out, e)
		}
	}
	return out
}

func running(v model.AppView) []model.ExecutorView {
	var out []model.ExecutorView
	for _, e := range v.Executors {
		if e.State == model.ExecutorRunning {
			out = append(out, e)
		}
	}
	return out
}

// awaitRunning waits until an application has exactly so many executors and
// all of them run.
func (c *cluster) awaitRunning(t testing.TB, app model.AppID, count int) model.AppView {
	t.Helper()
	var v model.AppView
	eventually(t, settleWithin, fmt.Sprintf("%d running executors of %s", count, app), func() string {
		v = c.describe(t, app)
		if r, l := len(running(v)), len(live(v)); r != count || l != count {
			return fmt.Sprintf("%d run and %d live; the application is %s: %s", r, l, v.State, v.Reason)
		}
		// The driver may know an executor before its worker's report is committed.
		if slices.ContainsFunc(running(v), func(e model.ExecutorView) bool { return e.PID == 0 }) {
			return "the process of one is not known yet"
		}
		return ""
	})
	return v
}

// awaitEnded waits for an application's end.
func (c *cluster) awaitEnded(t testing.TB, app model.AppID, within time.Duration) model.AppView {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	v, err := c.client.WaitEnded(ctx, app)
	if err != nil {
		t.Fatalf("end of %s: %v; it is %+v", app, err, c.describe(t, app))
	}
	return v
}

// killAll ends every application and waits until no executor process is left
// and every worker is unused.
func (c *cluster) killAll(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin)
	defer cancel()
	r, err := c.client.Apps(ctx, rpc.AppsRequest{})
	if err != nil {
		t.Fatalf("list applications: %v", err)
	}
	for _, a := range r.Apps {
		if err := c.client.KillApp(ctx, a.ID, "the test is over"); err != nil {
			t.Logf("kill %s: %v", a.ID, err) // it may have ended meanwhile
		}
	}
	c.unused(t)
}

// unused waits until no executor process of this cluster is left and the books
// of the leader say so too (PR-01, AC-09).
func (c *cluster) unused(t testing.TB) {
	t.Helper()
	took := eventually(t, settleWithin, "no executor process left", func() string {
		var left []found
		for _, p := range scan(c.markers) {
			if p.app != "" {
				left = append(left, p)
			}
		}
		return list(left)
	})
	eventually(t, settleWithin, "nothing used on any worker", func() string {
		v, err := c.leader(t).view()
		if err != nil {
			return err.Error()
		}
		for _, w := range v.Workers {
			if w.CoresUsed != 0 || w.MemoryUsedMiB != 0 || w.Executors != 0 {
				return fmt.Sprintf("%s (%s): %d cores, %d MiB, %d executors used", w.ID, w.State, w.CoresUsed, w.MemoryUsedMiB, w.Executors)
			}
		}
		return ""
	})
	if took > time.Second {
		t.Logf("the last executor process was gone after %s", took.Round(time.Millisecond))
	}
}
