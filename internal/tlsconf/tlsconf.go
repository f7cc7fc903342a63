package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// maxFileBytes bounds each file; certificates of an authority are a few KiB.
const maxFileBytes = 1 << 20

// Files names the PEM files of one process. The zero value means plain
// connections.
type Files struct {
	CAFile   string
	CertFile string
	KeyFile  string
}

// Source holds what was read from Files and serves it to any number of
// tls.Configs. It is safe for concurrent use.
type Source struct {
	files  Files
	now    func() time.Time
	reload sync.Mutex // one reading at a time
	state  atomic.Pointer[material]
}

// material is one reading of the files; it never changes.
type material struct {
	pool        *x509.CertPool
	authorities []*x509.Certificate // what pool holds
	cert        *tls.Certificate
	self        Identity
	revoked     revoked
	stamp       stamp
}

// Load reads and checks the files. An error names the file and the rule it
// breaks; all of them are reported at once, joined. For the zero Files it returns
// nil and no error, and the methods of a nil *Source return nil configs.
func Load(files Files) (*Source, error) {
	if files == (Files{}) {
		return nil, nil //nolint:nilnil // documented: no TLS is no source
	}
	s := &Source{files: files, now: time.Now}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the files again. New handshakes use what it read; open
// connections are looked at again by it, see Follow. On an error the old material stays in use.
// A certificate of another cluster or role is an error: a process does not
// become something else while it runs.
func (s *Source) Reload() error {
	if s == nil {
		return nil
	}
	s.reload.Lock()
	defer s.reload.Unlock()
	m, err := read(s.files, s.now())
	if err != nil {
		return err
	}
	if old := s.state.Load(); old != nil && (old.self.Cluster != m.self.Cluster || old.self.Role != m.self.Role) {
		return fmt.Errorf("cert_file %s: must be for a %s of cluster %s like the one in use, it is %s", s.files.CertFile, old.self.Role, old.self.Cluster, m.self)
	}
	s.state.Store(m)
	return nil
}

// Identity is what the own certificate says; zero for a nil Source.
func (s *Source) Identity() Identity {
	if s == nil {
		return Identity{}
	}
	return s.state.Load().self
}

// Require returns an error unless the own certificate is for a role: a daemon
// that shows another one would be refused by everybody. A nil Source passes.
func (s *Source) Require(role Role) error {
	if s == nil || s.Identity().Role == role {
		return nil
	}
	return fmt.Errorf("cert_file %s: must be a certificate for a %s, it is %s: make one with hearth ca issue --role %s", s.files.CertFile, role, s.Identity(), role)
}

// Validity is the time for which the own certificate is valid; zero times for a
// nil Source.
func (s *Source) Validity() (from, until time.Time) {
	if s == nil {
		return time.Time{}, time.Time{}
	}
	leaf := s.state.Load().cert.Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// Server returns the config of a listener: TLS 1.3, own certificate, and a
// client certificate of the cluster's authority demanded and verified, of any
// role; Only narrows that, and Optional serves those without one. Who the client
// is tells RoleOf; VerifiedChains stays empty. It follows Reload. It returns nil
// for a nil Source.
func (s *Source) Server() *tls.Config {
	if s == nil {
		return nil
	}
	// ClientCAs has no callback and GetConfigForClient would hide the protocols
	// that gRPC and net/http add, so any certificate is taken at first and
	// verified in full by VerifyConnection with the present authorities. Without
	// tickets every connection shows a certificate.
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		DynamicRecordSizingDisabled: true, // small first records are for browsers
		ClientAuth:                  tls.RequireAnyClientCert,
		SessionTicketsDisabled:      true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.state.Load().cert, nil
		},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if err := s.verify(cs.PeerCertificates, "", x509.ExtKeyUsageClientAuth); err != nil {
				return fmt.Errorf("verify client: %w", err)
			}
			return nil
		},
	}
}

// Client returns the config of a dialler: TLS 1.3, own certificate shown to the
// server, and the server's verified against the cluster's authority and the name
// dialled (ServerName, which the caller or the library sets on a clone; ForHost
// for addresses); Only narrows whom it accepts. It follows Reload. It returns nil
// for a nil Source.
func (s *Source) Client() *tls.Config {
	if s == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:                  tls.VersionTLS13,
		DynamicRecordSizingDisabled: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return s.state.Load().cert, nil
		},
		// RootCAs has no callback either. The standard verification is switched
		// off and done in full by VerifyConnection with the present authorities.
		InsecureSkipVerify: true, //nolint:gosec // verified below
		VerifyConnection: func(cs tls.ConnectionState) error {
			if cs.ServerName == "" {
				return errors.New("verify server: no server name was set to verify against")
			}
			if err := s.verify(cs.PeerCertificates, cs.ServerName, x509.ExtKeyUsageServerAuth); err != nil {
				return fmt.Errorf("verify server %s: %w", cs.ServerName, err)
			}
			return nil
		},
	}
}
