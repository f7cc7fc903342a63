package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Limits of one call.
const (
	// AttemptTimeout bounds one attempt at one master; then another is asked.
	AttemptTimeout = 5 * time.Second
	// FirstReadTimeout bounds the first round of attempts of a read: a master
	// that is frozen must not hold up what any other can answer at once.
	FirstReadTimeout = time.Second
	// WaitSlice is how long one master is waited on for a change before
	// another is asked, in case the first is cut off from the leader.
	WaitSlice = 20 * time.Second
	// transferTimeout bounds a transfer of leadership: it catches the target
	// up first.
	transferTimeout = 15 * time.Second
)

// verdict says what an error of one attempt means.
type verdict int

const (
	final   verdict = iota // answered; repeating changes nothing
	again                  // not done; ask again, perhaps elsewhere
	unknown                // may have been done
)

func judge(err error) verdict {
	switch {
	case errors.Is(err, errClosed):
		return final
	case errors.Is(err, model.ErrOutcomeUnknown):
		return unknown
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// Package rpc says OUTCOME_UNKNOWN once a change has been sent; this
		// one had not been.
		return again
	case errors.Is(err, model.ErrNotLeader), errors.Is(err, model.ErrNoLeader), errors.Is(err, model.ErrUnavailable):
		return again
	}
	return final
}

type attemptFunc func(ctx context.Context, svc rpc.ClusterService) error

// try makes one attempt at addr.
func (c *Client) try(ctx context.Context, addr string, timeout time.Duration, fn attemptFunc) error {
	conn, err := c.conn(addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return fn(ctx, rpc.ClusterClient(conn))
}

// call describes a repeated call.
type call struct {
	what    string
	timeout time.Duration // of one attempt
	fn      attemptFunc
	// readOnly calls have no outcome to be unknown; others may carry a request
	// id, and only then are repeated after an unknown outcome.
	readOnly, identified bool
	// impatient calls give each master FirstReadTimeout in the first round.
	impatient bool
}

// loop repeats attempts at the masters that f yields until one is answered or
// ctx ends.
func (c *Client) loop(ctx context.Context, f *LeaderFinder, k call) error {
	t := tally{what: k.what, readOnly: k.readOnly}
	for attempt := 0; ; attempt++ {
		timeout := k.timeout
		if k.impatient && attempt < len(f.Seeds()) {
			timeout = FirstReadTimeout
		}
		addr := f.Next()
		actx, giveUp := context.WithCancel(ctx)
		stop := func() {}
		if f == c.leader {
			stop = c.watchAttempt(ctx, f, addr, giveUp)
		}
		err := c.try(actx, addr, timeout, k.fn)
		stop()
		giveUp()
		if err == nil {
			f.Reached(addr)
			return nil
		}
		v := judge(err)
		t.note(err, v)
		switch {
		case v == final:
			f.Reached(addr)
			return t.finalError(err)
		case v == unknown && !k.readOnly && !k.identified:
			return t.unknownError(err)
		}
		f.Failed(addr, err)
		c.log.Debug("asking again", "call", k.what, "master", addr, "err", err)
		if werr := f.Wait(ctx); werr != nil {
			return t.endedError(werr)
		}
	}
}

// tally remembers what earlier attempts of a call have shown.
type tally struct {
	what     string
	unknown  bool // an attempt may have been done
	leader   bool // a master answered that it does not lead
	last     error
	readOnly bool
}

func (t *tally) note(err error, v verdict) {
	// That time was up says less than why an earlier attempt failed.
	if t.last == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.last = err
	}
	t.unknown = t.unknown || v == unknown
	t.leader = t.leader || errors.Is(err, model.ErrNotLeader) || errors.Is(err, model.ErrNoLeader)
}

// finalError is the error of an answered call. An expired id after an attempt
// of unknown outcome says nothing about that attempt.
func (t *tally) finalError(err error) error {
	if t.unknown && !t.readOnly && errors.Is(err, model.ErrRequestExpired) {
		return t.unknownError(err)
	}
	return fmt.Errorf("%s: %w", t.what, err)
}

func (t *tally) unknownError(err error) error {
	if errors.Is(err, model.ErrOutcomeUnknown) {
		return fmt.Errorf("%s: %w", t.what, err)
	}
	return fmt.Errorf("%s: %w: %w", t.what, model.ErrOutcomeUnknown, err)
}

// endedError is the error when the context ended before an answer.
func (t *tally) endedError(cause error) error {
	sentinel := model.ErrUnavailable
	switch {
	case t.unknown && !t.readOnly:
		sentinel = model.ErrOutcomeUnknown
	case t.leader:
		sentinel = model.ErrNoLeader
	}
	// The last error is shown, not wrapped: its sentinels are not the answer.
	return fmt.Errorf("%s: %w: %w (last: %v)", t.what, sentinel, cause, t.last) //nolint:errorlint // see above
}
