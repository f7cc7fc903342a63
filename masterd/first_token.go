package masterd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// FirstTokenFile holds, in the data directory of the master that led then, the
// token of the first operator, in mode 0600.
const FirstTokenFile = "operator.token"

// firstTokenInterval is how often the leader looks whether any operator is left.
const firstTokenInterval = time.Minute

// runFirstToken sees to it that where tokens are required there is one of an
// operator: whoever may read this master's data directory is one. It is the way
// in, and the way back when the last such token was revoked or has expired.
func (l *leadership) runFirstToken(ctx context.Context) error {
	if !l.m.access.required {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(firstTokenInterval)
	defer tick.Stop()
	for {
		if !l.m.hasOperatorToken() {
			if err := l.m.makeFirstToken(ctx); err != nil && ctx.Err() == nil {
				l.log.Error("no operator's token exists and none could be made; it is tried again", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// hasOperatorToken reports whether a token of an operator is accepted.
func (m *Master) hasOperatorToken() bool {
	found, tick := false, m.node.ClusterTick()
	m.fsm.View().Tokens(func(t *model.Token) bool {
		found = t.Role == model.RoleOperator && !t.Expired(tick)
		return !found
	})
	return found
}

// makeFirstToken writes a new secret to the data directory and then has it
// accepted. The secret is always new: an old file may hold a revoked one.
func (m *Master) makeFirstToken(ctx context.Context) error {
	secret, err := model.NewBearer(rand.Reader)
	if err != nil {
		return err
	}
	path := filepath.Join(m.cfg.DataDir, FirstTokenFile)
	if err := atomicfile.Write(path, []byte(secret.Reveal()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the first operator's token: %w", err)
	}
	hash := model.HashBearer(secret)
	cmd := createTokenCommand(rpc.CreateTokenRequest{Name: "first-operator", Role: model.RoleOperator, Hash: hash})
	cmd.Principal, cmd.GetCreateToken().First = "master", true
	err = m.propose(ctx, cmd)
	if isRejected(err, model.RejectTokenExists) {
		// Another one came first; this secret opens nothing.
		if rmErr := os.Remove(path); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			return fmt.Errorf("remove a token that is of no use: %w", rmErr)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("have the first operator's token accepted: %w", err)
	}
	m.log.Warn("the first operator's token is made: read it from the file, hand out tokens with hearth token create, then revoke it",
		"file", path, "token", string(hash.ID()))
	return nil
}
