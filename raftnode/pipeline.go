package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// pipelineRoom is how many answers a pipeline holds for a reader that has left.
const pipelineRoom = 64

// pipeline keeps a stream of entries to one follower from wedging for ever.
//
// The library's reader of answers leaves when a follower refuses entries or
// knows a later term; its sender notices only between two sends. If it is
// inside a send by then, it waits for room that only the reader could make: the
// follower gets nothing more until this leader is gone (HA-14, raft#612), and
// the replica cannot be shut down. With room for some answers the send ends,
// and the sender sees that the reader has left.
//
// It also holds an answer back until what it acknowledges is on the own disk,
// see aheadLog. It goes on reading meanwhile, or the sender would wait inside a
// send again. What is held back is bounded by maxAhead; answers that acknowledge
// nothing pass. What is sent is in news.go.
type pipeline struct {
	raft.AppendPipeline
	written writtenFunc
	answers chan raft.AppendFuture
	done    chan struct{}
	once    sync.Once
	news    *news
	told    told

	mu   sync.Mutex
	held []raft.AppendFuture // the first of them until it has been passed on
	more chan struct{}       // capacity 1: something is held
}

func newPipeline(inner raft.AppendPipeline, written writtenFunc, news *news) *pipeline {
	p := &pipeline{
		AppendPipeline: inner,
		written:        written,
		news:           news,
		answers:        make(chan raft.AppendFuture, pipelineRoom),
		done:           make(chan struct{}),
		more:           make(chan struct{}, 1),
	}
	p.told.tell, p.told.sending = p.tellCommitted, make(chan struct{}, 1)
	news.add(p)
	go p.relay()
	go p.release()
	return p
}

// relay reads answers and passes on those that need not be held back.
func (p *pipeline) relay() {
	for {
		select {
		case answer := <-p.AppendPipeline.Consumer():
			if !p.hold(answer) && !p.pass(answer) {
				return
			}
		case <-p.done:
			return
		}
	}
}

// hold takes an answer that must wait, or that comes after one that waits.
func (p *pipeline) hold(answer raft.AppendFuture) bool {
	last := lastOf(answer.Request())
	if last == 0 || !answer.Response().Success {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 && p.written(last, true, alreadyDone()) {
		return false
	}
	p.held = append(p.held, answer)
	select {
	case p.more <- struct{}{}:
	default:
	}
	return true
}

// release passes on what was held, in order, each answer when its entries are
// written.
func (p *pipeline) release() {
	for {
		answer := p.next()
		if answer == nil {
			select {
			case <-p.more:
				continue
			case <-p.done:
				return
			}
		}
		if !p.written(lastOf(answer.Request()), true, p.done) || !p.pass(answer) {
			return
		}
		p.mu.Lock()
		p.held = p.held[1:]
		p.mu.Unlock()
	}
}

// next is the answer that has been held longest, nil if none is.
func (p *pipeline) next() raft.AppendFuture {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return nil
	}
	return p.held[0]
}

// pass gives an answer to the library; false when the pipeline is closed.
func (p *pipeline) pass(answer raft.AppendFuture) bool {
	select {
	case p.answers <- answer:
		return true
	case <-p.done:
		return false
	}
}

// alreadyDone is for who asks and does not wait.
func alreadyDone() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// writtenFunc is [aheadLog.written].
type writtenFunc func(index uint64, patient bool, done <-chan struct{}) bool

// lastOf is the last entry of a message, 0 if it has none.
func lastOf(m *raft.AppendEntriesRequest) uint64 {
	if len(m.Entries) == 0 {
		return 0
	}
	return m.Entries[len(m.Entries)-1].Index
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.news.drop(p)
	p.told.close()
	p.once.Do(func() { close(p.done) })
	return p.AppendPipeline.Close()
}
