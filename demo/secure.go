package demo

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
)

// Directories of a secure demonstration, below that of the demonstration.
const (
	secureDir    = "tls"
	authorityDir = "authority"
	clientName   = "client"

	// Longer than anybody keeps a demonstration.
	certificateLifetime = 30 * 24 * time.Hour
	authorityLifetime   = 2 * certificateLifetime
)

// TLSDir is the directory with the certificate of one process of a secure
// demonstration in dir: "master-1", "worker-1", and so on, or "client" for
// commands.
func TLSDir(dir, name string) string { return filepath.Join(dir, secureDir, name) }

// security is what a secure demonstration has made; nil for an open one.
type security struct {
	dir    string
	client *tls.Config
}

// secure makes an authority, a certificate for every process, and one for the
// commands and for ourselves.
func (c Config) secure() (*security, error) {
	if !c.Secure {
		return nil, nil //nolint:nilnil // documented: an open demonstration has none
	}
	a, err := ca.Init(TLSDir(c.Dir, authorityDir), "demo", authorityLifetime)
	if err != nil {
		return nil, err
	}
	issue := func(role tlsconf.Role, name string) error {
		_, err := a.Issue(TLSDir(c.Dir, name), ca.Request{Role: role, Name: name, SANs: []string{"127.0.0.1", "localhost"}, Lifetime: certificateLifetime})
		return err
	}
	for role, count := range map[tlsconf.Role]int{tlsconf.RoleMaster: c.Masters, tlsconf.RoleWorker: c.Workers} {
		for n := range count {
			if err := issue(role, fmt.Sprintf("%s-%d", role, n+1)); err != nil {
				return nil, err
			}
		}
	}
	if err := issue(tlsconf.RoleClient, clientName); err != nil {
		return nil, err
	}
	client, err := ClientTLS(c.Dir)
	if err != nil {
		return nil, err
	}
	return &security{dir: c.Dir, client: client}, nil
}

// ClientTLS is what a client of the secure demonstration in dir dials with.
func ClientTLS(dir string) (*tls.Config, error) {
	var files tlsconf.Files
	files.CAFile, files.CertFile, files.KeyFile = config.TLS{Dir: TLSDir(dir, clientName)}.Paths()
	source, err := tlsconf.Load(files)
	if err != nil {
		return nil, fmt.Errorf("load the certificate of the demonstration: %w", err)
	}
	return source.Client(), nil
}

// clientTLS is nil for an open demonstration.
func (s *security) clientTLS() *tls.Config {
	if s == nil {
		return nil
	}
	return s.client
}

// args are what a process needs to be part of it.
func (s *security) args(name string) []string {
	if s == nil {
		return nil
	}
	return []string{"--tls-dir", TLSDir(s.dir, name)}
}

// env is what commands need besides the addresses.
func (s *security) env(out map[string]string) {
	if s != nil {
		out[config.EnvTLSDir] = TLSDir(s.dir, clientName)
	}
}
