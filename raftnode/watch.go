package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// watch looks over the calls into the log and stable store. The library
// notices neither a call that never returns (HA-13) nor that the disk fails.
//
// A failure is final everywhere. A call that does not return is final for a
// leader, whose heartbeats keep the others from electing one that can write; a
// standby whose store hangs harms nobody and is left to recover (ADR 0020).
type watch struct {
	disk    func(what string) error
	leading func() bool
	fail    func(error)

	mu      sync.Mutex
	nextID  uint64
	pending map[uint64]*pendingCall
}

// Stall is a call to the log or stable store that does not return.
type Stall struct {
	What  string // "append to the log"
	Since time.Time
}

type pendingCall struct {
	what  string
	since time.Time
	seen  int // by how many checks
}

const (
	// storeCheckInterval is how often pending calls are looked at.
	storeCheckInterval = time.Second
	// storeStallChecks is how many checks in a row see a call that stalled.
	// They are counted rather than the time: a process that was stopped in
	// the middle of a call has no broken store.
	storeStallChecks = int(storeStallLimit / storeCheckInterval)
)

func newWatch(disk func(string) error, leading func() bool, fail func(error)) *watch {
	return &watch{disk: disk, leading: leading, fail: fail, pending: make(map[uint64]*pendingCall)}
}

// run looks at the calls until done is closed or a leader's has stalled.
func (w *watch) run(done <-chan struct{}) {
	ticker := time.NewTicker(storeCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			// A standby can come to lead with a hanging call only if it is one
			// that its elections do not wait for, such as a truncation.
			w.check()
			if stall, ok := w.stalled(); ok && w.leading() {
				w.fail(fmt.Errorf("raft store stalled: the leader's call to %s has not returned for %s", stall.What, storeStallLimit))
				return
			}
		}
	}
}

// check counts itself for each pending call.
func (w *watch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.pending {
		call.seen++
	}
}

// stalled returns the oldest call that enough checks have seen and that has
// not returned yet.
func (w *watch) stalled() (stall Stall, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.pending {
		if call.seen > storeStallChecks && (!ok || call.since.Before(stall.Since)) {
			stall, ok = Stall{What: call.what, Since: call.since}, true
		}
	}
	return stall, ok
}

// call runs one write. Any failure but a full disk is final: after a failed
// sync nobody knows what the disk holds. With a full disk the library steps
// down by itself and writes again once there is room.
func (w *watch) call(what string, write func() error) error {
	w.mu.Lock()
	id := w.nextID
	w.nextID++
	w.pending[id] = &pendingCall{what: what, since: time.Now()}
	w.mu.Unlock()
	err := w.disk(what)
	if err == nil {
		err = write()
	}
	w.mu.Lock()
	delete(w.pending, id)
	w.mu.Unlock()
	if err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		w.fail(fmt.Errorf("raft store failed: %s: %w", what, err))
	}
	return err
}

// watchedLog is a log store under watch.
type watchedLog struct {
	raft.LogStore
	w *watch
}

// StoreLog implements raft.LogStore.
func (l watchedLog) StoreLog(entry *raft.Log) error {
	return l.w.call("append to the log", func() error { return l.LogStore.StoreLog(entry) })
}

// StoreLogs implements raft.LogStore.
func (l watchedLog) StoreLogs(entries []*raft.Log) error {
	return l.w.call("append to the log", func() error { return l.LogStore.StoreLogs(entries) })
}

// DeleteRange implements raft.LogStore.
func (l watchedLog) DeleteRange(first, last uint64) error {
	return l.w.call("truncate the log", func() error { return l.LogStore.DeleteRange(first, last) })
}

// IsMonotonic implements raft.MonotonicLogStore by what the store says.
func (l watchedLog) IsMonotonic() bool {
	store, ok := l.LogStore.(raft.MonotonicLogStore)
	return ok && store.IsMonotonic()
}

// watchedStable is a stable store under watch.
type watchedStable struct {
	raft.StableStore
	w *watch
}

// Set implements raft.StableStore.
func (s watchedStable) Set(key, value []byte) error {
	return s.w.call("write the vote", func() error { return s.StableStore.Set(key, value) })
}

// SetUint64 implements raft.StableStore.
func (s watchedStable) SetUint64(key []byte, value uint64) error {
	return s.w.call("write the term", func() error { return s.StableStore.SetUint64(key, value) })
}
