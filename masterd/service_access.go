package masterd

import (
	"context"
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/rpc"
)

// accessService is what this master offers to those who decide who may do what.
type accessService struct{ m *Master }

var _ rpc.AccessService = accessService{}

// CreateToken commits a token.
func (s accessService) CreateToken(ctx context.Context, call rpc.CallInfo, req rpc.CreateTokenRequest) error {
	_, err := s.m.commit(ctx, call, createTokenCommand(req))
	return err
}

func createTokenCommand(req rpc.CreateTokenRequest) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_CreateToken{CreateToken: &replogv1.CreateToken{
		Name: req.Name, Role: string(req.Role), Hash: req.Hash[:], LifetimeMilli: req.LifetimeMilli,
	}}}
}

// RevokeToken commits the end of a token.
func (s accessService) RevokeToken(ctx context.Context, call rpc.CallInfo, id model.TokenID) error {
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_RevokeToken{RevokeToken: &replogv1.RevokeToken{Id: string(id)}}})
	return err
}

// Tokens lists the tokens of this replica.
func (s accessService) Tokens(context.Context) ([]model.TokenView, error) {
	tick := s.m.node.ClusterTick()
	var out []model.TokenView
	s.m.fsm.View().Tokens(func(t *model.Token) bool {
		out = append(out, tokenView(t, tick))
		return true
	})
	return out, nil
}

func tokenView(t *model.Token, tick int64) model.TokenView {
	v := model.TokenView{
		ID: t.ID, Name: t.Name, Role: t.Role, Active: !t.Expired(tick),
		ExpiresAt: model.RFC3339(t.ExpiresWall), CreatedAt: model.RFC3339(t.CreatedWall), CreatedBy: t.CreatedBy,
	}
	if t.ExpiresTick != 0 {
		v.ExpiresIn = max(t.ExpiresTick-tick, 0)
	}
	return v
}

// Audit reads the trail of this replica.
func (s accessService) Audit(_ context.Context, req rpc.AuditRequest) (rpc.AuditReply, error) {
	v := s.m.fsm.View()
	limit := req.Limit
	if limit <= 0 || limit > rpc.MaxAuditReply {
		limit = rpc.MaxAuditReply
	}
	all := v.AuditAfter(req.After, rpc.MaxAuditReply)
	lines := slices.DeleteFunc(all, func(l model.AuditLine) bool {
		return l.Wall < req.SinceMilli || req.Principal != "" && l.Principal != req.Principal || req.App != "" && !l.About(req.App)
	})
	reply := rpc.AuditReply{Lines: lines, Index: v.Index()}
	switch {
	case len(lines) <= limit:
	case req.After == 0:
		reply.Lines = lines[len(lines)-limit:]
	default:
		reply.Lines = lines[:limit]
		reply.Index = lines[limit-1].Index
	}
	return reply, nil
}

// RecordAudit commits what another master has refused.
func (s accessService) RecordAudit(ctx context.Context, req rpc.RecordAuditRequest) error {
	if s.m.leading.Load() == nil {
		return s.m.notLeader()
	}
	for i := range req.Lines {
		clipAudit(&req.Lines[i])
	}
	if len(req.Lines) == 0 {
		return nil
	}
	if err := s.m.propose(ctx, recordAuditCommand(req.Lines)); err != nil {
		return fmt.Errorf("record audit lines of master %s: %w", req.Master, err)
	}
	return nil
}
