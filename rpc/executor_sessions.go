package rpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// executorsServer serves an ExecutorHub.
type executorsServer struct {
	pb.UnimplementedExecutorsServer
	svc ExecutorHub
}

// driverEnd is the driver's end of an executor's stream.
type driverEnd struct {
	session[pb.ExecutorDown, pb.ExecutorUp, model.ExecutorDown, model.ExecutorUp]
}

// Send sends a message, in several if its tasks are large together: what
// comes with the tasks goes first.
func (s *driverEnd) Send(m model.ExecutorDown) error {
	parts := cut(m.Tasks, taskSize)
	m.Tasks = parts[0]
	if err := s.session.Send(m); err != nil {
		return err
	}
	for _, p := range parts[1:] {
		if err := s.session.Send(model.ExecutorDown{Tasks: p}); err != nil {
			return err
		}
	}
	return nil
}

// executorEnd is the executor's end of its stream.
type executorEnd struct {
	session[pb.ExecutorUp, pb.ExecutorDown, model.ExecutorUp, model.ExecutorDown]
}

// Send sends a message, in several if its results are large together.
func (s *executorEnd) Send(m model.ExecutorUp) error {
	parts := cut(m.Results, resultSize)
	m.Results = parts[0]
	if err := s.session.Send(m); err != nil {
		return err
	}
	for _, p := range parts[1:] {
		if err := s.session.Send(model.ExecutorUp{Results: p}); err != nil {
			return err
		}
	}
	return nil
}

// Session serves one executor.
func (s *executorsServer) Session(ss grpc.BidiStreamingServer[pb.ExecutorUp, pb.ExecutorDown]) error {
	return s.svc.ExecutorSession(ss.Context(), &driverEnd{
		session[pb.ExecutorDown, pb.ExecutorUp, model.ExecutorDown, model.ExecutorUp]{
			raw: ss, toWire: executorDownToWire, mapErr: fromStatus,
			from: func(m *pb.ExecutorUp) (model.ExecutorUp, bool) { return executorUpFromWire(m), true },
		},
	})
}

// OpenExecutorSession opens an executor's stream to its driver. See
// OpenWorkerSession. Payloads given to Send must not be changed afterwards.
func OpenExecutorSession(ctx context.Context, c *Conn) (ExecutorSessionClient, error) {
	raw, cancel, err := openStream(ctx, false, pb.NewExecutorsClient(c.cc).Session)
	if err != nil {
		return nil, fmt.Errorf("open executor session at %s: %w", c.addr, err)
	}
	return &executorEnd{
		session[pb.ExecutorUp, pb.ExecutorDown, model.ExecutorUp, model.ExecutorDown]{
			raw: raw, toWire: executorUpToWire, mapErr: fromStatus, cancel: cancel,
			from: func(m *pb.ExecutorDown) (model.ExecutorDown, bool) { return executorDownFromWire(m), true },
		},
	}, nil
}
