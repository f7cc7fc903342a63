package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/model"
)

// errNotReady is the answer of a master that has been elected and cannot serve
// yet.
var errNotReady = fmt.Errorf("%w: this master has been elected and is not ready yet", model.ErrNoLeader)

// forwarder keeps the one connection to the present leader. A connection to an
// earlier leader is closed once the last call on it has ended.
type forwarder struct {
	cfg   DialConfig
	conns func(addr string) (*Conn, error) // nil = its own

	mu     sync.Mutex
	cur    *leaderConn
	closed bool
}

type leaderConn struct {
	conn    *Conn
	own     bool // to be closed
	dialled time.Time
	users   int
	retired bool
	// led ends when another master has come to lead. Unary calls end with it:
	// a leader that is cut off or frozen would hold them until their deadline.
	led  context.Context //nolint:containedctx // not a call's: it is the leader's time
	gone context.CancelCauseFunc
}

// open returns a connection to addr: a warm one, unless that cannot be used now.
func (f *forwarder) open(addr string) (*leaderConn, error) {
	lc := &leaderConn{dialled: time.Now()}
	if f.conns != nil {
		if conn, err := f.conns(addr); err == nil && conn.Addr() == addr && !conn.Failed() {
			lc.conn = conn
		}
	}
	if lc.conn == nil {
		conn, err := Dial(addr, f.cfg)
		if err != nil {
			return nil, err
		}
		lc.conn, lc.own = conn, true
	}
	lc.led, lc.gone = context.WithCancelCause(context.Background())
	return lc, nil
}

// use returns the connection to addr and a function that gives it back. One
// that could not be established is replaced: the caller's pauses are enough.
func (f *forwarder) use(addr string) (*leaderConn, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil, fmt.Errorf("%w: the server is stopping", model.ErrUnavailable)
	}
	// Many calls may find it failed in one moment: one of them dials.
	failed := f.cur != nil && f.cur.conn.Failed() && time.Since(f.cur.dialled) >= forwardAgainFirst
	if f.cur == nil || f.cur.conn.Addr() != addr || failed {
		next, err := f.open(addr)
		if err != nil {
			return nil, nil, err
		}
		f.retireLocked()
		f.cur = next
	}
	lc := f.cur
	lc.users++
	return lc, func() { f.giveBack(lc) }, nil
}

func (f *forwarder) giveBack(lc *leaderConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lc.users--
	if lc.retired && lc.users == 0 {
		lc.close()
	}
}

// close frees what nobody uses any more.
func (lc *leaderConn) close() {
	lc.gone(nil)
	if lc.own {
		_ = lc.conn.Close() // nobody is left who could be told
	}
}

func (f *forwarder) retireLocked() {
	if f.cur == nil {
		return
	}
	f.cur.retired = true
	if f.cur.users == 0 {
		f.cur.close()
	}
	f.cur = nil
}

// leads ends the unary calls under way at an earlier leader.
func (f *forwarder) leads(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr == "" || f.cur == nil || f.cur.conn.Addr() == addr {
		return
	}
	f.cur.gone(fmt.Errorf("%w: %s leads now", model.ErrUnavailable, addr))
	f.retireLocked()
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.retireLocked()
}

