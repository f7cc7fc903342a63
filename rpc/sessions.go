package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// rawServer and rawClient are what both ends of gRPC's bidi streams share:
// Out is what this end sends, In what it receives.
type rawStream[Out, In any] interface {
	Send(*Out) error
	Recv() (*In, error)
}

// session converts one stream. A message of a kind that this build does not
// know is skipped: a newer peer may send it.
type session[Out, In, MOut, MIn any] struct {
	raw    rawStream[Out, In]
	toWire func(MOut) *Out
	from   func(*In) (MIn, bool)
	mapErr func(error) error
	cancel context.CancelFunc // nil on the server's side
}

// Send sends one message; it blocks while the peer does not read. One
// goroutine at a time.
func (s *session[Out, In, MOut, MIn]) Send(m MOut) error {
	return s.sendRaw(s.toWire(m))
}

func (s *session[Out, In, MOut, MIn]) sendRaw(m *Out) error {
	err := s.raw.Send(m)
	if errors.Is(err, io.EOF) { // gRPC's word for: ask Recv for the reason
		return fmt.Errorf("%w: the session has ended", model.ErrUnavailable)
	}
	return s.mapErr(err)
}

// Recv blocks for one message. io.EOF means that the peer ended the session
// without an error.
func (s *session[Out, In, MOut, MIn]) Recv() (MIn, error) {
	for {
		in, err := s.raw.Recv()
		if err != nil {
			var zero MIn
			if errors.Is(err, io.EOF) {
				return zero, io.EOF
			}
			return zero, s.mapErr(err)
		}
		if out, ok := s.from(in); ok {
			return out, nil
		}
	}
}

// Close ends the session and frees the stream. Idempotent; it may be called
// beside Send and Recv, which then fail.
func (s *session[Out, In, MOut, MIn]) Close() error {
	s.cancel()
	return nil
}

// openStream opens a stream whose life is bounded by ctx and by its cancel.
func openStream[S any](ctx context.Context, proxy bool, open func(context.Context, ...grpc.CallOption) (S, error)) (S, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	if proxy {
		ctx = metadata.AppendToOutgoingContext(ctx, mdProxy, "1")
	}
	s, err := open(ctx)
	if err != nil {
		cancel()
		return s, nil, fromStatus(err)
	}
	return s, cancel, nil
}

// workerSessionsServer serves a WorkerSessionService.
type workerSessionsServer struct {
	pb.UnimplementedWorkerSessionsServer
	svc WorkerSessionService
}

// Session serves one worker.
func (s *workerSessionsServer) Session(ss grpc.BidiStreamingServer[pb.WorkerUp, pb.WorkerDown]) error {
	return s.svc.WorkerSession(ss.Context(), &session[pb.WorkerDown, pb.WorkerUp, model.WorkerDown, model.WorkerUp]{
		raw: ss, toWire: workerDownToWire, from: workerUpFromWire, mapErr: fromStatus,
	})
}

// OpenWorkerSession opens a worker's session. It waits for the connection, not
// for the server's answer: a refusal (model.ErrNotLeader with a LeaderHint)
// comes from Recv. The session ends with ctx at the latest.
func OpenWorkerSession(ctx context.Context, c *Conn) (WorkerSessionClient, error) {
	raw, cancel, err := openStream(ctx, false, pb.NewWorkerSessionsClient(c.cc).Session)
	if err != nil {
		return nil, fmt.Errorf("open worker session at %s: %w", c.addr, err)
	}
	return &session[pb.WorkerUp, pb.WorkerDown, model.WorkerUp, model.WorkerDown]{
		raw: raw, toWire: workerUpToWire, from: workerDownFromWire, mapErr: fromStatus, cancel: cancel,
	}, nil
}

// OpenProxiedWorkerSession is OpenWorkerSession through a standby that passes
// the stream on to the leader, for a worker that cannot dial the leader.
func OpenProxiedWorkerSession(ctx context.Context, c *Conn) (WorkerSessionClient, error) {
	raw, cancel, err := openStream(ctx, true, pb.NewWorkerSessionsClient(c.cc).Session)
	if err != nil {
		return nil, fmt.Errorf("open worker session through %s: %w", c.addr, err)
	}
	return &session[pb.WorkerUp, pb.WorkerDown, model.WorkerUp, model.WorkerDown]{
		raw: raw, toWire: workerUpToWire, from: workerDownFromWire, mapErr: fromStatus, cancel: cancel,
	}, nil
}

// driverSessionsServer serves a DriverSessionService.
type driverSessionsServer struct {
	pb.UnimplementedDriverSessionsServer
	svc DriverSessionService
}

// Session serves one driver.
func (s *driverSessionsServer) Session(ss grpc.BidiStreamingServer[pb.DriverUp, pb.DriverDown]) error {
	return s.svc.DriverSession(ss.Context(), &session[pb.DriverDown, pb.DriverUp, model.DriverDown, model.DriverUp]{
		raw: ss, toWire: driverDownToWire, from: driverUpFromWire, mapErr: fromStatus,
	})
}

// OpenDriverSession opens a driver's session; with proxy a standby passes the
// stream on to the leader. See OpenWorkerSession.
func OpenDriverSession(ctx context.Context, c *Conn, proxy bool) (DriverSessionClient, error) {
	raw, cancel, err := openStream(ctx, proxy, pb.NewDriverSessionsClient(c.cc).Session)
	if err != nil {
		return nil, fmt.Errorf("open driver session at %s: %w", c.addr, err)
	}
	return &session[pb.DriverUp, pb.DriverDown, model.DriverUp, model.DriverDown]{
		raw: raw, toWire: driverUpToWire, from: driverDownFromWire, mapErr: fromStatus, cancel: cancel,
	}, nil
}
