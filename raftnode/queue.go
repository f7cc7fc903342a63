package raftnode

import (
	"fmt"
	"slices"
	"sync"
	"time"

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
	// patience ends the wait for another proposal to go with; nil: it does not
	// wait for one, or no longer. Guarded by the queue.
	patience *time.Timer
}

func newProposal(cmds []*replogv1.Command, size int) *proposal {
	p := &proposal{cmds: make([]*replogv1.Command, len(cmds)), bytes: size, done: make(chan verdict, 1)}
	for i, cmd := range cmds {
		p.cmds[i] = shallowCopy(cmd)
	}
	return p
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
	urgent   int // of those waiting
	flying   int // entries taken that have not landed
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
	return q.putLocked(p)
}

func (q *proposalQueue) putLocked(p *proposal) error {
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
	if p.patience == nil {
		q.urgent++
		q.signalLocked()
	}
	return nil
}

// putPatient is put for what may wait until there is something to go with.
func (q *proposalQueue) putPatient(p *proposal, patience time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.patience = time.AfterFunc(patience, func() { q.hasten(p) })
	err := q.putLocked(p)
	if err != nil {
		p.patience.Stop()
	}
	return err
}

// hasten has a proposal go as soon as it can, if it is still here.
func (q *proposalQueue) hasten(p *proposal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.patience != nil && slices.Contains(q.waiting, p) {
		p.patience = nil
		q.urgent++
		q.signalLocked()
	}
}

// leftLocked takes note that a proposal waits no more.
func (q *proposalQueue) leftLocked(p *proposal) {
	q.commands -= len(p.cmds)
	q.bytes -= p.bytes
	if p.patience == nil {
		q.urgent--
		return
	}
	p.patience.Stop()
}

// putAlone is put if it is quiet, and if holds then.
func (q *proposalQueue) putAlone(p *proposal, holds func() bool) (bool, error) {
	q.mu.Lock()
	if !q.quietLocked() || !holds() {
		q.mu.Unlock()
		return false, nil
	}
	err := q.putLocked(p)
	q.mu.Unlock()
	return err == nil, err
}

// quiet reports whether nothing is waiting but what is patient, and nothing flying.
func (q *proposalQueue) quiet() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.quietLocked()
}

func (q *proposalQueue) quietLocked() bool { return q.flying == 0 && q.urgent == 0 }

// landed says that an entry which was taken is answered.
func (q *proposalQueue) landed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying--
}

// take removes proposals from the front up to limit bytes, at least one if any
// waits that is not patient.
func (q *proposalQueue) take(limit int) []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.urgent == 0 {
		return nil
	}
	total, n := 0, 0
	for n < len(q.waiting) && (n == 0 || total+q.waiting[n].bytes <= limit) {
		total += q.waiting[n].bytes
		q.leftLocked(q.waiting[n])
		n++
	}
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.flying++
	if len(q.waiting) == 0 {
		q.waiting = nil
	}
	if q.urgent > 0 {
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
			q.leftLocked(p)
			return true
		}
	}
	return false
}

// close refuses what waits and all that comes.
func (q *proposalQueue) close() {
	q.mu.Lock()
	waiting := q.waiting
	for _, p := range waiting {
		q.leftLocked(p)
	}
	q.waiting, q.closed = nil, true
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
