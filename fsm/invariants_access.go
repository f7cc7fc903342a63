package fsm

import (
	"github.com/hearthd/hearth/model"
)

// checkAccess checks the audit trail and the tokens.
func (c *checker) checkAccess() {
	refused := 0
	c.s.audit.tree.walk(func(k string, en *entry[model.AuditLine]) bool {
		if en.rec.Index > c.s.index {
			c.bad("an audit line of index %d, which is not applied", en.rec.Index)
		}
		_, known := c.s.refusals.tree.get([]byte(k))
		if en.rec.Refused() {
			refused++
		}
		if known != en.rec.Refused() {
			c.bad("an audit line at index %d with outcome %q: counted as refused=%t", en.rec.Index, en.rec.Outcome, known)
		}
		return true
	})
	if c.s.refusals.n != refused || refused > model.MaxAuditRefusals || c.s.audit.n > model.MaxAudit {
		c.bad("%d audit lines, %d about refused calls (%d counted); the limits are %d and %d",
			c.s.audit.n, refused, c.s.refusals.n, model.MaxAudit, model.MaxAuditRefusals)
	}
	if c.s.tokens.n > model.MaxTokens {
		c.bad("%d tokens, the limit is %d", c.s.tokens.n, model.MaxTokens)
	}
	c.s.tokens.tree.walk(func(k string, en *entry[model.Token]) bool {
		t := en.rec
		_, err := model.ParseRole(string(t.Role))
		if err != nil || model.ValidTokenName(t.Name) != nil || t.ID != t.Hash.ID() || k != string(t.ID) || t.ExpiresTick < 0 {
			c.bad("token %s: name %q, role %q, expiry or hash is not valid", t.ID, t.Name, t.Role)
		}
		return true
	})
}
