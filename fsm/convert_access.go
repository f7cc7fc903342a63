package fsm

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// AuditToProto converts an audit line.
func AuditToProto(l *model.AuditLine) *replogv1.AuditLine { return auditToProto(l) }

func auditToProto(l *model.AuditLine) *replogv1.AuditLine {
	return &replogv1.AuditLine{
		Index: l.Index, Wall: l.Wall, Principal: text(l.Principal), Action: text(l.Action), Object: text(l.Object), Outcome: text(l.Outcome),
		From: text(l.From), Credential: text(l.Credential), Reason: text(l.Reason), Count: l.Count,
	}
}

func auditFromProto(p *replogv1.AuditLine) *model.AuditLine {
	return &model.AuditLine{
		Index: p.GetIndex(), Wall: p.GetWall(), Principal: p.GetPrincipal(), Action: p.GetAction(), Object: p.GetObject(), Outcome: p.GetOutcome(),
		From: p.GetFrom(), Credential: p.GetCredential(), Reason: p.GetReason(), Count: p.GetCount(),
	}
}

func tokenToProto(t *model.Token) *replogv1.Token {
	return &replogv1.Token{
		Id: string(t.ID), Name: t.Name, Role: string(t.Role), Hash: t.Hash[:], ExpiresTick: t.ExpiresTick, ExpiresWall: t.ExpiresWall,
		CreatedWall: t.CreatedWall, CreatedBy: t.CreatedBy, ChangeIndex: t.ChangeIndex,
	}
}

// tokenFromProto expects a hash of the right length; a shorter one leaves zeros.
func tokenFromProto(p *replogv1.Token) *model.Token {
	t := &model.Token{
		ID: model.TokenID(p.GetId()), Name: p.GetName(), Role: model.Role(p.GetRole()), ExpiresTick: p.GetExpiresTick(), ExpiresWall: p.GetExpiresWall(),
		CreatedWall: p.GetCreatedWall(), CreatedBy: p.GetCreatedBy(), ChangeIndex: p.GetChangeIndex(),
	}
	copy(t.Hash[:], p.GetHash())
	return t
}
