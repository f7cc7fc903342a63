package masterd

import (
	"context"

	"github.com/hearthd/hearth/rpc"
)

// peerService is what this master offers to other masters.
type peerService struct{ m *Master }

var _ rpc.PeerService = peerService{}

// Promise answers a proposer of the bootstrap.
func (s peerService) Promise(_ context.Context, req rpc.PromiseRequest) (rpc.PromiseReply, error) {
	reply, err := s.m.grantPromise(req)
	s.m.log.Info("asked for the bootstrap promise", "from", string(req.From), "granted", reply.Granted, "reason", reply.Reason, "err", err)
	return reply, err
}

// PeerStats answers with this master's replication state.
func (s peerService) PeerStats(context.Context) (rpc.PeerStatsReply, error) {
	return s.m.ownStats(), nil
}

// ReportHash judges another master's state hash.
func (s peerService) ReportHash(_ context.Context, r rpc.HashReport) (rpc.HashVerdict, error) {
	return s.m.judgeHash(r)
}
