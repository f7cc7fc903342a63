package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Term is one change of this node's leadership: it began to lead the term, or
// it leads it no more.
type Term struct {
	Number  uint64
	Leading bool
}

// termBook records each change of leadership on the library's own thread, at
// the moment of the change, so the number is exact and nothing is merged; a
// goroutine hands the latest on. The library never waits for a reader (HA-09).
type termBook struct {
	mu     sync.Mutex
	latest Term
	since  time.Time

	changed chan struct{} // capacity 1
	out     chan Term
}

func newTermBook() *termBook {
	return &termBook{changed: make(chan struct{}, 1), out: make(chan Term)}
}

// observe is a filter of the library's observers: it is called synchronously
// by the thread that changes the state, and wants nothing sent.
func (b *termBook) observe(o *raft.Observation) bool {
	if state, ok := o.Data.(raft.RaftState); ok {
		b.record(o.Raft.CurrentTerm(), state == raft.Leader)
	}
	return false
}

// record notes a change of state. A loss is booked under the term that was
// led: the node may have learned of a later one by then.
func (b *termBook) record(term uint64, leading bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := Term{Number: term, Leading: leading}
	if !leading {
		if !b.latest.Leading {
			return
		}
		next.Number = b.latest.Number
	}
	if next == b.latest {
		return
	}
	b.latest, b.since = next, time.Now()
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *termBook) current() (Term, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latest, b.since
}

// run hands out the latest change until done is closed, then closes the
// channel. A reader that is slow misses changes in between, never the last.
func (b *termBook) run(done <-chan struct{}) {
	defer close(b.out)
	var next Term
	var out chan Term
	for {
		select {
		case <-b.changed:
			next, _ = b.current()
			out = b.out
		case out <- next:
			out = nil
		case <-done:
			return
		}
	}
}
