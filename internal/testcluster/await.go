//go:build linux

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// Until polls in virtual time until ok returns nil, and returns how long that took. The test ends with ok's last error if
// it does not within limit.
func (c *Cluster) Until(what string, limit time.Duration, ok func() error) time.Duration {
	c.t.Helper()
	began := time.Now()
	for {
		err := ok()
		if err == nil {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			c.t.Fatalf("not within %s: %s: %v", limit, what, err)
		}
		time.Sleep(poll)
	}
}

// Leader is the master that acts as leader now, without except. Two at once are possible for a moment: of those the one of
// the higher term.
func (c *Cluster) Leader(except ...*Master) (*Master, error) {
	var leader *Master
	var highest uint64
	for _, m := range c.Masters(except...) {
		if term, leads := m.Leading(); leads && term >= highest {
			leader, highest = m, term
		}
	}
	if leader == nil {
		return nil, errors.New("nobody leads")
	}
	return leader, nil
}

// AwaitLeader waits for a leader that is none of except.
func (c *Cluster) AwaitLeader(limit time.Duration, except ...*Master) *Master {
	c.t.Helper()
	var leader *Master
	c.Until("a leader", limit, func() (err error) {
		leader, err = c.Leader(except...)
		return err
	})
	return leader
}

// Settled waits until the masters that are up belong to one cluster, whose leader has all that are expected as members,
// and returns the leader.
func (c *Cluster) Settled(limit time.Duration) *Master {
	c.t.Helper()
	var leader *Master
	c.Until("one cluster with a leader", limit, func() (err error) {
		if leader, err = c.Leader(); err != nil {
			return err
		}
		for _, m := range c.Masters() {
			if m.Cluster() != leader.Cluster() {
				return fmt.Errorf("%s belongs to %s", m.Host, m.Cluster())
			}
		}
		servers, err := leader.Servers()
		if err == nil && len(servers) != c.Expect {
			err = fmt.Errorf("%d servers, want %d", len(servers), c.Expect)
		}
		return err
	})
	return leader
}

// Agree waits until all masters that are up stand at one index with one hash.
func (c *Cluster) Agree() {
	c.t.Helper()
	c.Until("equal state hashes", 30*time.Second, c.agreed)
}

func (c *Cluster) agreed() error {
	all := c.Masters()
	if len(all) == 0 {
		return nil
	}
	index, hash := all[0].StateHash()
	for _, m := range all[1:] {
		if i, h := m.StateHash(); i != index || h != hash {
			return fmt.Errorf("%s is at %d %s, %s at %d %s", all[0].Host, index, hash, m.Host, i, h)
		}
	}
	return nil
}

// View is the leader's state, or the newest of any master while there is no leader.
func (c *Cluster) View() *fsm.View {
	if leader, err := c.Leader(); err == nil {
		return leader.View()
	}
	var newest *fsm.View
	for _, m := range c.Masters() {
		if v := m.View(); newest == nil || v.Index() > newest.Index() {
			newest = v
		}
	}
	if newest == nil {
		c.t.Fatal("the state is asked for while all masters are down")
	}
	return newest
}

// AwaitWorkers waits until n workers are ALIVE.
func (c *Cluster) AwaitWorkers(n int, limit time.Duration) time.Duration {
	c.t.Helper()
	return c.Until(fmt.Sprintf("%d workers are ALIVE", n), limit, func() error {
		alive, others := 0, ""
		c.View().Workers(func(w *model.Worker) bool {
			if w.State == model.WorkerAlive {
				alive++
			} else {
				others += fmt.Sprintf(" %s %s (%s)", w.ID, w.State, w.StateReason)
			}
			return true
		})
		if alive != n {
			return fmt.Errorf("%d are;%s", alive, others)
		}
		return nil
	})
}

// WorkerState is what the state says of a worker.
func (c *Cluster) WorkerState(w *Worker) model.WorkerState {
	if rec, ok := c.View().Worker(w.ID()); ok {
		return rec.State
	}
	return ""
}

// Running waits until exactly n executors of an application are RUNNING and no others are unfinished, and returns them by
// id.
func (c *Cluster) Running(app model.AppID, n int, limit time.Duration) []model.ExecutorRef {
	c.t.Helper()
	c.Until(fmt.Sprintf("%d executors of %s are RUNNING", n, app), limit, func() error { return c.IsRunning(app, n) })
	var refs []model.ExecutorRef
	c.View().Executors(app, func(e *model.Executor) bool {
		refs = append(refs, e.Ref())
		return true
	})
	return refs
}

// IsRunning is what Running waits for.
func (c *Cluster) IsRunning(app model.AppID, n int) error {
	running := 0
	var others []string
	c.View().Executors(app, func(e *model.Executor) bool {
		if e.State == model.ExecutorRunning {
			running++
		} else {
			others = append(others, fmt.Sprintf("%s is %s", e.Ref(), e.State))
		}
		return true
	})
	if running != n || len(others) > 0 {
		return fmt.Errorf("%d run, %v", running, others)
	}
	return nil
}

// Attached says whether every worker that is up has a session with the leader, by its own word.
func (c *Cluster) Attached() error {
	leader, err := c.Leader()
	if err != nil {
		return err
	}
	for _, w := range c.Workers() {
		status, err := w.Status(context.Background())
		if err != nil {
			return fmt.Errorf("%s: %w", w.Host, err)
		}
		if status.Leader != leader.GRPCAddr() {
			return fmt.Errorf("%s has its session with %q, the leader is %s", w.Host, status.Leader, leader.GRPCAddr())
		}
	}
	return nil
}

// OnWorker lists the unfinished executors that the state has on a worker.
func (c *Cluster) OnWorker(w *Worker) []model.ExecutorRef {
	var refs []model.ExecutorRef
	c.View().WorkerExecutors(w.ID(), func(e *model.Executor) bool {
		refs = append(refs, e.Ref())
		return true
	})
	return refs
}

// Transfer moves leadership to another master and waits until one leads.
func (c *Cluster) Transfer(limit time.Duration) *Master {
	c.t.Helper()
	leader := c.AwaitLeader(limit)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := leader.Transfer(ctx, ""); err != nil {
		c.t.Fatalf("transfer leadership from %s: %v", leader.Host, err)
	}
	return c.AwaitLeader(limit, leader)
}
