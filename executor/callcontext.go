package executor

import (
	"context"
	"sync"
	"time"
)

// callContext is the context of one call. It is a part of the task's record and
// makes its channel only when somebody asks for it, because most functions are
// over before anybody would.
type callContext struct {
	deadline time.Time // zero = none

	mu   sync.Mutex
	done chan struct{} // nil until asked for
	err  error         // nil until it has ended
}

var _ context.Context = (*callContext)(nil)

// closedDone is the channel of contexts that end before anybody asks.
//
//nolint:gochecknoglobals // a constant
var closedDone = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline is the end of the task's time-out.
func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

// Done is closed when the function should return.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		if c.err != nil {
			c.done = closedDone
		} else {
			c.done = make(chan struct{})
		}
	}
	return c.done
}

// Err is context.Canceled or context.DeadlineExceeded once Done is closed.
func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Value knows no keys.
func (c *callContext) Value(any) any { return nil }

// end ends the context once.
func (c *callContext) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	if c.done != nil {
		close(c.done)
	}
}
