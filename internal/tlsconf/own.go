package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
)

// Own returns the certificate that a config of this package shows now, nil for
// none. It is another pointer after each reload.
func Own(cfg *tls.Config) *x509.Certificate {
	if cfg == nil {
		return nil
	}
	var cert *tls.Certificate
	var err error
	switch {
	case cfg.GetClientCertificate != nil:
		cert, err = cfg.GetClientCertificate(&tls.CertificateRequestInfo{})
	case cfg.GetCertificate != nil:
		cert, err = cfg.GetCertificate(&tls.ClientHelloInfo{})
	}
	if err != nil || cert == nil {
		return nil
	}
	return cert.Leaf
}

// Explain makes the alert by which a peer refuses our certificate readable: TLS
// does not carry the reason, so the error names what we showed. Other errors are
// returned as they are. cfg is the one of the connection.
func Explain(cfg *tls.Config, err error) error {
	if err == nil || !isRefusedByPeer(err) {
		return err
	}
	leaf := Own(cfg)
	if leaf == nil {
		return fmt.Errorf("the peer demands a certificate, and there is none here: set ca_file, cert_file and key_file: %w", err)
	}
	return fmt.Errorf("the peer refuses this end's certificate (%s, valid from %s until %s, signed by %q); its log says why: %w",
		holder(leaf), stampText(leaf.NotBefore), stampText(leaf.NotAfter), clip(leaf.Issuer.CommonName), err)
}

// Explained returns a dialled conn whose errors are explained until the peer has
// said its first word. In TLS 1.3 a dialler learns only after the handshake that
// its certificate was refused: by an alert, or, when its own bytes have crossed
// with that, by a connection that breaks.
func Explained(conn net.Conn, cfg *tls.Config) net.Conn { return &explained{Conn: conn, cfg: cfg} }

type explained struct {
	net.Conn
	cfg   *tls.Config
	heard atomic.Bool
}

// Read reads.
func (c *explained) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, c.explain(err)
}

// Write writes.
func (c *explained) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.explain(err)
}

func (c *explained) explain(err error) error {
	if err == nil || c.heard.Load() {
		return err
	}
	if isRefusedByPeer(err) {
		return Explain(c.cfg, err)
	}
	leaf := Own(c.cfg)
	if leaf != nil && (errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return fmt.Errorf("the peer ended the connection without a word, as one does that refuses this end's certificate (%s, valid until %s, signed by %q); its log says why: %w",
			holder(leaf), stampText(leaf.NotAfter), clip(leaf.Issuer.CommonName), err)
	}
	return err
}

// isRefusedByPeer knows the alerts about certificates by their texts, as
// crypto/tls does not export their type; RFC 8446, section 6.2.
func isRefusedByPeer(err error) bool {
	var alert tls.AlertError
	text := err.Error()
	if !errors.As(err, &alert) && !strings.Contains(text, "remote error: tls: ") {
		return false
	}
	return strings.Contains(text, "certificate")
}
