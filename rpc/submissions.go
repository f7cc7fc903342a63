package rpc

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// RegisterApps serves ClusterService.RegisterApps.
func (s *clusterServer) RegisterApps(ctx context.Context, in *pb.RegisterAppsRequest) (*pb.RegisterAppsReply, error) {
	if n := len(in.GetSubmissions()); n == 0 || n > MaxSubmissions {
		return nil, fmt.Errorf("register applications: %w: a batch of %d submissions: want 1 to %d", model.ErrInvalid, n, MaxSubmissions)
	}
	out, err := s.svc.RegisterApps(ctx, callInfo(ctx), each(in.GetSubmissions(), submissionFromWire))
	if err != nil {
		return nil, err
	}
	if len(out.Verdicts) != len(in.GetSubmissions()) {
		return nil, fmt.Errorf("register applications: %w: %d verdicts on %d submissions", model.ErrOutcomeUnknown, len(out.Verdicts), len(in.GetSubmissions()))
	}
	return &pb.RegisterAppsReply{Verdicts: each(out.Verdicts, verdictToWire), LeaderAddr: out.LeaderAddr}, nil
}

// RegisterApps calls ClusterService.RegisterApps.
func (c *clusterClient) RegisterApps(ctx context.Context, call CallInfo, subs []Submission) (RegisterAppsReply, error) {
	out, err := order(withCall(ctx, c.conn, call), c.pb.RegisterApps, &pb.RegisterAppsRequest{Submissions: each(subs, submissionToWire)})
	if err != nil {
		return RegisterAppsReply{}, err
	}
	if len(out.GetVerdicts()) != len(subs) {
		return RegisterAppsReply{}, fmt.Errorf("%w: %d verdicts on %d submissions", model.ErrOutcomeUnknown, len(out.GetVerdicts()), len(subs))
	}
	return RegisterAppsReply{Verdicts: each(out.GetVerdicts(), verdictFromWire), LeaderAddr: out.GetLeaderAddr()}, nil
}

// SubmissionBytes is what a description adds to a batch.
func SubmissionBytes(spec model.AppSpec) int { return proto.Size(specToWire(spec)) }

func submissionToWire(s Submission) *pb.Submission {
	return &pb.Submission{RequestId: s.RequestID, Base: s.Base, Spec: specToWire(s.Spec)}
}

func submissionFromWire(p *pb.Submission) Submission {
	return Submission{RequestID: p.GetRequestId(), Base: p.GetBase(), Spec: specFromWire(p.GetSpec())}
}

func verdictToWire(v SubmissionVerdict) *pb.SubmissionVerdict {
	if v.Err == nil {
		return &pb.SubmissionVerdict{App: string(v.App), Token: v.Token.Reveal(), Index: v.Index}
	}
	_, text, detail := describe(v.Err)
	return &pb.SubmissionVerdict{Error: text, Detail: detail}
}

func verdictFromWire(p *pb.SubmissionVerdict) SubmissionVerdict {
	if p.GetError() != "" || p.GetDetail() != nil {
		return SubmissionVerdict{Err: errorFromDetail(p.GetError(), p.GetDetail())}
	}
	return SubmissionVerdict{App: model.AppID(p.GetApp()), Token: model.Secret(p.GetToken()), Index: p.GetIndex()}
}
