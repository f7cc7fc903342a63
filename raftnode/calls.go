package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// calls counts the goroutines that wait for an answer of the library. The
// library leaves some questions unanswered when it is shut down under them, so
// Close lets them end first.
type calls struct {
	mu      sync.Mutex
	closed  bool
	pending int
	idle    chan struct{} // closed when closed and nothing is pending
}

func newCalls() *calls { return &calls{idle: make(chan struct{})} }

// enter reports whether a new call may begin; each true needs a leave.
func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.pending++
	return true
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if c.closed && c.pending == 0 {
		close(c.idle)
	}
}

// close lets no new call begin.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if c.pending == 0 {
		close(c.idle)
	}
}

// wait reports whether everything ended within limit.
func (c *calls) wait(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.idle:
		return true
	case <-timer.C:
		return false
	}
}

// await asks the library something and waits no longer than ctx: it may leave
// a question open for as long as it likes.
func (n *Node) await(ctx context.Context, what string, ask func() error) error {
	if err := n.failure(); err != nil {
		return fmt.Errorf("%s: %w: this master has failed: %w", what, model.ErrUnavailable, err)
	}
	if !n.calls.enter() {
		return fmt.Errorf("%s: %w: this master is stopping", what, model.ErrUnavailable)
	}
	answer := make(chan error, 1)
	go func() {
		defer n.calls.leave()
		answer <- ask()
	}()
	select {
	case err := <-answer:
		return libraryError(what, err)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", what, model.ErrOutcomeUnknown, ctx.Err())
	case <-n.closing:
		return fmt.Errorf("%s: %w: this master is stopping", what, model.ErrOutcomeUnknown)
	}
}

// libraryError wraps an answer of the library with the sentinel that fits.
func libraryError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("%s: %w", what, model.ErrNotLeader)
	case errors.Is(err, raft.ErrLeadershipLost), errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%s: %w: %w", what, model.ErrOutcomeUnknown, err)
	case errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%s: %w: %w", what, model.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// ErrStuck is the failure of a replica that a restart cures: its stores and its
// state are whole, the library is in a state that it does not leave.
var ErrStuck = errors.New("raft must be restarted")

// transferCheck finds out that a leadership transfer was left unfinished: the
// library then refuses every command of a leader for ever (HA-15), also after
// it has lost its leadership and won another.
type transferCheck struct {
	fail func(error)

	mu   sync.Mutex
	last time.Time // when a refusal was counted last
	seen int
}

// note looks at the outcome of one command. Refusals are counted, one in each
// transferCheckInterval, rather than timed: a process that was stopped in the
// middle of a transfer is not stuck.
func (t *transferCheck) note(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		t.last, t.seen = time.Time{}, 0
		return
	}
	now := time.Now()
	if now.Sub(t.last) < transferCheckInterval {
		return
	}
	t.last = now
	if t.seen++; t.seen > transferStuckChecks {
		t.fail(fmt.Errorf("%w: a leadership transfer has been refusing every command for %s", ErrStuck, transferStuckLimit))
	}
}
