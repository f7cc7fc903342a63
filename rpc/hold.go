package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/model"
)

// holds counts what waits at this master for a leader.
type holds struct {
	mu       sync.Mutex
	calls    int
	bytes    int
	sessions int
}

// call counts a call in, or refuses it. The caller gives it back with done.
func (h *holds) call(bytes int) (done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls >= MaxHeldCalls || h.bytes+bytes > MaxHeldBytes {
		return nil, false
	}
	h.calls++
	h.bytes += bytes
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls--
		h.bytes -= bytes
	}, true
}

// session counts a session in, or refuses it; rank is how many waited before.
func (h *holds) session() (rank int, done func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions >= MaxHeldSessions {
		return 0, nil, false
	}
	rank = h.sessions
	h.sessions++
	return rank, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.sessions--
	}, true
}

// holdUntil is when something that waits from now on is given up: early enough
// for the caller to hear of it before its own deadline.
func holdUntil(ctx context.Context, limit time.Duration) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		limit = min(limit, left-max(left/8, holdMargin))
	}
	return time.Now().Add(limit)
}

// await blocks until changed is closed, at the latest until the given time, and
// reports whether it makes sense to try again.
func (s *Server) await(ctx context.Context, changed <-chan struct{}, until time.Time) bool {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-changed:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-s.stopping.Done():
		return false
	}
}

// heldCall is one call on its way to a leader. It is not held before its first
// attempt has failed.
type heldCall struct {
	s         *Server
	m         method
	req       any
	forwarded bool // by another master, which holds it as well

	until   time.Time // zero: not held yet
	pause   time.Duration
	done    func()
	unknown bool // an attempt may have been done
}

// release gives the place of a call that was held back.
func (h *heldCall) release() {
	if h.done != nil {
		h.done()
	}
}

// again reports whether an attempt that failed with err is to be repeated, on
// this master's account: nothing was done, or a repeat with the same request id
// is harmless.
func (h *heldCall) again(ctx context.Context, err error) bool {
	err = fromStatus(err)
	unknown := errors.Is(err, model.ErrOutcomeUnknown)
	h.unknown = h.unknown || unknown
	switch {
	case ctx.Err() != nil, h.m.changes && !h.m.identified:
		return false
	case h.forwarded:
		return errors.Is(err, errNotReady)
	}
	return unknown || errors.Is(err, model.ErrNotLeader) || errors.Is(err, model.ErrNoLeader)
}

// wait blocks until the call is to be tried again: when the leadership has
// changed, and after a pause that grows. It returns false when the call has
// waited for long enough, or too many wait.
func (h *heldCall) wait(ctx context.Context, changed <-chan struct{}) bool {
	if h.until.IsZero() {
		size := 0
		if msg, ok := h.req.(proto.Message); ok {
			size = proto.Size(msg)
		}
		done, ok := h.s.held.call(size)
		if !ok {
			return false
		}
		h.done, h.until, h.pause = done, holdUntil(ctx, CallHold), forwardAgainFirst
	}
	until := time.Now().Add(h.pause)
	if until.After(h.until) {
		until = h.until
	}
	h.pause = min(2*h.pause, forwardAgainMax)
	return h.s.await(ctx, changed, until) && time.Now().Before(h.until)
}

// outcome is the error of a call that is not repeated any more. What the last
// attempt says of itself says nothing of an earlier one that may have been done.
func (h *heldCall) outcome(err error) error {
	seen := fromStatus(err)
	vague := errors.Is(seen, model.ErrNotLeader) || errors.Is(seen, model.ErrNoLeader) ||
		errors.Is(seen, model.ErrUnavailable) || errors.Is(seen, model.ErrRequestExpired)
	if h.unknown && h.m.changes && vague && !errors.Is(seen, model.ErrOutcomeUnknown) {
		return fmt.Errorf("%w: an earlier attempt may have been done; the last: %w", model.ErrOutcomeUnknown, seen)
	}
	return err
}
