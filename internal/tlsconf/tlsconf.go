package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
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
	files Files
	now   func() time.Time
	state atomic.Pointer[material]
}

// material is one reading of the files; it never changes.
type material struct {
	pool *x509.CertPool
	cert *tls.Certificate
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
// connections keep what they have. On an error the old material stays in use.
func (s *Source) Reload() error {
	if s == nil {
		return nil
	}
	m, err := read(s.files, s.now())
	if err != nil {
		return err
	}
	s.state.Store(m)
	return nil
}

// Server returns the config of a listener: TLS 1.3, own certificate, and a
// client certificate of the cluster's authority demanded and verified. Who the
// client is stands in ConnectionState.PeerCertificates[0]; VerifiedChains stays
// empty. It follows Reload. It returns nil for a nil Source.
func (s *Source) Server() *tls.Config {
	if s == nil {
		return nil
	}
	// ClientCAs has no callback and GetConfigForClient would hide the protocols
	// that gRPC and net/http add, so any certificate is taken at first and
	// verified in full by VerifyConnection with the present authorities.
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert,
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
// for addresses). It
// follows Reload. It returns nil for a nil Source.
func (s *Source) Client() *tls.Config {
	if s == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
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

// ForHost returns a copy of a dialler's config that verifies this host. Callers
// that dial addresses need it: crypto/tls does not tell VerifyConnection an IP
// address, because none is sent as a server name. A ServerName that is already
// set stays.
func ForHost(cfg *tls.Config, host string) *tls.Config {
	c := cfg.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	if inner, name := c.VerifyConnection, c.ServerName; inner != nil {
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			cs.ServerName = name
			return inner(cs)
		}
	}
	return c
}

// verify is the verification of crypto/tls, against the authorities of the last
// reload. name is the host that the certificate must be for, empty for any.
func (s *Source) verify(chain []*x509.Certificate, name string, usage x509.ExtKeyUsage) error {
	if len(chain) == 0 {
		return errors.New("it showed no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         s.state.Load().pool,
		Intermediates: intermediates,
		DNSName:       name,
		CurrentTime:   s.now(),
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	return err //nolint:wrapcheck // both callers wrap it with whom they verified
}

// read reads and checks all files.
func read(files Files, now time.Time) (*material, error) {
	pool, caErr := readPool(files.CAFile)
	cert, certErr := readPair(files.CertFile, files.KeyFile, now)
	if err := errors.Join(caErr, certErr); err != nil {
		return nil, err
	}
	return &material{pool: pool, cert: cert}, nil
}

func readPool(path string) (*x509.CertPool, error) {
	text, err := readFile("ca_file", path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file %s: must hold at least one certificate in PEM form", path)
	}
	return pool, nil
}

func readPair(certPath, keyPath string, now time.Time) (*tls.Certificate, error) {
	certText, certErr := readFile("cert_file", certPath)
	keyText, keyErr := readFile("key_file", keyPath)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("cert_file %s and key_file %s: must be a certificate and its private key in PEM form: %w", certPath, keyPath, err)
	}
	// X509KeyPair has parsed the leaf.
	if leaf := pair.Leaf; now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("cert_file %s: must be valid now, it ended on %s", certPath, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

// readFile reads one file; field is its key in the configuration.
func readFile(field, path string) ([]byte, error) {
	if path == "" {
		return nil, fmt.Errorf("%s: must be set: ca_file, cert_file and key_file go together", field)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%s: must be a readable file: %w", field, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s %s: must be a regular file of at most %d bytes", field, path, maxFileBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: must be a readable file: %w", field, err)
	}
	return text, nil
}
