//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/e2e/history"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// checkLimit bounds the search through a history; undecided is a failure.
const checkLimit = 60 * time.Second

// prove checks everything that must be true once the load has ended and all
// masters live. flappers, if there are any, are ended first.
func (c *cluster) prove(t *testing.T, e *ears, rec *history.Recorder, flappers model.AppID) {
	t.Helper()
	if flappers != "" {
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		defer cancel()
		if err := c.client.KillApp(ctx, flappers, "the load is over"); err != nil {
			t.Errorf("kill the flappers: %v", err)
		}
	}
	c.booksBalance(t, e)
	c.sameState(t)
	ops := rec.Operations()
	for n, m := range c.masters {
		for _, line := range c.readReplica(t, e, m, rec, replicaClient+n, ops) {
			t.Errorf("%s: %s", m.name, line)
		}
	}
	if err := history.Check(rec.Operations(), checkLimit); err != nil {
		t.Error(err)
	}
	t.Log(summary(rec.Operations()))
}

// readReplica reads every application from one master's own state, records what
// it says as reads, and compares it with what clients were told before.
func (c *cluster) readReplica(t *testing.T, e *ears, m *node, rec *history.Recorder, number int, ops []history.Operation) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	called := rec.Now()
	r, err := rpc.ClusterClient(e.to(t, m)).Apps(ctx, rpc.AppsRequest{Ended: true})
	if err != nil {
		t.Fatalf("list the applications of %s: %v", m.name, err)
	}
	returned := rec.Now()
	named, byID := map[string][]history.Held{}, map[string]model.AppView{}
	keys := map[string]string{} // by acknowledged id
	for _, op := range ops {
		if op.Index > r.Staleness.AppliedIndex {
			t.Fatalf("%s has applied index %d; %s was acknowledged at %d", m.name, r.Staleness.AppliedIndex, op.GotApp, op.Index)
		}
		if op.Kind == history.Register && op.Outcome == history.Done {
			keys[op.GotApp] = op.Key
		}
	}
	for _, a := range r.Apps {
		byID[string(a.ID)] = a
		if a.Name != "flappers" {
			named[a.Name] = append(named[a.Name], history.Held{App: string(a.ID), Ended: a.Terminal})
		}
	}
	for id, key := range keys {
		op := history.Operation{Client: number, Key: key, Kind: history.Read, App: id, Call: called, Return: returned, Outcome: history.Absent}
		if a, there := byID[id]; there {
			op.Outcome, op.GotTarget, op.GotEnded = history.Done, a.Target, a.Terminal
		}
		rec.Add(op)
	}
	return history.Compare(ops, named)
}

// account is what one worker has given away.
type account struct {
	Cores     int
	MemoryMiB int64
	Executors int
}

// booksBalance waits until each replica's books agree with its executors, and
// its executors with the processes of this machine, and nothing is on its way
// between states.
func (c *cluster) booksBalance(t *testing.T, e *ears) {
	t.Helper()
	eventually(t, settleWithin, "the books balance on every master", func() string {
		for _, m := range c.masters {
			if why := c.balance(t, e, m); why != "" {
				return m.name + ": " + why
			}
		}
		return ""
	})
}

func (c *cluster) balance(t *testing.T, e *ears, m *node) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	svc := rpc.ClusterClient(e.to(t, m))
	workers, err := svc.Workers(ctx)
	if err != nil {
		return err.Error()
	}
	apps, err := svc.Apps(ctx, rpc.AppsRequest{Ended: true})
	if err != nil {
		return err.Error()
	}
	stated, derived := map[model.WorkerID]account{}, map[model.WorkerID]account{}
	largest := 0
	for _, w := range workers.Workers {
		if w.State != model.WorkerAlive {
			return fmt.Sprintf("%s is %s", w.ID, w.State)
		}
		largest = max(largest, w.Cores)
		stated[w.ID], derived[w.ID] = account{w.CoresUsed, w.MemoryUsedMiB, w.Executors}, account{}
	}
	var known []int
	for _, a := range apps.Apps {
		if a.ExecutorCores > largest {
			continue // never placed
		}
		v, err := svc.App(ctx, rpc.AppRequest{ID: string(a.ID)})
		if err != nil {
			return err.Error()
		}
		for _, x := range live(v) {
			if x.State != model.ExecutorRunning {
				return fmt.Sprintf("%s/%d is %s", x.App, x.ID, x.State)
			}
			d := derived[x.Worker]
			derived[x.Worker] = account{d.Cores + x.Cores, d.MemoryMiB + x.MemoryMiB, d.Executors + 1}
			known = append(known, x.PID)
		}
	}
	if diff := gocmp.Diff(derived, stated); diff != "" {
		return "what lives (-) is not what is charged (+):\n" + diff
	}
	var processes []int
	for _, p := range scan(c.markers) {
		if p.app != "" {
			processes = append(processes, p.pid)
		}
	}
	slices.Sort(known)
	slices.Sort(processes)
	if diff := gocmp.Diff(known, processes); diff != "" {
		return "live executors (-) are not the processes (+):\n" + diff
	}
	return ""
}

// summary counts the operations of a history.
func summary(ops []history.Operation) string {
	counts, keys := map[string]int{}, map[string]bool{}
	for _, op := range ops {
		counts[fmt.Sprintf("%s %s", op.Kind, op.Outcome)]++
		keys[op.Key] = true
	}
	text := fmt.Sprintf("%d operations on %d applications:", len(ops), len(keys))
	for _, k := range slices.SortedFunc(maps.Keys(counts), cmp.Compare[string]) {
		text += fmt.Sprintf(" %s %d;", k, counts[k])
	}
	return text
}
