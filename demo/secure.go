package demo

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/internal/ca"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// Directories of a secure demonstration, below that of the demonstration.
const (
	secureDir    = "tls"
	authorityDir = "authority"
	clientName   = "client"
	tokenName    = "token" // in the directory of the client

	// firstTokenName is where a master leaves the first operator's token.
	firstTokenName = "operator.token"

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
	args := []string{"--tls-dir", TLSDir(s.dir, name)}
	if strings.HasPrefix(name, "master") {
		args = append(args, "--tokens", "required")
	}
	return args
}

// token is the first operator's, or "" before there is a leader that has made it.
func (s *security) token() model.Secret {
	if s == nil {
		return ""
	}
	if err := KeepToken(s.dir); err != nil {
		return ""
	}
	text, err := os.ReadFile(filepath.Join(TLSDir(s.dir, clientName), tokenName))
	if err != nil {
		return ""
	}
	return model.Secret(strings.TrimSpace(string(text)))
}

// KeepToken copies the first operator's token of the secure demonstration in dir
// to where commands look for it, unless there is one already. The error is
// fs.ErrNotExist while no master has made it.
func KeepToken(dir string) error {
	path := filepath.Join(TLSDir(dir, clientName), tokenName)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(dir, "master-*", firstTokenName))
	if err != nil || len(found) == 0 {
		return fmt.Errorf("keep the operator's token: %w", cmp.Or(err, fs.ErrNotExist))
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return fmt.Errorf("keep the operator's token: %w", err)
	}
	return atomicfile.Write(path, text, 0o600)
}

// env is what commands need besides the addresses.
func (s *security) env(out map[string]string) {
	if s != nil {
		out[config.EnvTLSDir] = TLSDir(s.dir, clientName)
		out[config.EnvTokenFile] = filepath.Join(TLSDir(s.dir, clientName), tokenName)
	}
}
