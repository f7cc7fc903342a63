package testca

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// Cluster is the name of the cluster of New.
const Cluster = "prod"

// Authority is an authority below a test's directory.
type Authority struct {
	*ca.Authority
	Dir string // of the authority
}

// New makes an authority for Cluster.
func New(t testing.TB) *Authority { return Of(t, Cluster) }

// Of makes an authority for a cluster of another name.
func Of(t testing.TB, cluster string) *Authority {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ca")
	a, err := ca.Init(dir, cluster, ca.DefaultAuthorityLifetime)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{Authority: a, Dir: dir}
}

// Issue makes a node's directory for loopback and returns its path.
func (a *Authority) Issue(t testing.TB, role tlsconf.Role, name string, lifetime time.Duration, more ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	req := ca.Request{Role: role, Name: name, Lifetime: lifetime, SANs: append([]string{"localhost", "127.0.0.1", "::1"}, more...)}
	if _, err := a.Authority.Issue(dir, req); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Source issues a certificate for an hour and loads it.
func (a *Authority) Source(t testing.TB, role tlsconf.Role, name string, more ...string) *tlsconf.Source {
	t.Helper()
	return Load(t, a.Issue(t, role, name, time.Hour, more...))
}

// Files names the files of a node's directory.
func Files(dir string) tlsconf.Files {
	return tlsconf.Files{
		CAFile: filepath.Join(dir, ca.BundleFile), CertFile: filepath.Join(dir, ca.NodeCertFile), KeyFile: filepath.Join(dir, ca.NodeKeyFile),
	}
}

// Load loads a node's directory.
func Load(t testing.TB, dir string) *tlsconf.Source {
	t.Helper()
	s, err := tlsconf.Load(Files(dir))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
