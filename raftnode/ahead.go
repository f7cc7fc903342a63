package raftnode

import (
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// maxAhead is how many entries may be on their way to a leader's disk;
	// with more it waits for them.
	maxAhead = 1024
	// recentBytes is how much of the end of the log is kept in memory for those
	// who read it next: the streams to the followers, and the state.
	recentBytes = 1 << 20
	// entryOverhead is what an entry takes in memory besides its data.
	entryOverhead = 128
)

// errNotWritten says that followers have entries that the leader's disk has
// refused.
var errNotWritten = errors.New("the leader's own log has not been written")

// aheadLog lets a leader send entries to its followers while it writes them
// itself (Raft dissertation 10.2.1), which the library does one after the other.
//
// The library counts the leader as one that has stored an entry as soon as
// StoreLogs returns. What makes an early return safe is the other half of the
// majority: as long as there are other voters, nothing is committed without the
// answer of one of them, and no answer that says "I have entry N" reaches the
// library before entry N is on the own disk (written, called by the transport).
// So an entry is committed when it is on the disks of a majority, the leader's
// among them, as before. Where that does not hold, writes are finished before
// StoreLogs returns: on a follower, whose answer follows at once; for a sole
// voter; for a change of the membership, after which fewer answers may do.
//
// What could not be written stays at the end of the log in memory, and comes
// before everything that is written later. ADR 0038.
//
// StoreLogs and the truncation of the end are called by the library's main
// thread alone, everything else by anybody.
type aheadLog struct {
	raft.LogStore
	// leading reports whether this replica leads; others, whether there is a
	// voter besides it.
	leading, others func() bool
	// refused is called in a goroutine of its own when a write that the library
	// takes for done has failed.
	refused func()

	mu      sync.Mutex
	mem     []*raft.Log // the end of the log, without gaps: recent ones, then unwritten
	bytes   int         // of mem
	pending int         // how many at the end of mem are not on disk
	writing bool
	err     error         // of the last write, nil if it succeeded
	changed chan struct{} // closed and replaced when one of the three changes
}

func newAheadLog(store raft.LogStore, leading, others func() bool, refused func()) *aheadLog {
	return &aheadLog{LogStore: store, leading: leading, others: others, refused: refused, changed: make(chan struct{})}
}

// StoreLog implements raft.LogStore.
func (l *aheadLog) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs implements raft.LogStore.
func (l *aheadLog) StoreLogs(entries []*raft.Log) error {
	ahead := l.leading() && l.others() && !slices.ContainsFunc(entries, func(e *raft.Log) bool { return e.Type == raft.LogConfiguration })
	l.mu.Lock()
	defer l.mu.Unlock()
	for ahead && l.writing && l.pending+len(entries) > maxAhead {
		l.waitLocked()
	}
	if ahead && l.err == nil {
		l.addLocked(entries)
		if !l.writing {
			l.writing = true
			go l.write()
		}
		return nil
	}
	if err := l.settleLocked(); err != nil {
		return err
	}
	l.writing = true
	l.mu.Unlock()
	err := l.LogStore.StoreLogs(entries)
	l.mu.Lock()
	l.writing = false
	if err == nil {
		l.addLocked(entries)
		l.pending = 0
		l.trimLocked()
	}
	l.notifyLocked()
	return err
}

// write writes what is pending, all that has come by then at once, until
// nothing is or the disk refuses it.
func (l *aheadLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writeLocked()
	if l.err != nil {
		go l.refused()
	}
}

// writeLocked is write for the holder of writing, which it gives up.
func (l *aheadLog) writeLocked() {
	l.err = nil
	for l.pending > 0 && l.err == nil {
		batch := slices.Clone(l.mem[len(l.mem)-l.pending:])
		l.mu.Unlock()
		err := l.LogStore.StoreLogs(batch)
		l.mu.Lock()
		if l.err = err; err == nil {
			l.pending -= len(batch)
			l.trimLocked()
		}
		l.notifyLocked()
	}
	l.writing = false
	l.notifyLocked()
}

// settleLocked returns when nothing is pending, or why that cannot be written.
func (l *aheadLog) settleLocked() error {
	for l.writing {
		l.waitLocked()
	}
	if l.pending == 0 {
		return nil
	}
	l.writing = true
	l.writeLocked()
	return l.err
}

// written returns true when the entries up to index are on disk, and false when
// done is closed before. If patient is not set it gives up when the disk has
// refused a write.
func (l *aheadLog) written(index uint64, patient bool, done <-chan struct{}) bool {
	for {
		l.mu.Lock()
		first, changed, err := l.unwrittenLocked(), l.changed, l.err
		l.mu.Unlock()
		if first == 0 || first > index {
			return true
		}
		if err != nil && !patient {
			return false
		}
		select {
		case <-changed:
		case <-done:
			return false
		}
	}
}

