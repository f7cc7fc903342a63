package masterd

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
)

// Queues of one session. A full one makes the other side wait.
const (
	sessionOutbound = 64
	sessionReports  = 16
)

// sessionService lets rpc deliver sessions of workers and drivers to the leader
// scope.
type sessionService struct{ m *Master }

// inTerm runs a session inside the leader scope of the present term: its
// context ends with the term, the scope waits for it, and a session that the
// end of the term has cut off is answered with who leads now.
func (m *Master) inTerm(ctx context.Context, serve func(ctx context.Context, cancel context.CancelFunc, l *leadership) error) error {
	l := m.leading.Load()
	if l == nil {
		return m.notLeader()
	}
	leave, ok := l.enter()
	if !ok {
		return m.notLeader()
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(l.ctx, cancel) //nolint:contextcheck // the session ends with the term too
	defer stop()
	err := serve(ctx, cancel, l)
	if l.ctx.Err() != nil {
		return m.notLeader()
	}
	return err
}

// recvWithin bounds the wait for the first message of a stream. The goroutine
// left behind by a time-out ends with the stream, which the caller's return
// closes.
func recvWithin[T any](ctx context.Context, d time.Duration, recv func() (T, error)) (T, error) {
	type got struct {
		v   T
		err error
	}
	ch := make(chan got, 1)
	go func() {
		v, err := recv() // package rpc's alone
		ch <- got{v, err}
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	var zero T
	select {
	case g := <-ch:
		return g.v, g.err
	case <-ctx.Done():
		return zero, ctx.Err()
	case <-t.C:
		return zero, fmt.Errorf("%w: nothing received within %s", model.ErrUnavailable, d)
	}
}

// detached runs a loop that reads or writes a stream, and returns at the end of
// ctx although the loop may be blocked for as long as the peer is silent or
// does not read: a leader scope must not wait for it. The loop then ends with
// the stream, which the caller's return closes.
func (l *leadership) detached(ctx context.Context, what string, loop func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- guard(l.log, what, func() error { return loop(ctx) }) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
