package rpc

import (
	"context"
	"fmt"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// AccessService is what a master offers to those who decide who may do what.
type AccessService interface {
	// CreateToken accepts a token from now on (leader-only, idempotent by
	// CallInfo.RequestID).
	CreateToken(ctx context.Context, call CallInfo, req CreateTokenRequest) error
	// RevokeToken refuses a token from now on (leader-only).
	RevokeToken(ctx context.Context, call CallInfo, id model.TokenID) error
	// Tokens lists the tokens that are kept, from this replica.
	Tokens(ctx context.Context) ([]model.TokenView, error)
	// Audit reads the audit trail from this replica.
	Audit(ctx context.Context, req AuditRequest) (AuditReply, error)
	// RecordAudit takes what another master has refused, on the leader; a
	// standby returns ErrNotLeader.
	RecordAudit(ctx context.Context, req RecordAuditRequest) error
}

// CreateTokenRequest describes a token without its secret, which stays with
// whoever made it.
type CreateTokenRequest struct {
	Name          string
	Role          model.Role
	Hash          model.TokenHash
	LifetimeMilli int64 // of cluster clock; 0 = for ever
}

// MaxAuditReply bounds the lines of one answer.
const MaxAuditReply = model.MaxAudit

// AuditRequest selects audit lines.
type AuditRequest struct {
	SinceMilli int64 // wall clock, ms since 1970; 0 = all
	Principal  string
	App        model.AppID // and its executors
	// After selects the lines of entries after this one; 0 = from the oldest.
	After uint64
	// Limit: the newest so many, or with After the oldest; 0 = MaxAuditReply.
	Limit int
}

// AuditReply holds audit lines, the oldest first.
type AuditReply struct {
	Lines []model.AuditLine
	// Index is up to which entry the answer reaches: ask for what comes after it.
	Index uint64
}

// RecordAuditRequest holds what a standby has seen.
type RecordAuditRequest struct {
	Master model.MasterID
	Lines  []model.AuditLine // at most model.MaxAuditLines
}

// accessServer serves an AccessService.
type accessServer struct {
	pb.UnimplementedAccessServer
	svc AccessService
}

// CreateToken serves AccessService.CreateToken.
func (s *accessServer) CreateToken(ctx context.Context, in *pb.CreateTokenRequest) (*pb.Empty, error) {
	req := CreateTokenRequest{Name: in.GetName(), Role: model.Role(in.GetRole()), LifetimeMilli: in.GetLifetimeMs()}
	if len(in.GetHash()) != len(req.Hash) {
		return nil, fmt.Errorf("create token: %w: its hash has %d bytes, want %d", model.ErrInvalid, len(in.GetHash()), len(req.Hash))
	}
	copy(req.Hash[:], in.GetHash())
	return &pb.Empty{}, s.svc.CreateToken(ctx, callInfo(ctx), req)
}

// RevokeToken serves AccessService.RevokeToken.
func (s *accessServer) RevokeToken(ctx context.Context, in *pb.RevokeTokenRequest) (*pb.Empty, error) {
	return &pb.Empty{}, s.svc.RevokeToken(ctx, callInfo(ctx), model.TokenID(in.GetId()))
}

// Tokens serves AccessService.Tokens.
func (s *accessServer) Tokens(ctx context.Context, _ *pb.Empty) (*pb.TokensReply, error) {
	out, err := s.svc.Tokens(ctx)
	return &pb.TokensReply{Tokens: each(out, tokenViewToWire)}, err
}

// Audit serves AccessService.Audit.
func (s *accessServer) Audit(ctx context.Context, in *pb.AuditRequest) (*pb.AuditReply, error) {
	out, err := s.svc.Audit(ctx, AuditRequest{
		SinceMilli: in.GetSinceUnixMs(), Principal: in.GetPrincipal(), App: model.AppID(in.GetApp()),
		After: in.GetAfter(), Limit: int(min(max(in.GetLimit(), 0), MaxAuditReply)),
	})
	return &pb.AuditReply{Lines: each(out.Lines, auditLineToWire), Index: out.Index}, err
}

// RecordAudit serves AccessService.RecordAudit.
func (s *accessServer) RecordAudit(ctx context.Context, in *pb.RecordAuditRequest) (*pb.Empty, error) {
	if n := len(in.GetLines()); n > model.MaxAuditLines {
		return nil, fmt.Errorf("record audit lines: %w: %d at once, the limit is %d", model.ErrInvalid, n, model.MaxAuditLines)
	}
	return &pb.Empty{}, s.svc.RecordAudit(ctx, RecordAuditRequest{
		Master: model.MasterID(in.GetMaster()), Lines: each(in.GetLines(), auditLineFromWire),
	})
}

// accessClient calls an AccessService.
type accessClient struct {
	conn *Conn
	pb   pb.AccessClient
}

var _ AccessService = (*accessClient)(nil)

// AccessClient calls a master's access services; see ClusterClient.
func AccessClient(c *Conn) AccessService {
	return &accessClient{conn: c, pb: pb.NewAccessClient(c.cc)}
}

// CreateToken calls AccessService.CreateToken.
func (c *accessClient) CreateToken(ctx context.Context, call CallInfo, req CreateTokenRequest) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.CreateToken, &pb.CreateTokenRequest{
		Name: req.Name, Role: string(req.Role), Hash: req.Hash[:], LifetimeMs: req.LifetimeMilli,
	})
	return err
}

