package rpc

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func promiseToWire(r PromiseRequest) *pb.PromiseRequest {
	return &pb.PromiseRequest{
		From: string(r.From), Cluster: identityToWire(r.Cluster), Expect: int64(r.Expect),
		Members: each(r.Members, str[model.MasterID, string]),
	}
}

func promiseFromWire(r *pb.PromiseRequest) PromiseRequest {
	return PromiseRequest{
		From: model.MasterID(r.GetFrom()), Cluster: identityFromWire(r.GetCluster()), Expect: int(r.GetExpect()),
		Members: each(r.GetMembers(), str[string, model.MasterID]),
	}
}

func promiseReplyToWire(r PromiseReply) *pb.PromiseReply {
	return &pb.PromiseReply{Granted: r.Granted, Reason: r.Reason}
}

func promiseReplyFromWire(r *pb.PromiseReply) PromiseReply {
	return PromiseReply{Granted: r.GetGranted(), Reason: r.GetReason()}
}

func peerStatsToWire(r PeerStatsReply) *pb.PeerStatsReply {
	return &pb.PeerStatsReply{
		Id: string(r.ID), Term: r.Term, LastIndex: r.LastIndex, AppliedIndex: r.AppliedIndex, LastContactMs: r.LastContactMilli, LastTerm: r.LastTerm,
	}
}

func peerStatsFromWire(r *pb.PeerStatsReply) PeerStatsReply {
	return PeerStatsReply{
		ID: model.MasterID(r.GetId()), Term: r.GetTerm(), LastIndex: r.GetLastIndex(), AppliedIndex: r.GetAppliedIndex(),
		LastContactMilli: r.GetLastContactMs(), LastTerm: r.GetLastTerm(),
	}
}

func hashReportToWire(r HashReport) *pb.HashReport {
	return &pb.HashReport{From: string(r.From), Index: r.Index, Hash: r.Hash[:]}
}

func hashReportFromWire(r *pb.HashReport) (HashReport, error) {
	out := HashReport{From: model.MasterID(r.GetFrom()), Index: r.GetIndex()}
	if len(r.GetHash()) != len(out.Hash) {
		return HashReport{}, fmt.Errorf("hash report of %s: %w: %d bytes, want %d", out.From, model.ErrInvalid, len(r.GetHash()), len(out.Hash))
	}
	copy(out.Hash[:], r.GetHash())
	return out, nil
}

func hashVerdictToWire(v HashVerdict) *pb.HashVerdict {
	return &pb.HashVerdict{Differs: v.Differs, Reason: v.Reason}
}

func hashVerdictFromWire(v *pb.HashVerdict) HashVerdict {
	return HashVerdict{Differs: v.GetDiffers(), Reason: v.GetReason()}
}

func leaderGoneToWire(r LeaderGoneRequest) *pb.LeaderGoneRequest {
	return &pb.LeaderGoneRequest{
		From: string(r.From), Cluster: identityToWire(r.Cluster), Leader: string(r.Leader), Term: r.Term,
		LastIndex: r.LastIndex, LastTerm: r.LastTerm, Silent: r.Silent,
	}
}

func leaderGoneFromWire(r *pb.LeaderGoneRequest) LeaderGoneRequest {
	return LeaderGoneRequest{
		From: model.MasterID(r.GetFrom()), Cluster: identityFromWire(r.GetCluster()), Leader: model.MasterID(r.GetLeader()),
		Term: r.GetTerm(), LastIndex: r.GetLastIndex(), LastTerm: r.GetLastTerm(), Silent: r.GetSilent(),
	}
}

func leaderGoneReplyToWire(r LeaderGoneReply) *pb.LeaderGoneReply {
	return &pb.LeaderGoneReply{Id: string(r.ID), Gone: r.Gone, Reason: r.Reason, LastIndex: r.LastIndex, LastTerm: r.LastTerm, Begun: r.Begun}
}

func leaderGoneReplyFromWire(r *pb.LeaderGoneReply) LeaderGoneReply {
	return LeaderGoneReply{
		ID: model.MasterID(r.GetId()), Gone: r.GetGone(), Reason: r.GetReason(), LastIndex: r.GetLastIndex(), LastTerm: r.GetLastTerm(),
		Begun: r.GetBegun(),
	}
}

func proveToWire(r ProveRequest) *pb.ProveRequest { return &pb.ProveRequest{Nonce: r.Nonce} }

func proveFromWire(r *pb.ProveRequest) ProveRequest { return ProveRequest{Nonce: r.GetNonce()} }

func proveReplyToWire(r ProveReply) *pb.ProveReply {
	return &pb.ProveReply{
		Id: string(r.Master.ID), GrpcAddr: r.Master.GRPCAddr, RaftAddr: r.Master.RaftAddr, HttpAddr: r.Master.HTTPAddr,
		Version: r.Master.Version, Cluster: identityToWire(r.Cluster), Key: []byte(r.Master.Key), Signature: r.Signature,
	}
}

func proveReplyFromWire(r *pb.ProveReply) ProveReply {
	return ProveReply{
		Master: model.Master{
			ID: model.MasterID(r.GetId()), GRPCAddr: r.GetGrpcAddr(), RaftAddr: r.GetRaftAddr(), HTTPAddr: r.GetHttpAddr(),
			Version: r.GetVersion(), Key: string(r.GetKey()),
		},
		Cluster: identityFromWire(r.GetCluster()), Signature: r.GetSignature(),
	}
}
