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
type pipeline struct {
	raft.AppendPipeline
	answers chan raft.AppendFuture
	done    chan struct{}
	once    sync.Once
}

func newPipeline(inner raft.AppendPipeline) *pipeline {
	p := &pipeline{
		AppendPipeline: inner,
		answers:        make(chan raft.AppendFuture, pipelineRoom),
		done:           make(chan struct{}),
	}
	go p.relay()
	return p
}

func (p *pipeline) relay() {
	for {
		select {
		case answer := <-p.AppendPipeline.Consumer():
			select {
			case p.answers <- answer:
			case <-p.done:
				return
			}
		case <-p.done:
			return
		}
	}
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.answers }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.once.Do(func() { close(p.done) })
	return p.AppendPipeline.Close()
}