// unwrittenLocked is the first index that is not on disk; 0 if all are.
func (l *aheadLog) unwrittenLocked() uint64 {
	if l.pending == 0 {
		return 0
	}
	return l.mem[len(l.mem)-l.pending].Index
}

// GetLog implements raft.LogStore. Who does not lead and reads an entry is about
// to tell somebody that it is here: it is on disk by then.
func (l *aheadLog) GetLog(index uint64, log *raft.Log) error {
	l.mu.Lock()
	if first := l.unwrittenLocked(); first > 0 && index >= first && !l.leading() {
		if err := l.settleLocked(); err != nil {
			l.mu.Unlock()
			return err
		}
	}
	if len(l.mem) > 0 && index >= l.mem[0].Index && index-l.mem[0].Index < uint64(len(l.mem)) {
		*log = *l.mem[index-l.mem[0].Index]
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	return l.LogStore.GetLog(index, log)
}

// FirstIndex implements raft.LogStore.
func (l *aheadLog) FirstIndex() (uint64, error) {
	l.mu.Lock()
	unwritten := l.unwrittenLocked()
	l.mu.Unlock()
	first, err := l.LogStore.FirstIndex()
	if first == 0 && err == nil {
		first = unwritten
	}
	return first, err
}

// LastIndex implements raft.LogStore.
func (l *aheadLog) LastIndex() (uint64, error) {
	l.mu.Lock()
	if l.pending > 0 {
		defer l.mu.Unlock()
		return l.mem[len(l.mem)-1].Index, nil
	}
	l.mu.Unlock()
	return l.LogStore.LastIndex()
}

// DeleteRange implements raft.LogStore: it drops the beginning or the end of the
// log, or all of it.
func (l *aheadLog) DeleteRange(first, last uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing && l.pending > 0 && last >= l.unwrittenLocked() {
		l.waitLocked()
	}
	unwritten := l.pending > 0 && last >= l.unwrittenLocked()
	if unwritten && first >= l.unwrittenLocked() {
		l.dropLocked(first, last) // the disk has none of it
		l.notifyLocked()
		return nil
	}
	if unwritten {
		l.writing = true // nobody else writes meanwhile
	}
	l.mu.Unlock()
	err := l.LogStore.DeleteRange(first, last)
	l.mu.Lock()
	if unwritten {
		l.writing = false
	}
	if err == nil {
		l.dropLocked(first, last)
	}
	l.notifyLocked()
	return err
}

// dropLocked forgets what has been deleted.
func (l *aheadLog) dropLocked(first, last uint64) {
	gone := func(e *raft.Log) bool { return first <= e.Index && e.Index <= last }
	pending := 0
	for _, e := range l.mem[len(l.mem)-l.pending:] {
		if !gone(e) {
			pending++
		}
	}
	l.mem = slices.DeleteFunc(l.mem, gone)
	l.pending, l.bytes = pending, 0
	for _, e := range l.mem {
		l.bytes += sizeOf(e)
	}
	if l.pending == 0 {
		l.err = nil
	}
}

// sizeOf is about what an entry takes in memory.
func sizeOf(e *raft.Log) int { return len(e.Data) + len(e.Extensions) + entryOverhead }

// IsMonotonic implements raft.MonotonicLogStore by what the store says.
func (l *aheadLog) IsMonotonic() bool {
	store, ok := l.LogStore.(raft.MonotonicLogStore)
	return ok && store.IsMonotonic()
}

// close returns when nothing is being written any more. The library must have
// stopped.
func (l *aheadLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writing {
		l.waitLocked()
	}
}

func (l *aheadLog) addLocked(entries []*raft.Log) {
	if len(l.mem) > 0 && entries[0].Index != l.mem[len(l.mem)-1].Index+1 {
		l.mem, l.bytes = nil, 0 // after a snapshot: nothing is pending
	}
	for _, e := range entries {
		l.mem = append(l.mem, e)
		l.bytes += sizeOf(e)
	}
	l.pending += len(entries)
}

// trimLocked forgets old entries that are on disk.
func (l *aheadLog) trimLocked() {
	n := 0
	for n < len(l.mem)-l.pending && l.bytes > recentBytes {
		l.bytes -= sizeOf(l.mem[n])
		l.mem[n] = nil // the array below outlives it
		n++
	}
	l.mem = l.mem[n:]
}

func (l *aheadLog) waitLocked() {
	changed := l.changed
	l.mu.Unlock()
	<-changed
	l.mu.Lock()
}

func (l *aheadLog) notifyLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}
