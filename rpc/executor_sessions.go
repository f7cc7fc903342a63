package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// executorsServer serves an ExecutorHub.
type executorsServer struct {
	pb.UnimplementedExecutorsServer
	svc ExecutorHub
}

// messageStream is what both ends of gRPC's streams share.
type messageStream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// driverEnd is the driver's end of an executor's stream.
type driverEnd struct {
	raw messageStream
	out downFrame // of Send
	in  upFrame   // of Recv
}

// Send sends a message, in several if its tasks are large together: what
// comes with the tasks goes first.
func (s *driverEnd) Send(m model.ExecutorDown) error { return splitDown(m, s.send) }

func splitDown(m model.ExecutorDown, send func(model.ExecutorDown) error) error {
	for len(m.Tasks) > 0 {
		n := fitting(m.Tasks, taskSize)
		if n == len(m.Tasks) {
			break
		}
		first := m
		first.Tasks = m.Tasks[:n:n]
		first.Cancel = nil // a task before its cancellation
		if err := send(first); err != nil {
			return err
		}
		m = model.ExecutorDown{Tasks: m.Tasks[n:], Cancel: m.Cancel}
	}
	return send(m)
}

// SendFrames sends messages that are encoded already.
func (s *driverEnd) SendFrames(f *Frames) error { return sendFrames(s.raw, f) }

// Free does nothing: lists of results are made anew for each message.
func (s *driverEnd) Free([]model.TaskResult) {}

// sendFrames sends each message by gRPC, which keeps it until it is written.
func sendFrames(raw messageStream, f *Frames) error {
	return f.each(func(body []byte) error { return sendError(raw.SendMsg(&rawFrame{slices.Clone(body)})) })
}

func (s *driverEnd) send(m model.ExecutorDown) error {
	s.out.msg = m
	err := s.raw.SendMsg(&s.out)
	s.out.msg = model.ExecutorDown{}
	return sendError(err)
}

// Recv blocks for one message; io.EOF is the executor's end without an error.
func (s *driverEnd) Recv() (model.ExecutorUp, error) {
	if err := s.raw.RecvMsg(&s.in); err != nil {
		return model.ExecutorUp{}, recvError(err)
	}
	return s.in.msg, nil
}

// executorEnd is the executor's end of its stream.
type executorEnd struct {
	raw    messageStream
	out    upFrame   // of Send
	in     downFrame // of Recv
	cancel context.CancelFunc
}

// Send sends a message, in several if its results are large together.
func (s *executorEnd) Send(m model.ExecutorUp) error { return splitUp(m, s.send) }

func splitUp(m model.ExecutorUp, send func(model.ExecutorUp) error) error {
	for len(m.Results) > 0 {
		n := fitting(m.Results, resultSize)
		if n == len(m.Results) {
			break
		}
		first := m
		first.Results = m.Results[:n:n]
		if err := send(first); err != nil {
			return err
		}
		m = model.ExecutorUp{Results: m.Results[n:]}
	}
	return send(m)
}

// SendFrames sends messages that are encoded already.
func (s *executorEnd) SendFrames(f *Frames) error { return sendFrames(s.raw, f) }

func (s *executorEnd) send(m model.ExecutorUp) error {
	s.out.msg = m
	err := s.raw.SendMsg(&s.out)
	s.out.msg = model.ExecutorUp{}
	return sendError(err)
}

// Recv blocks for one message; io.EOF is the driver's end without an error. The
// list of tasks, but not what they hold, is valid until the next call.
func (s *executorEnd) Recv() (model.ExecutorDown, error) {
	if err := s.raw.RecvMsg(&s.in); err != nil {
		return model.ExecutorDown{}, recvError(err)
	}
	return s.in.msg, nil
}

// Close ends the session and frees the stream. Idempotent; it may be called
// beside Send and Recv, which then fail.
func (s *executorEnd) Close() error {
	s.cancel()
	return nil
}

func sendError(err error) error {
	if errors.Is(err, io.EOF) { // gRPC's word for: ask Recv for the reason
		return fmt.Errorf("%w: the session has ended", model.ErrUnavailable)
	}
	return fromStatus(err)
}

func recvError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return fromStatus(err)
}

// Session serves one executor.
func (s *executorsServer) Session(ss grpc.BidiStreamingServer[pb.ExecutorUp, pb.ExecutorDown]) error {
	return s.svc.ExecutorSession(ss.Context(), &driverEnd{raw: ss})
}

// OpenExecutorSession opens an executor's stream to its driver: over TLS one of
// frames if the driver knows them, else one of gRPC. See OpenWorkerSession.
// Payloads given to Send must not be changed afterwards.
func OpenExecutorSession(ctx context.Context, c *Conn) (ExecutorSessionClient, error) {
	direct, err := c.openDirect(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open executor session at %s: %w", c.addr, err)
	case direct != nil:
		return direct, nil
	}
	raw, cancel, err := openStream(ctx, false, pb.NewExecutorsClient(c.cc).Session)
	if err != nil {
		return nil, fmt.Errorf("open executor session at %s: %w", c.addr, err)
	}
	return &executorEnd{raw: raw, cancel: cancel}, nil
}
