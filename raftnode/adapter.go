package raftnode

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/fsm"
)

var errStateBroken = errors.New("an earlier entry could not be applied; the node must stop")

// adapter is the replicated state as the library sees it. After an entry that
// could not be applied it applies nothing more and takes no snapshot, so the
// log keeps what the state has missed.
//
// Apply, Snapshot and Restore run on the library's apply thread, Restore also
// inside Open.
type adapter struct {
	fsm       *fsm.FSM
	onApplied func(index uint64, changes []fsm.Change)
	fail      func(error)
	committed func(LogEnd) // told of the last entry of each batch; nil: nobody wants to know
	snapshots raft.SnapshotStore
	observer  Observer

	clock       clock
	applied     atomic.Uint64
	configIndex atomic.Uint64 // of the newest applied membership
	members     atomic.Pointer[raft.Configuration]
	broken      bool
}

// applied is the answer to one log entry.
type applied struct {
	results []fsm.Result
	err     error
}

var (
	_ raft.FSM         = (*adapter)(nil)
	_ raft.BatchingFSM = (*adapter)(nil)
)

// ApplyBatch implements raft.BatchingFSM.
func (a *adapter) ApplyBatch(entries []*raft.Log) []any {
	out := make([]any, len(entries))
	for i, entry := range entries {
		if entry.Type == raft.LogConfiguration {
			members := raft.DecodeConfiguration(entry.Data)
			a.members.Store(&members)
			a.configIndex.Store(entry.Index)
			continue
		}
		out[i] = a.Apply(entry)
	}
	if n := len(entries); n > 0 && a.committed != nil {
		a.committed(LogEnd{entries[n-1].Index, entries[n-1].Term})
	}
	return out
}

// Apply implements raft.FSM.
func (a *adapter) Apply(entry *raft.Log) any {
	if a.broken {
		return applied{err: errStateBroken}
	}
	outcome, err := a.fsm.Apply(entry.Index, entry.Data)
	if err != nil {
		a.broken = true
		err = fmt.Errorf("apply entry %d of term %d: %w", entry.Index, entry.Term, err)
		a.fail(err)
		return applied{err: err}
	}
	a.clock.set(a.fsm.View().Tick(), time.Now())
	a.applied.Store(entry.Index)
	changes := outcome.Changes
	if changes == nil {
		changes = []fsm.Change{} // nil means everything
	}
	a.onApplied(entry.Index, changes)
	return applied{results: outcome.Results}
}

// Snapshot implements raft.FSM: it captures the state; writing it happens
// beside apply.
func (a *adapter) Snapshot() (raft.FSMSnapshot, error) {
	if a.broken {
		return nil, errStateBroken
	}
	return persister{a.fsm.Snapshot(), a.fail, a.observer}, nil
}

// Restore implements raft.FSM. A failed restore leaves the state as it was.
func (a *adapter) Restore(source io.ReadCloser) error {
	if a.broken {
		return errStateBroken
	}
	if err := a.fsm.Restore(source); err != nil {
		return fmt.Errorf("restore state: %w", err)
	}
	view := a.fsm.View()
	a.clock.set(view.Tick(), time.Now())
	a.applied.Store(view.Index())
	a.onApplied(view.Index(), nil)
	return a.readConfigIndex()
}

// readConfigIndex learns from the newest snapshot the membership and when it
// last changed.
func (a *adapter) readConfigIndex() error {
	list, err := a.snapshots.List()
	if err != nil {
		return fmt.Errorf("list raft snapshots: %w", err)
	}
	if len(list) > 0 && list[0].ConfigurationIndex > a.configIndex.Load() {
		a.members.Store(&list[0].Configuration)
		a.configIndex.Store(list[0].ConfigurationIndex)
	}
	return nil
}

// persister writes one captured state. One that breaks its own rules is written
// nowhere, and the node must stop (design 5): the library only logs the error.
type persister struct {
	snapshot io.WriterTo
	fail     func(error)
	observer Observer
}

// Persist implements raft.FSMSnapshot.
func (p persister) Persist(sink raft.SnapshotSink) (err error) {
	began, out := time.Now(), &countingWriter{w: sink}
	defer func() { p.observer.snapshot(out.n, began, err) }()
	if _, err := p.snapshot.WriteTo(out); err != nil {
		if errors.Is(err, fsm.ErrBroken) {
			p.fail(err)
		}
		return errors.Join(fmt.Errorf("write snapshot %s: %w", sink.ID(), err), sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("finish snapshot %s: %w", sink.ID(), err)
	}
	return nil
}

// Release implements raft.FSMSnapshot; a captured state holds nothing.
func (persister) Release() {}

// clock is the cluster clock: an applied tick and when this node applied it.
// Monotonic time counts on from there, so a jump of the wall clock changes
// nothing, and time without an applied entry after a restart does not count. A
// later tick that is behind by then changes nothing either: each was stamped
// before its entry was committed, and a busy leader that began anew from every
// one of them would lose most of its time.
type clock struct {
	mu   sync.Mutex
	tick int64 // ms
	at   time.Time
}

func (c *clock) set(tick int64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tick > c.atLocked(at) || c.at.IsZero() {
		c.tick, c.at = tick, at
	}
}

func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.atLocked(time.Now())
}

func (c *clock) atLocked(t time.Time) int64 {
	if c.at.IsZero() {
		return c.tick
	}
	return c.tick + t.Sub(c.at).Milliseconds()
}
