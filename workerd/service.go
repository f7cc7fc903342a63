//go:build linux

package workerd

import (
	"context"

	"github.com/hearthd/hearth/rpc"
)

// service is what the worker offers on its gRPC port.
type service struct {
	agent *agent
	logs  *logReader
}

var _ rpc.WorkerService = (*service)(nil)

// Identify names this worker and its present incarnation.
func (s *service) Identify(ctx context.Context) (rpc.WorkerIdentity, error) {
	var id rpc.WorkerIdentity
	err := s.agent.do(ctx, func() {
		id = rpc.WorkerIdentity{Worker: s.agent.id.id, Incarnation: s.agent.id.incarnation}
	})
	return id, err
}

// ReadLog streams the output of an executor of this worker, of this start or an earlier one.
func (s *service) ReadLog(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	return s.logs.read(ctx, req, send)
}
