package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"time"
)

// stamp tells whether files have changed since they were read.
type stamp [4]struct {
	modified time.Time
	size     int64
}

// stampOf never fails: a file that cannot be looked at has no time, and reading it says why.
func stampOf(files Files) stamp {
	var s stamp
	for i, path := range []string{files.CAFile, files.CertFile, files.KeyFile, revokedPath(files.CAFile)} {
		if info, err := os.Stat(path); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

func stampText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// read reads and checks all files.
func read(files Files, now time.Time) (*material, error) {
	// Taken first: a file that changes while it is read is read again.
	mark := stampOf(files)
	authorities, caErr := readAuthorities(files.CAFile)
	cert, certErr := readPair(files.CertFile, files.KeyFile, now)
	if err := errors.Join(caErr, certErr); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a)
	}
	m := &material{pool: pool, authorities: authorities, cert: cert, stamp: mark}
	var err error
	if m.revoked, err = readRevoked(files.CAFile, authorities); err != nil {
		return nil, err
	}
	if m.self, err = IdentityOf(cert.Leaf); err != nil {
		return nil, fmt.Errorf("cert_file %s: %w", files.CertFile, err)
	}
	if m.self.Role == RoleDriver {
		return m, nil // no authority signs it
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, fmt.Errorf("cert_file %s: must be signed by an authority in ca_file %s, which peers of this cluster trust: %w", files.CertFile, files.CAFile, err)
	}
	return m, nil
}

// readAuthorities returns the certificates of a file, at least one.
func readAuthorities(path string) ([]*x509.Certificate, error) {
	text, err := readFile("ca_file", path)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("ca_file %s: certificate %d: %w", path, len(out)+1, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("ca_file %s: must hold at least one certificate in PEM form", path)
	}
	return out, nil
}

// checkPrivate returns an error unless only its user can read a key.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("key_file: must be a readable file: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("key_file %s: must be readable by its user only (mode %04o): chmod 600 %s, and if others could read it, issue a new one", path, mode, path)
	}
	return nil
}

func readPair(certPath, keyPath string, now time.Time) (*tls.Certificate, error) {
	certText, certErr := readFile("cert_file", certPath)
	keyText, keyErr := readFile("key_file", keyPath)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	if err := checkPrivate(keyPath); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, fmt.Errorf("cert_file %s and key_file %s: must be a certificate and its private key in PEM form: %w", certPath, keyPath, err)
	}
	// X509KeyPair has parsed the leaf.
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return nil, fmt.Errorf("cert_file %s: must be valid now, it ended on %s: renew it with hearth ca renew", certPath, stampText(leaf.NotAfter))
	case now.Before(leaf.NotBefore):
		return nil, fmt.Errorf("cert_file %s: must be valid now, it begins on %s and it is %s: set the clock of this machine", certPath, stampText(leaf.NotBefore), stampText(now))
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
