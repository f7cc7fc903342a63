package driver

import (
	"context"
	"sync"
)

// mailbox takes what streams tell the loop, which empties it all at once.
// Whoever finds it full waits: that is the back-pressure on executors. Safe for
// concurrent use.
type mailbox struct {
	mu     sync.Mutex
	msgs   []any
	spare  []any         // the slice that the loop had last
	space  chan struct{} // closed when there is room again; nil = nobody waits
	closed bool
	wake   chan<- struct{}
}

// put hands over a message; false if ctx or the driver ends first.
func (b *mailbox) put(ctx context.Context, msg any) bool {
	for {
		b.mu.Lock()
		switch {
		case b.closed:
			b.mu.Unlock()
			return false
		case len(b.msgs) < inboundBuffer:
			b.msgs = append(b.msgs, msg)
			b.mu.Unlock()
			ring(b.wake)
			return true
		}
		if b.space == nil {
			b.space = make(chan struct{})
		}
		space := b.space
		b.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return false
		}
	}
}

// drain takes everything. The result is valid until the next drain.
func (b *mailbox) drain() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.spare)
	out := b.msgs
	b.msgs, b.spare = b.spare[:0], out
	b.freeLocked()
	return out
}

// close refuses further messages and returns those that nobody has read.
func (b *mailbox) close() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	out := b.msgs
	b.msgs = nil
	b.freeLocked()
	return out
}

func (b *mailbox) freeLocked() {
	if b.space != nil {
		close(b.space)
		b.space = nil
	}
}

// ring leaves one value in a channel of one.
func ring(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