// followLeader tells the forwarder of each change of leadership until ctx ends.
func (s *Server) followLeader(ctx context.Context) {
	for {
		changed := s.cfg.Leader.Changed()
		s.fwd.leads(s.cfg.Leader.LeaderAddr())
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// atLeader has a call served by the leader: here, if this master leads; else
// it is passed on. While there is no leader, or the leader that is known cannot
// be reached, the call waits here and is repeated with its own request id as
// soon as somebody leads, so that its client does not notice a change of
// leadership. A call that another master has passed on waits only for this
// master's own readiness, and is not passed on again.
func (s *Server) atLeader(ctx context.Context, name string, m method, req any, handler grpc.UnaryHandler) (any, error) {
	h := &heldCall{s: s, m: m, req: req, forwarded: firstValue(incoming(ctx), mdForwarded) != ""}
	defer h.release()
	for {
		changed := s.cfg.Leader.Changed()
		reply, err := s.tryLeader(ctx, name, h, handler)
		if err == nil {
			return reply, nil
		}
		if !h.again(ctx, err) || !h.wait(ctx, changed) {
			return nil, h.outcome(err)
		}
	}
}

// tryLeader is one attempt at whoever leads now.
func (s *Server) tryLeader(ctx context.Context, name string, h *heldCall, handler grpc.UnaryHandler) (any, error) {
	lead := s.cfg.Leader
	switch addr := lead.LeaderAddr(); {
	case lead.Leading(), h.m.proposal && lead.Elected():
		return s.serve(ctx, name, h.m, h.req, handler)
	case lead.Elected():
		return nil, errNotReady
	case h.forwarded:
		return nil, NotLeader(addr)
	case addr == "":
		return nil, model.ErrNoLeader
	default:
		return s.forward(ctx, name, h.m, h.req, addr)
	}
}

// forward passes a unary call on to the master at addr, once.
func (s *Server) forward(ctx context.Context, name string, m method, req any, addr string) (any, error) {
	lc, done, err := s.fwd.use(addr)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := withDeadline(forwardContext(ctx))
	defer cancel()
	ctx, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	defer context.AfterFunc(lc.led, func() { gone(context.Cause(lc.led)) })() //nolint:contextcheck // the call ends with the leader's time too
	ctx, sent := trackSent(ctx)
	reply := m.reply()
	err = lc.conn.cc.Invoke(ctx, name, req, reply)
	switch {
	case err == nil:
		return reply, nil
	case Answered(fromStatus(err)):
		return nil, err // a status; its details travel on
	case sent.Load() && m.changes:
		return nil, fmt.Errorf("forward %s to the leader %s: %w", name, addr, outcomeError(err, true))
	}
	return nil, fmt.Errorf("forward %s to the leader %s: %w: %w", name, addr, model.ErrNoLeader, fromStatus(err))
}

// leaderStream has a session served by the leader. At a standby it is answered
// with the leader's address, or passed on if it asks for that. While there is
// no leader it waits here, without anything read from it; those that wait are
// let go one after the other.
func (s *Server) leaderStream(ctx context.Context, ss grpc.ServerStream, name string, serve func() error) error {
	forwarded := firstValue(incoming(ctx), mdForwarded) != ""
	proxied := firstValue(incoming(ctx), mdProxy) != "" && !forwarded
	lead := s.cfg.Leader
	var until time.Time // zero: not held yet
	var turn time.Duration
	for {
		changed := lead.Changed()
		leading, addr := lead.Leading(), lead.LeaderAddr()
		known := leading || addr != "" && !lead.Elected()
		switch {
		case known && turn > 0:
			s.await(ctx, nil, time.Now().Add(turn))
			turn = 0
			continue // things may have changed again
		case leading:
			return serve()
		case known && proxied:
			return s.proxy(ctx, ss, name, addr)
		case known, forwarded && !lead.Elected():
			return NotLeader(addr)
		}
		if until.IsZero() {
			rank, done, ok := s.held.session()
			if !ok {
				return NotLeader("")
			}
			defer done()
			until, turn = holdUntil(ctx, SessionHold), time.Duration(rank)*heldSessionPace
		}
		if !s.await(ctx, changed, until) || !time.Now().Before(until) {
			return NotLeader("")
		}
	}
}

// proxy passes a stream on to the leader, frame by frame.
func (s *Server) proxy(ctx context.Context, down grpc.ServerStream, name, addr string) error {
	lc, done, err := s.fwd.use(addr)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(forwardContext(ctx))
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true}
	up, err := lc.conn.cc.NewStream(ctx, desc, name)
	if err != nil {
		return proxyError(addr, err)
	}
	// The goroutine ends when this handler returns: gRPC then fails RecvMsg.
	go pump(down, up)
	for {
		var f rawFrame
		if err := up.RecvMsg(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return proxyError(addr, err)
		}
		if err := down.SendMsg(&f); err != nil {
			return err
		}
	}
}

// pump passes what the caller sends on to the leader.
func pump(from grpc.ServerStream, to grpc.ClientStream) {
	for {
		var f rawFrame
		if err := from.RecvMsg(&f); err != nil {
			_ = to.CloseSend() // the leader sees the end; the rest comes as its status
			return
		}
		if err := to.SendMsg(&f); err != nil {
			return // the reason comes from RecvMsg of the same stream
		}
	}
}

func proxyError(addr string, err error) error {
	if st, ok := status.FromError(err); ok && Answered(fromStatus(err)) {
		return st.Err()
	}
	return fmt.Errorf("proxy to the leader %s: %w: %w", addr, model.ErrUnavailable, fromStatus(err))
}
