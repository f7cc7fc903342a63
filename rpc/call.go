package rpc

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

type sentKey struct{}

// trackSent lets sentTracker record whether the request of a call has left.
func trackSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// sentTracker is a stats handler that notes when a request has been handed to
// the transport: before that, a failed call has certainly had no effect.
type sentTracker struct{}

// TagRPC keeps the context.
func (sentTracker) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes that a payload was sent.
func (sentTracker) HandleRPC(ctx context.Context, ev stats.RPCStats) {
	if _, ok := ev.(*stats.OutPayload); !ok {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// TagConn keeps the context.
func (sentTracker) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (sentTracker) HandleConn(context.Context, stats.ConnStats) {}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, UnaryTimeout)
}

// ask makes a unary call that changes nothing.
func ask[Q, A any](ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (A, error), req Q) (A, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	out, err := call(ctx, req)
	return out, fromStatus(err)
}

// order makes a unary call that changes something.
func order[Q, A any](ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (A, error), req Q) (A, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	ctx, sent := trackSent(ctx)
	out, err := call(ctx, req)
	return out, outcomeError(err, sent.Load())
}
