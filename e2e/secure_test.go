//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// secureVariable makes every cluster of this package one with everything on:
// TLS with roles, encrypted gossip, tokens (SE-13).
const secureVariable = "HEARTH_E2E_SECURE"

func secure() bool { return os.Getenv(secureVariable) != "" }

// access is what whoever talks to a cluster needs besides addresses; the zero
// value is for an open one.
type access struct {
	env   []string // of commands
	tls   *tls.Config
	token model.Secret
}

// accessOf takes what the demonstration says that commands need.
func accessOf(t testing.TB, dir string, env map[string]string) access {
	t.Helper()
	var a access
	for name, value := range env {
		if name != config.EnvMasters {
			a.env = append(a.env, name+"="+value)
		}
	}
	slices.Sort(a.env)
	if secure() {
		var err error
		if a.tls, err = demo.ClientTLS(dir); err != nil {
			t.Fatal(err)
		}
	}
	if path := env[config.EnvTokenFile]; path != "" {
		a.token = readToken(t, path)
	}
	return a
}

func readToken(t testing.TB, path string) model.Secret {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return model.Secret(strings.TrimSpace(string(text)))
}

// client makes a client that the caller closes.
func (a access) client(principal string, masters ...string) (*client.Client, error) {
	return client.New(client.Config{Masters: masters, Principal: principal, TLS: a.tls, Token: a.token})
}

// dial makes a connection that the caller closes.
func (a access) dial(addr, principal string) (*rpc.Conn, error) {
	return rpc.Dial(addr, rpc.DialConfig{TLS: a.tls, Principal: principal, Token: a.token})
}

// get asks one page of a daemon's HTTP; the caller closes the body.
func (a access) get(ctx context.Context, addr, path string) (*http.Response, error) {
	scheme, own := "http", (*tls.Config)(nil)
	if a.tls != nil {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		scheme, own = "https", tlsconf.ForHost(a.tls, host)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token.Reveal())
	}
	tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: own}
	return (&http.Client{Transport: tr}).Do(req)
}

// passOn are arguments of submit with which a command inside of the cluster can
// talk to it.
func (a access) passOn() []string {
	var out []string
	for _, kv := range a.env {
		out = append(out, "--env", kv)
	}
	return out
}

// takeToken makes client and commands use the first token of a cluster that was
// founded anew.
func (c *cluster) takeToken(t testing.TB) {
	t.Helper()
	if !secure() {
		return
	}
	dir := demo.TLSDir(c.dir, "client")
	path := filepath.Join(dir, "token")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, settleWithin, "there is a token", func() string {
		if err := demo.KeepToken(c.dir); err != nil {
			return err.Error()
		}
		return ""
	})
	c.access.token = readToken(t, path)
	c.learn(t)
}

// tlsArgs are what the daemon needs to be part of the cluster.
func (c *cluster) tlsArgs(n *node) []string {
	if !secure() {
		return nil
	}
	args := []string{"--tls-dir", demo.TLSDir(c.dir, n.name)}
	if strings.HasPrefix(n.name, "master") {
		args = append(args, "--tokens", "required")
	}
	return args
}

// issue makes another certificate of the cluster's authority, for a role and the
// loopback address, and returns its directory and what to dial with.
func (c *cluster) issue(t testing.TB, role tlsconf.Role, name string) (dir string, client *tls.Config) {
	t.Helper()
	return issueFrom(t, demo.TLSDir(c.dir, "authority"), role, name, "127.0.0.1")
}

func issueFrom(t testing.TB, authority string, role tlsconf.Role, name string, hosts ...string) (dir string, client *tls.Config) {
	t.Helper()
	a, err := ca.Open(authority)
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(filepath.Dir(authority), name)
	if _, err := a.Issue(dir, ca.Request{Role: role, Name: name, SANs: hosts, Lifetime: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = config.TLS{Dir: dir}.Paths()
	source, err := tlsconf.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return dir, source.Client()
}
