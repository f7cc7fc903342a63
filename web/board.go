package web

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
)

// Board holds the newest snapshot of a source and takes a new one when it has aged. Safe for concurrent use; callers
// that need a new one wait for the same one.
type Board struct {
	take func() (Snapshot, error)

	mu    sync.Mutex
	snap  *Snapshot
	taken time.Time     // monotonic
	cost  time.Duration // of making it
}

// NewBoard makes a board of what take returns.
func NewBoard(take func() (Snapshot, error)) *Board { return &Board{take: take} }

// Snapshot returns the present snapshot, at most a second old: in small clusters some milliseconds, in large ones a
// multiple of what it costs to make.
func (b *Board) Snapshot() (*Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snap != nil && time.Since(b.taken) < min(max(freshFactor*b.cost, minFresh), maxFresh) {
		return b.snap, nil
	}
	began := time.Now()
	snap, err := b.take()
	if err != nil {
		return nil, fmt.Errorf("look at the state: %w", err)
	}
	snap.sums = snap.sumUp()
	snap.newest = append(newestFirst(snap.Cluster.Apps), snap.Ended...)
	snap.newestDrivers = append(newestFirst(snap.Drivers), snap.EndedDrivers...)
	snap.trouble = troubleFirst(snap.Cluster.Workers)
	b.snap, b.taken, b.cost = &snap, time.Now(), time.Since(began)
	return b.snap, nil
}

// fingerprint changes when the pages would: with the log, with who leads, and with what is wrong. It holds no time that
// passes by itself.
func (s *Snapshot) fingerprint() string {
	var b strings.Builder
	c := &s.Cluster
	fmt.Fprintf(&b, "%d/%s/%d/%t", c.Staleness.AppliedIndex, c.Staleness.Leader, c.Staleness.Term, c.Staleness.LeaderlessFor > 0)
	for _, m := range c.Masters {
		fmt.Fprintf(&b, "/%s,%s,%t,%t,%t", m.ID, m.Role, m.Voter, m.Alive, m.Healthy)
	}
	for _, a := range c.Alarms {
		fmt.Fprintf(&b, "/%s,%s,%s", a.Kind, a.Subject, a.Since)
	}
	return b.String()
}

// worker finds a worker by id or unique prefix.
func (s *Snapshot) worker(id string) (model.WorkerView, error) {
	var found []model.WorkerView
	for _, w := range s.Cluster.Workers {
		if string(w.ID) == id {
			return w, nil
		}
		if id != "" && strings.HasPrefix(string(w.ID), id) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return model.WorkerView{}, fmt.Errorf("%w: worker %q", model.ErrNotFound, id)
	case 1:
		return found[0], nil
	}
	return model.WorkerView{}, fmt.Errorf("%w: %q fits %d workers: give more of the id", model.ErrInvalid, id, len(found))
}

// Totals sum up a snapshot for tiles, Spark's /json and metrics.
type Totals struct {
	Workers  map[model.WorkerState]int
	Apps     map[model.AppState]int    // active ones and the ended ones that are kept
	Drivers  map[model.DriverState]int // as the applications
	Waiting  int                       // drivers without a place
	Cores    int                       // of workers that are not gone, as the next three
	Used     int
	Memory   int64 // MiB
	MemUsed  int64
	Masters  int
	Healthy  int
	Voters   int
	Live     int // executors that count against targets
	Running  int
	Holding  int // unfinished executors, ending ones included
	Restless int // workers that are neither ALIVE nor gone
}

// Worker counts the workers in a state.
func (t Totals) Worker(state string) int { return t.Workers[model.WorkerState(state)] }

// App counts the applications in a state.
func (t Totals) App(state string) int { return t.Apps[model.AppState(state)] }

// totals are the sums that the board has made.
func (s *Snapshot) totals() Totals { return s.sums }

func (s *Snapshot) sumUp() Totals {
	t := Totals{Workers: make(map[model.WorkerState]int), Apps: make(map[model.AppState]int), Drivers: make(map[model.DriverState]int)}
	for _, w := range s.Cluster.Workers {
		t.Workers[w.State]++
		if w.State.Gone() {
			continue
		}
		if w.State != model.WorkerAlive {
			t.Restless++
		}
		t.Cores, t.Used = t.Cores+w.Cores, t.Used+w.CoresUsed
		t.Memory, t.MemUsed = t.Memory+w.MemoryMiB, t.MemUsed+w.MemoryUsedMiB
	}
	for _, list := range [][]model.AppView{s.Cluster.Apps, s.Ended} {
		for _, a := range list {
			t.Apps[a.State]++
		}
	}
	for _, list := range [][]model.DriverView{s.Drivers, s.EndedDrivers} {
		for _, d := range list {
			t.Drivers[d.State]++
			if d.State.Queued() {
				t.Waiting++
			}
		}
	}
	for _, m := range s.Cluster.Masters {
		t.Masters++
		if m.Healthy {
			t.Healthy++
		}
		if m.Voter {
			t.Voters++
		}
	}
	for state, n := range s.Executors {
		t.Holding += n
		if state.Live() {
			t.Live += n
		}
	}
	t.Running = s.Executors[model.ExecutorRunning]
	return t
}
