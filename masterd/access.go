package masterd

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Limits of looking up tokens on a replica that may lag.
const (
	// tokenPatience is how long a token that is not known yet is waited for: it
	// may have been made a moment ago, at the leader.
	tokenPatience = 250 * time.Millisecond
	// maxTokenWaits bounds the calls that wait so at once. Further ones with an
	// unknown token are refused at once.
	maxTokenWaits = 64
)

// access is what this master knows of people.
type access struct {
	m        *Master
	required bool
	notes    *auditBook
	waiting  atomic.Int32
}

var _ rpc.AccessPolicy = (*access)(nil)

// TokensRequired reports whether the configuration demands tokens of people.
func (a *access) TokensRequired() bool { return a.required }

// Note takes a line for the audit trail. It never blocks.
func (a *access) Note(line model.AuditLine) { a.notes.add(line, a.m.deps.Wall()) }

// Token finds a token in this replica. The expiry is judged by the cluster clock
// as this master estimates it.
func (a *access) Token(ctx context.Context, h model.TokenHash) (model.Token, error) {
	behind := a.m.node.CommitIndex()
	wake, unwatch := a.m.hub.watchAny()
	defer unwatch()
	if tok, ok := a.m.fsm.View().Token(h); ok {
		return a.judge(tok)
	}
	waiting := a.waiting.Add(1)
	defer a.waiting.Add(-1)
	if a.m.leading.Load() != nil || waiting > maxTokenWaits {
		return model.Token{}, a.unknown(behind)
	}
	patience := time.NewTimer(tokenPatience)
	defer patience.Stop()
	for {
		select {
		case <-wake:
			if tok, ok := a.m.fsm.View().Token(h); ok {
				return a.judge(tok)
			}
		case <-patience.C:
			return model.Token{}, a.unknown(behind)
		case <-ctx.Done():
			return model.Token{}, ctx.Err()
		}
	}
}

func (a *access) judge(tok *model.Token) (model.Token, error) {
	if tok.Expired(a.m.node.ClusterTick()) {
		return model.Token{}, fmt.Errorf("%w: %s has expired", model.ErrNotFound, tok.ID)
	}
	return *tok, nil
}

// unknown is the answer for a token that this replica does not have: it may say
// so only if it is up to date.
func (a *access) unknown(commit uint64) error {
	if a.m.leading.Load() == nil {
		if why := a.m.unready(); why != "" || a.m.node.AppliedIndex() < commit {
			return fmt.Errorf("%w: this master cannot tell whether a token is valid before it has caught up", model.ErrUnavailable)
		}
	}
	return model.ErrNotFound
}
