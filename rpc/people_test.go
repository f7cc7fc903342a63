package rpc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// people is an AccessPolicy that a test fills.
type people struct {
	required bool
	tokens   map[model.TokenHash]model.Token
	drivers  map[string]string // name of an attempt -> who submitted it

	mu    sync.Mutex
	lines []model.AuditLine
}

func (p *people) TokensRequired() bool { return p.required }

func (p *people) Token(_ context.Context, h model.TokenHash) (model.Token, error) {
	t, ok := p.tokens[h]
	if !ok {
		return t, model.ErrNotFound
	}
	return t, nil
}

func (p *people) Driver(_ context.Context, name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	owner, ok := p.drivers[name]
	if !ok {
		return "", fmt.Errorf("%w: %s is over", model.ErrUnauthenticated, name)
	}
	return owner, nil
}

func (p *people) Note(l model.AuditLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, l)
}

func (p *people) noted() []model.AuditLine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// bearerFor is the secret of a test's token; the name decides it.
func bearerFor(t testing.TB, name string) model.Secret {
	t.Helper()
	s, err := model.NewBearer(strings.NewReader(name + strings.Repeat(".", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newPeople knows one token for each role, with the role's name.
func newPeople(t testing.TB, required bool) *people {
	t.Helper()
	p := &people{required: required, tokens: map[model.TokenHash]model.Token{}}
	for _, role := range model.Roles() {
		h := model.HashBearer(bearerFor(t, string(role)))
		p.tokens[h] = model.Token{ID: h.ID(), Name: string(role), Role: role, Hash: h}
	}
	return p
}

// pki issues certificates of one cluster.
type pki struct {
	t testing.TB
	a *ca.Authority
}

func newPKI(t testing.TB, cluster string) *pki {
	t.Helper()
	a, err := ca.Init(filepath.Join(t.TempDir(), "ca"), cluster, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return &pki{t: t, a: a}
}

func (p *pki) issue(role tlsconf.Role, name string, hosts ...string) *tlsconf.Source {
	p.t.Helper()
	dir := filepath.Join(p.t.TempDir(), name)
	if hosts == nil {
		hosts = []string{"127.0.0.1"}
	}
	if _, err := p.a.Issue(dir, ca.Request{Role: role, Name: name, SANs: hosts, Lifetime: time.Hour}); err != nil {
		p.t.Fatal(err)
	}
	src, err := tlsconf.Load(tlsconf.Files{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")})
	if err != nil {
		p.t.Fatal(err)
	}
	return src
}

// driver makes the certificate of an attempt of a driver with this secret.
func (p *pki) driver(name, secret string) *tlsconf.Source {
	p.t.Helper()
	cert, key, err := tlsconf.DriverPair("prod", name, secret)
	if err != nil {
		p.t.Fatal(err)
	}
	dir := p.t.TempDir()
	files := tlsconf.Files{CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	trusted := p.issue(tlsconf.RoleWorker, "w-"+name).Authorities()
	for path, data := range map[string][]byte{files.CAFile: trusted, files.CertFile: cert, files.KeyFile: key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	src, err := tlsconf.Load(files)
	if err != nil {
		p.t.Fatal(err)
	}
	return src
}

// attempts lets in every attempt whose secret is its name.
func attempts(name string) (string, bool) { return name, true }
