package masterd

import (
	"context"

	"github.com/hearthd/hearth/raftnode"
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

// LeaderGone tells another voter whether this master finds the leader dead too.
func (s peerService) LeaderGone(ctx context.Context, r rpc.LeaderGoneRequest) (rpc.LeaderGoneReply, error) {
	reply := s.m.node.LeaderGone(ctx, raftnode.LeaderGone{
		From: r.From, Cluster: r.Cluster, Leader: r.Leader, Term: r.Term, Silent: r.Silent,
		Last: raftnode.LogEnd{Index: r.LastIndex, Term: r.LastTerm},
	})
	return rpc.LeaderGoneReply{
		ID: reply.ID, Gone: reply.Gone, Reason: reply.Reason, LastIndex: reply.Last.Index, LastTerm: reply.Last.Term,
		Begun: reply.Begun,
	}, nil
}