// RevokeToken calls AccessService.RevokeToken.
func (c *accessClient) RevokeToken(ctx context.Context, call CallInfo, id model.TokenID) error {
	_, err := order(withCall(ctx, c.conn, call), c.pb.RevokeToken, &pb.RevokeTokenRequest{Id: string(id)})
	return err
}

// Tokens calls AccessService.Tokens.
func (c *accessClient) Tokens(ctx context.Context) ([]model.TokenView, error) {
	out, err := ask(ctx, c.pb.Tokens, &pb.Empty{})
	return each(out.GetTokens(), tokenViewFromWire), err
}

// Audit calls AccessService.Audit.
func (c *accessClient) Audit(ctx context.Context, req AuditRequest) (AuditReply, error) {
	out, err := ask(ctx, c.pb.Audit, &pb.AuditRequest{
		SinceUnixMs: req.SinceMilli, Principal: req.Principal, App: string(req.App), After: req.After, Limit: int64(req.Limit),
	})
	return AuditReply{Lines: each(out.GetLines(), auditLineFromWire), Index: out.GetIndex()}, err
}

// RecordAudit calls AccessService.RecordAudit.
func (c *accessClient) RecordAudit(ctx context.Context, req RecordAuditRequest) error {
	_, err := order(ctx, c.pb.RecordAudit, &pb.RecordAuditRequest{Master: string(req.Master), Lines: each(req.Lines, auditLineToWire)})
	return err
}

func tokenViewToWire(v model.TokenView) *pb.TokenView {
	return &pb.TokenView{
		Id: string(v.ID), Name: v.Name, Role: string(v.Role), Active: v.Active, ExpiresAt: v.ExpiresAt,
		ExpiresInMs: v.ExpiresIn, CreatedAt: v.CreatedAt, CreatedBy: v.CreatedBy,
	}
}

func tokenViewFromWire(p *pb.TokenView) model.TokenView {
	return model.TokenView{
		ID: model.TokenID(p.GetId()), Name: p.GetName(), Role: model.Role(p.GetRole()), Active: p.GetActive(), ExpiresAt: p.GetExpiresAt(),
		ExpiresIn: p.GetExpiresInMs(), CreatedAt: p.GetCreatedAt(), CreatedBy: p.GetCreatedBy(),
	}
}

func auditLineToWire(l model.AuditLine) *pb.AuditLine {
	return &pb.AuditLine{
		Index: l.Index, WallUnixMs: l.Wall, Principal: validText(l.Principal), Credential: validText(l.Credential), From: validText(l.From),
		Action: validText(l.Action), Object: validText(l.Object), Outcome: l.Outcome, Reason: validText(l.Reason), Count: l.Count,
	}
}

func auditLineFromWire(p *pb.AuditLine) model.AuditLine {
	return model.AuditLine{
		Index: p.GetIndex(), Wall: p.GetWallUnixMs(), Principal: p.GetPrincipal(), Credential: p.GetCredential(), From: p.GetFrom(),
		Action: p.GetAction(), Object: p.GetObject(), Outcome: p.GetOutcome(), Reason: p.GetReason(), Count: p.GetCount(),
	}
}

// AccessOf calls the access services of the master that svc calls, which is a
// client of ClusterClient.
func AccessOf(svc ClusterService) (AccessService, error) {
	c, ok := svc.(*clusterClient)
	if !ok {
		return nil, fmt.Errorf("%w: %T is no client of a master", model.ErrInvalid, svc)
	}
	return AccessClient(c.conn), nil
}
