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
type watch struct {
	fail func(error)

	mu      sync.Mutex
	nextID  uint64
	pending map[uint64]*pendingCall
}

type pendingCall struct {
	what string
	seen int // by how many checks
}

const (
	// storeCheckInterval is how often pending calls are looked at.
	storeCheckInterval = time.Second
	// storeStallChecks is how many checks in a row see a call that stalled.
	// They are counted rather than the time: a process that was stopped in
	// the middle of a call has no broken store.
	storeStallChecks = int(storeStallLimit / storeCheckInterval)
)

func newWatch(fail func(error)) *watch {
	return &watch{fail: fail, pending: make(map[uint64]*pendingCall)}
}

// run reports a stalled call until done is closed.
func (w *watch) run(done <-chan struct{}) {
	ticker := time.NewTicker(storeCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if what, seen := w.check(); seen > storeStallChecks {
				w.fail(fmt.Errorf("raft store stalled: %s has not returned for %s", what, storeStallLimit))
				return
			}
		}
	}
}

// check looks at all pending calls and returns the one seen most often.
func (w *watch) check() (what string, seen int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range w.pending {
		if call.seen++; call.seen > seen {
			what, seen = call.what, call.seen
		}
	}
	return what, seen
}

// call runs one write. Any failure but a full disk is final: after a failed
// sync nobody knows what the disk holds. With a full disk the library steps
// down by itself and writes again once there is room.
func (w *watch) call(what string, write func() error) error {
	w.mu.Lock()
	id := w.nextID
	w.nextID++
	w.pending[id] = &pendingCall{what: what}
	w.mu.Unlock()
	err := write()
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
