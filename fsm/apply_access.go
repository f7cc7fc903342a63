package fsm

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// createToken accepts a token. Expired ones make room, and are shown until then.
func (t *tx) createToken(c *replogv1.Command, p *replogv1.CreateToken) Result {
	tok, err := t.newToken(c, p)
	if err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	if p.GetFirst() {
		if id, ok := t.operatorToken(); ok {
			return reject(model.RejectTokenExists, "%s is an operator's token already", id)
		}
	}
	if _, ok := t.tokens.get([]byte(tok.ID)); ok {
		return reject(model.RejectTokenExists, "%s exists already", tok.ID)
	}
	if t.tokens.n >= model.MaxTokens && !t.dropExpired() {
		return reject(model.RejectTooMany, "there are %d tokens, which is the limit: revoke some that are not used any more", model.MaxTokens)
	}
	t.tokens.insert([]byte(tok.ID), tok)
	t.changed(Change{Kind: ChangeToken, Token: tok.ID})
	t.auditLine(c, fmt.Sprintf("create %s token for %s", tok.Role, tok.Name), string(tok.ID))
	return Result{}
}

// newToken checks the command on its own.
func (t *tx) newToken(c *replogv1.Command, p *replogv1.CreateToken) (*model.Token, error) {
	if err := model.ValidTokenName(p.GetName()); err != nil {
		return nil, err
	}
	role, err := model.ParseRole(p.GetRole())
	if err != nil {
		return nil, err
	}
	tok := &model.Token{
		Name: p.GetName(), Role: role, CreatedWall: t.wall, CreatedBy: c.GetPrincipal(), ChangeIndex: t.index,
	}
	if len(p.GetHash()) != len(tok.Hash) {
		return nil, fmt.Errorf("%w: hash of a token: %d bytes, want %d", model.ErrInvalid, len(p.GetHash()), len(tok.Hash))
	}
	copy(tok.Hash[:], p.GetHash())
	tok.ID = tok.Hash.ID()
	switch life := p.GetLifetimeMilli(); {
	case life == 0:
	case life < model.MinTokenMilli || life > model.MaxTokenMilli:
		return nil, fmt.Errorf("%w: life of a token: %s, want 0 (for ever) or %s to %s", model.ErrInvalid,
			model.FormatMilli(life), model.FormatMilli(model.MinTokenMilli), model.FormatMilli(model.MaxTokenMilli))
	default:
		tok.ExpiresTick, tok.ExpiresWall = t.tick+life, t.wall+life
	}
	return tok, nil
}

// operatorToken finds a token of an operator that is accepted.
func (t *tx) operatorToken() (model.TokenID, bool) {
	for _, tok := range t.tokens.collect(nil) {
		if tok.Role == model.RoleOperator && !tok.Expired(t.tick) {
			return tok.ID, true
		}
	}
	return "", false
}

// dropExpired removes the tokens that are not accepted any more, and reports
// whether there were any.
func (t *tx) dropExpired() bool {
	dropped := false
	for _, tok := range t.tokens.collect(nil) {
		if tok.Expired(t.tick) {
			t.removeToken(tok.ID)
			dropped = true
		}
	}
	return dropped
}

func (t *tx) removeToken(id model.TokenID) {
	t.tokens.remove([]byte(id))
	t.changed(Change{Kind: ChangeToken, Token: id})
}

func (t *tx) revokeToken(c *replogv1.Command, p *replogv1.RevokeToken) Result {
	tok, ok := t.tokens.get([]byte(p.GetId()))
	if !ok {
		return reject(model.RejectUnknownToken, "token %q is not known", p.GetId())
	}
	t.removeToken(tok.ID)
	t.auditLine(c, fmt.Sprintf("revoke %s token of %s", tok.Role, tok.Name), string(tok.ID))
	return Result{}
}

// mayEnd refuses callers who may end their own applications only. An attempt of a
// driver acts for whoever submitted that, within its own applications.
func mayEnd(c *replogv1.Command, a *model.App) (Result, bool) {
	if ref, is := callingAttempt(c); is && ref != a.Spec.Driver.Ref(a.Spec.Attempt) {
		return reject(model.RejectNotOwner, "application %s is not one that %s has registered: a driver may end only those", a.ID, ref), false
	}
	if !c.GetOwnOnly() || c.GetPrincipal() == a.Principal {
		return Result{}, true
	}
	return reject(model.RejectNotOwner, "application %s belongs to %s; %s may end only what it has registered itself: ask %s or an operator",
		a.ID, a.Principal, c.GetPrincipal(), a.Principal), false
}

// recordAudit writes lines down as they are given, within limits. Text beyond
// them is a fault of the proposer, not of whoever was refused.
func (t *tx) recordAudit(p *replogv1.RecordAudit) Result {
	if n := len(p.GetLines()); n == 0 || n > model.MaxAuditLines {
		return reject(model.RejectInvalid, "%d audit lines in one command: must be 1 to %d", n, model.MaxAuditLines)
	}
	for _, l := range p.GetLines() {
		if err := checkAuditLine(auditFromProto(l)); err != nil {
			return reject(model.RejectInvalid, "%v", err)
		}
	}
	for _, l := range p.GetLines() {
		line := auditFromProto(l)
		line.Index = t.index
		t.addAudit(line)
	}
	return Result{}
}

func checkAuditLine(l *model.AuditLine) error {
	for _, s := range []string{l.Principal, l.Credential, l.From, l.Action} {
		if len(s) > model.MaxNameBytes {
			return fmt.Errorf("%w: audit line: a name has %d bytes, the limit is %d", model.ErrInvalid, len(s), model.MaxNameBytes)
		}
	}
	switch {
	case len(l.Object) > model.MaxReasonBytes || len(l.Reason) > model.MaxReasonBytes:
		return fmt.Errorf("%w: audit line: object or reason has more than %d bytes", model.ErrInvalid, model.MaxReasonBytes)
	case l.Outcome != model.AuditOK && l.Outcome != model.AuditRefused:
		return fmt.Errorf("%w: audit line: outcome %q, want %s or %s", model.ErrInvalid, l.Outcome, model.AuditOK, model.AuditRefused)
	case l.Count < 0 || l.Wall < 0 || l.Wall > maxWall || l.Action == "":
		return fmt.Errorf("%w: audit line: count %d, wall clock %d, action %q", model.ErrInvalid, l.Count, l.Wall, l.Action)
	}
	return nil
}

// auditLine records a call that changes something.
func (t *tx) auditLine(c *replogv1.Command, action, object string) {
	t.addAudit(&model.AuditLine{
		Index: t.index, Wall: c.GetWall(), Principal: c.GetPrincipal(), Credential: c.GetCredential(), From: c.GetFrom(),
		Action: action, Object: object, Outcome: model.AuditOK,
	})
}

// addAudit appends a line and forgets the oldest ones beyond the limits.
func (t *tx) addAudit(l *model.AuditLine) {
	t.seq++
	t.audit.insert(numKey(t.seq), l)
	if l.Refused() {
		t.refusals.put(numKey(t.seq), struct{}{})
	}
	for t.refusals.n > model.MaxAuditRefusals {
		key, _, ok := t.refusals.first()
		if !ok {
			return
		}
		t.dropAudit(key)
	}
	for t.audit.n > model.MaxAudit {
		key, ok := t.audit.first()
		if !ok {
			return
		}
		t.dropAudit(key)
	}
}

func (t *tx) dropAudit(key []byte) {
	t.refusals.remove(key)
	t.audit.remove(key)
}
