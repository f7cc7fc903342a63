package rpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/model"
)

// maxStackBytes bounds the stack of a panic in the log.
const maxStackBytes = 8 << 10

// unary is the one interceptor of unary calls: it survives panics, turns away
// who may not make the call, checks the request id, has the leader serve what it must serve, and maps errors.
func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	m := s.methods[info.FullMethod]
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, s.panicked(info.FullMethod, p, m.changes)
		}
	}()
	ctx, err = s.authorize(ctx, info.FullMethod, req)
	if err != nil {
		return nil, toStatus(err)
	}
	if m.identified {
		if err := model.ValidRequestID(callInfo(ctx).RequestID); err != nil {
			return nil, toStatus(err)
		}
	}
	if s.needsLeader(m, req) {
		reply, err = s.atLeader(ctx, info.FullMethod, m, req, handler)
	} else {
		reply, err = s.serve(ctx, info.FullMethod, m, req, handler)
	}
	return reply, toStatus(err)
}

// serve calls the service here.
func (s *Server) serve(ctx context.Context, name string, m method, req any, handler grpc.UnaryHandler) (any, error) {
	ctx, done := s.handlerContext(ctx, m)
	defer done()
	reply, err := handler(ctx, req)
	s.judged(ctx, name, m, req, err)
	if err != nil {
		return nil, s.explain(err, m)
	}
	return reply, nil
}

// stream is the one interceptor of streams.
func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	m := s.methods[info.FullMethod]
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(info.FullMethod, p, m.changes)
		}
	}()
	ctx, err := s.authorize(ss.Context(), info.FullMethod, nil)
	if err != nil {
		return toStatus(err)
	}
	ctx, done := s.handlerContext(ctx, m)
	defer done()
	serve := func() error {
		err := handler(srv, &serverStream{ServerStream: ss, ctx: ctx})
		s.judged(ctx, info.FullMethod, m, nil, err)
		return err
	}
	if m.by == byLeaderStream && s.cfg.Leader != nil {
		err = s.leaderStream(ctx, ss, info.FullMethod, serve)
	} else {
		err = serve()
	}
	if err != nil {
		return toStatus(s.explain(err, m))
	}
	return nil
}

// serverStream gives handlers a context that also ends with the server.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // gRPC's own shape
}

// Context is the handler's context.
func (s *serverStream) Context() context.Context { return s.ctx }

// handlerContext ends with the server for calls that would wait for long.
func (s *Server) handlerContext(ctx context.Context, m method) (context.Context, func()) {
	if !m.long {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() {
		unhook()
		cancel()
	}
}

// needsLeader reports whether only the leader can serve the call.
func (s *Server) needsLeader(m method, req any) bool {
	if s.cfg.Leader == nil {
		return false
	}
	return m.by == byLeader || m.leaderIf != nil && m.leaderIf(req)
}

// explain adds what the caller needs to an error of a service: the leader's
// address, and that an interrupted change may have been made.
func (s *Server) explain(err error, m method) error {
	if _, ok := status.FromError(err); ok {
		return err // passed on from the leader
	}
	interrupted := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case interrupted && s.stopping.Err() != nil && !m.changes:
		return fmt.Errorf("%w: the server is stopping", model.ErrUnavailable)
	case interrupted && m.changes && !errors.Is(err, model.ErrOutcomeUnknown) && !errors.Is(err, model.ErrUnavailable):
		return fmt.Errorf("%w: %w", model.ErrOutcomeUnknown, err)
	}
	if errors.Is(err, model.ErrNotLeader) && s.cfg.Leader != nil {
		var hint *NotLeaderError
		if !errors.As(err, &hint) {
			return errors.Join(err, NotLeader(s.cfg.Leader.LeaderAddr()))
		}
	}
	return err
}

func (s *Server) panicked(name string, p any, changes bool) error {
	stack := debug.Stack()
	s.log.Error("a handler panicked", "method", name, "panic", fmt.Sprint(p), "stack", string(stack[:min(len(stack), maxStackBytes)]))
	if changes {
		return toStatus(fmt.Errorf("%w: internal error in %s; see the server's log", model.ErrOutcomeUnknown, name))
	}
	return status.Errorf(codes.Internal, "internal error in %s; see the server's log", name)
}
