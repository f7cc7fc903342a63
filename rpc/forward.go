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

// forwarder keeps the one connection to the present leader. A connection to an
// earlier leader is closed once the last call on it has ended.
type forwarder struct {
	cfg DialConfig

	mu     sync.Mutex
	cur    *leaderConn
	closed bool
}

type leaderConn struct {
	conn    *Conn
	users   int
	retired bool
}

func newForwarder(cfg DialConfig) *forwarder { return &forwarder{cfg: cfg} }

// use returns the connection to addr and a function that gives it back.
func (f *forwarder) use(addr string) (*Conn, func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, nil, fmt.Errorf("%w: the server is stopping", model.ErrUnavailable)
	}
	if f.cur == nil || f.cur.conn.Addr() != addr {
		conn, err := Dial(addr, f.cfg)
		if err != nil {
			return nil, nil, err
		}
		f.retireLocked()
		f.cur = &leaderConn{conn: conn}
	}
	lc := f.cur
	lc.users++
	return lc.conn, func() { f.giveBack(lc) }, nil
}

func (f *forwarder) giveBack(lc *leaderConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	lc.users--
	if lc.retired && lc.users == 0 {
		_ = lc.conn.Close() // nobody is left who could be told
	}
}

func (f *forwarder) retireLocked() {
	if f.cur == nil {
		return
	}
	f.cur.retired = true
	if f.cur.users == 0 {
		_ = f.cur.conn.Close() // see giveBack
	}
	f.cur = nil
}

func (f *forwarder) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.retireLocked()
}

// leaderConn returns the connection to the leader for a call that has not been
// forwarded before.
func (s *Server) leaderConn(ctx context.Context) (*Conn, func(), error) {
	addr := s.cfg.Leader.LeaderAddr()
	if firstValue(incoming(ctx), mdForwarded) != "" {
		return nil, nil, NotLeader(addr)
	}
	if addr == "" {
		return nil, nil, model.ErrNoLeader
	}
	return s.fwd.use(addr)
}

// forward passes a unary call on to the leader, once.
func (s *Server) forward(ctx context.Context, name string, m method, req any) (any, error) {
	conn, done, err := s.leaderConn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := withDeadline(forwardContext(ctx))
	defer cancel()
	ctx, gone := context.WithCancelCause(ctx)
	defer s.whileLeader(conn.Addr(), gone)()
	ctx, sent := trackSent(ctx)
	reply := m.reply()
	err = conn.cc.Invoke(ctx, name, req, reply)
	switch {
	case err == nil:
		return reply, nil
	case Answered(fromStatus(err)):
		return nil, err // a status; its details travel on
	case m.changes && sent.Load():
		return nil, fmt.Errorf("forward %s to the leader %s: %w", name, conn.Addr(), outcomeError(err, true))
	}
	return nil, fmt.Errorf("forward %s to the leader %s: %w: %w", name, conn.Addr(), model.ErrNoLeader, fromStatus(err))
}

// whileLeader gives up a forwarded call when another master has come to lead:
// a leader that is cut off or frozen would hold the call until its deadline.
// The returned function ends the watch. Calls that are answered within
// leaderRecheck cost one timer.
func (s *Server) whileLeader(addr string, gone context.CancelCauseFunc) (stop func()) {
	var mu sync.Mutex
	ended := false
	var timer *time.Timer
	check := func() {
		mu.Lock()
		defer mu.Unlock()
		if ended {
			return
		}
		if now := s.cfg.Leader.LeaderAddr(); now != "" && now != addr {
			gone(fmt.Errorf("%w: %s leads now", model.ErrUnavailable, now))
			return
		}
		timer.Reset(leaderRecheck)
	}
	mu.Lock()
	timer = time.AfterFunc(leaderRecheck, check)
	mu.Unlock()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		timer.Stop()
		gone(nil)
	}
}

// proxy passes a stream on to the leader, frame by frame.
func (s *Server) proxy(ctx context.Context, down grpc.ServerStream, name string) error {
	conn, done, err := s.leaderConn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithCancel(forwardContext(ctx))
	defer cancel()
	desc := &grpc.StreamDesc{StreamName: name, ServerStreams: true, ClientStreams: true}
	up, err := conn.cc.NewStream(ctx, desc, name)
	if err != nil {
		return s.proxyError(conn, err)
	}
	// The goroutine ends when this handler returns: gRPC then fails RecvMsg.
	go pump(down, up)
	for {
		var f rawFrame
		if err := up.RecvMsg(&f); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return s.proxyError(conn, err)
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

func (s *Server) proxyError(conn *Conn, err error) error {
	if st, ok := status.FromError(err); ok && Answered(fromStatus(err)) {
		return st.Err()
	}
	return fmt.Errorf("proxy to the leader %s: %w: %w", conn.Addr(), model.ErrUnavailable, fromStatus(err))
}
