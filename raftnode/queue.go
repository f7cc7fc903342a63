package raftnode

import (
	"fmt"
	"sync"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// proposal is what one call puts in the log: commands that stay together and
// in order within one entry.
type proposal struct {
	cmds  []*replogv1.Command
	bytes int
	done  chan verdict // capacity 1; answered exactly once unless withdrawn
}

type verdict struct {
	results []fsm.Result
	err     error
}

func (p *proposal) answer(results []fsm.Result, err error) { p.done <- verdict{results, err} }

// proposalQueue holds proposals until there is room for one more entry. It is
// bounded by commands and bytes.
type proposalQueue struct {
	mu       sync.Mutex
	waiting  []*proposal
	commands int
	bytes    int
	closed   bool

	ready chan struct{} // capacity 1: something may be waiting
}

func newProposalQueue() *proposalQueue {
	return &proposalQueue{ready: make(chan struct{}, 1)}
}

// put queues a proposal, or refuses it when the queue is full or closed.
func (q *proposalQueue) put(p *proposal) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return fmt.Errorf("%w: this master is stopping", model.ErrUnavailable)
	}
	if q.commands+len(p.cmds) > MaxQueuedCommands || q.bytes+p.bytes > MaxQueuedBytes {
		return fmt.Errorf("%w: overloaded: %d commands with %d bytes wait for the log; the limits are %d and %d",
			model.ErrUnavailable, q.commands, q.bytes, MaxQueuedCommands, MaxQueuedBytes)
	}
	q.waiting = append(q.waiting, p)
	q.commands += len(p.cmds)
	q.bytes += p.bytes
	q.signalLocked()
	return nil
}

// take removes proposals from the front up to limit bytes, at least one if any
// waits.
func (q *proposalQueue) take(limit int) []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	total, n := 0, 0
	for n < len(q.waiting) && (n == 0 || total+q.waiting[n].bytes <= limit) {
		total += q.waiting[n].bytes
		q.commands -= len(q.waiting[n].cmds)
		n++
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.bytes -= total
	if len(q.waiting) == 0 {
		q.waiting = nil
	} else {
		q.signalLocked()
	}
	return batch
}

// withdraw takes a proposal back; false when it is on its way already.
func (q *proposalQueue) withdraw(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == p {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			q.commands -= len(p.cmds)
			q.bytes -= p.bytes
			return true
		}
	}
	return false
}

// close refuses what waits and all that comes.
func (q *proposalQueue) close() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.commands, q.bytes, q.closed = nil, 0, 0, true
	q.mu.Unlock()
	for _, p := range waiting {
		p.answer(nil, fmt.Errorf("%w: this master is stopping", model.ErrUnavailable))
	}
}

func (q *proposalQueue) signalLocked() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
