package masterd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// strict starts three masters that require tokens.
func strict(c *simCluster) (leader *simMaster, standbys []*simMaster) {
	c.t.Helper()
	c.conf = func(conf *Config) { conf.TokensRequired = true }
	for n := range c.dirs {
		c.start(n)
	}
	leader, _ = c.settled(time.Minute)
	for _, m := range c.ms {
		if m != leader {
			standbys = append(standbys, m)
		}
	}
	return leader, standbys
}

// audited sums up the refused calls in a master's trail.
func audited(m *simMaster) (lines int, calls int64) {
	for _, l := range m.fsm.View().Audit(0) {
		if l.Refused() {
			lines, calls = lines+1, calls+max(l.Count, 1)
		}
	}
	return lines, calls
}

// Whoever may do nothing can make 100,000 calls, of one kind or each about
// something else, at any master: the log grows by a few entries, and each call is
// counted on all masters.
func TestSimSE12AHundredThousandRefusedCallsAreAFewEntries(t *testing.T) {
	const calls, during = 100_000, time.Minute
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		leader, standbys := strict(c)
		before, _ := leader.StateHash()
		for i := range calls {
			m := c.ms[i%len(c.ms)]
			object := "app-20261130061500-0001"
			if i%2 == 0 {
				object = fmt.Sprintf("app-%d", i)
			}
			m.access.Note(model.AuditLine{Principal: "eve", From: "192.0.2.7", Action: "kill app", Object: object, Outcome: model.AuditRefused, Reason: "no token", Count: 1})
			if i%1000 == 0 {
				time.Sleep(during / (calls / 1000))
			}
		}
		c.until("each call is counted on each master", 5*time.Minute, func() error {
			for _, m := range c.ms {
				if _, n := audited(m); n != calls {
					return fmt.Errorf("%s counts %d", m.host, n)
				}
			}
			return nil
		})
		c.agree()
		after, _ := leader.StateHash()
		lines, _ := audited(leader)
		t.Logf("%d refused calls: %d entries, %d audit lines, standbys %d", calls, after-before, lines, len(standbys))
		// Each of three masters writes at 0, 1, 3, 7, 15, 31, 63 s and then each minute.
		if after-before > 30 || lines > 1000 {
			t.Errorf("%d entries and %d lines were written", after-before, lines)
		}
	})
}

func TestSimARefusedCallIsInTheTrailOfEachMasterWithinTwoSeconds(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		_, standbys := strict(c)
		cl := c.client(standbys[0])
		defer func() { _ = cl.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := cl.KillApp(ctx, "app-20261130061500-0001", ""); !errors.Is(err, model.ErrUnauthenticated) {
			t.Fatalf("a call without a token: %v", err)
		}
		c.until("the refusal is on each master", 2*time.Second, func() error {
			for _, m := range c.ms {
				if lines, _ := audited(m); lines != 1 {
					return fmt.Errorf("%s has %d lines", m.host, lines)
				}
			}
			return nil
		})
		l := c.ms[0].fsm.View().Audit(1)[0]
		if l.Action != "kill app" || l.Object != "app-20261130061500-0001" || l.From == "" || !strings.Contains(l.Reason, "token") {
			t.Errorf("the line says %+v", l)
		}
	})
}

// secretIn reads the first operator's token in a data directory.
func secretIn(dir string) (model.Secret, error) {
	text, err := os.ReadFile(filepath.Join(dir, FirstTokenFile))
	if err != nil {
		return "", err
	}
	return model.ParseBearer(strings.TrimSpace(string(text)))
}

// SE-02 wants a token to exist after the first start, SE-10 a way back for whoever
// has lost his.
func TestSimSE10WhereTokensAreRequiredThereIsAlwaysOneOfAnOperator(t *testing.T) {
	simulateSeed(t, 1, func(t *testing.T, c *simCluster) {
		leader, _ := strict(c)
		if v, err := leader.clusterView(); err != nil || v.Access != model.AccessToken {
			t.Errorf("hearth status says that people are let in by %q, %v, want %q", v.Access, err, model.AccessToken)
		}
		opens := func() (model.Secret, error) {
			for n, dir := range c.dirs {
				secret, err := secretIn(dir)
				if err != nil {
					continue
				}
				tok, err := c.ms[n].access.Token(t.Context(), model.HashBearer(secret))
				if err == nil && tok.Role == model.RoleOperator {
					info, err := os.Stat(filepath.Join(dir, FirstTokenFile))
					if err != nil || info.Mode().Perm() != 0o600 {
						return "", fmt.Errorf("its file: %v, %w", info.Mode(), err)
					}
					return secret, nil
				}
			}
			return "", errors.New("no operator's token in any data directory")
		}
		var first model.Secret
		c.until("the first operator's token", 5*time.Second, func() (err error) { first, err = opens(); return err })
		call := rpc.CallInfo{RequestID: "revoke-1", Base: leader.fsm.View().Index() - 1, Principal: "root"}
		if err := (accessService{leader.Master}).RevokeToken(t.Context(), call, model.HashBearer(first).ID()); err != nil {
			t.Fatal(err)
		}
		if _, err := opens(); err == nil {
			t.Fatal("a revoked token opens still")
		}
		var second model.Secret
		c.until("another one", firstTokenInterval+5*time.Second, func() (err error) { second, err = opens(); return err })
		if second == first {
			t.Error("the revoked secret was made valid again")
		}
		// With an operator there, a change of leader makes no further one.
		n := 0
		leader.fsm.View().Tokens(func(*model.Token) bool { n++; return true })
		if err := leader.Transfer(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		c.settled(time.Minute)
		time.Sleep(2 * firstTokenInterval)
		got := 0
		c.ms[0].fsm.View().Tokens(func(*model.Token) bool { got++; return true })
		if got != n {
			t.Errorf("%d tokens after a change of leader, %d before", got, n)
		}
	})
}

// A token that was made a moment ago is accepted by a standby, and one that was
// revoked or has expired is not.
func TestSimATokenIsGoodOnEachMasterAtOnce(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		leader, standbys := strict(c)
		hash := model.HashBearer("any")
		call := rpc.CallInfo{RequestID: "create-1", Base: leader.fsm.View().Index() - 1, Principal: "root"}
		req := rpc.CreateTokenRequest{Name: "ann", Role: model.RoleViewer, Hash: hash, LifetimeMilli: 60_000}
		if err := (accessService{leader.Master}).CreateToken(t.Context(), call, req); err != nil {
			t.Fatal(err)
		}
		for _, m := range standbys {
			began := time.Now()
			if _, err := m.access.Token(t.Context(), hash); err != nil {
				t.Errorf("%s, %s after it was made: %v", m.host, time.Since(began), err)
			}
			began = time.Now()
			if _, err := m.access.Token(t.Context(), model.HashBearer("another")); !errors.Is(err, model.ErrNotFound) || time.Since(began) > 2*tokenPatience {
				t.Errorf("%s: an unknown token: %v after %s", m.host, err, time.Since(began))
			}
		}
		time.Sleep(time.Minute + 5*time.Second) // of an idle cluster: the clock runs on all the same
		for _, m := range c.ms {
			if _, err := m.access.Token(t.Context(), hash); !errors.Is(err, model.ErrNotFound) {
				t.Errorf("%s: an expired token: %v", m.host, err)
			}
		}
	})
}
