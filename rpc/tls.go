package rpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// explainedCredentials are gRPC's own, except that connections end with the
// certificate of the peer, and that a server which refuses the certificate of
// this end is an error that says which certificate that was: with TLS 1.3 it
// comes after the handshake, as an alert without a reason.
type explainedCredentials struct {
	credentials.TransportCredentials
	cfg *tls.Config
	met func(peer *x509.Certificate) // told of each dialled connection, if it is set
}

func credentialsOf(cfg *tls.Config, met func(peer *x509.Certificate)) credentials.TransportCredentials {
	return explainedCredentials{credentials.NewTLS(cfg), cfg, met}
}

// ClientHandshake makes the handshake of a dialled connection.
func (c explainedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, tlsconf.Explain(c.cfg, err)
	}
	if agreed, ok := info.(credentials.TLSInfo); ok && c.met != nil && len(agreed.State.PeerCertificates) > 0 {
		c.met(agreed.State.PeerCertificates[0])
	}
	return follow(tlsconf.Explained(conn, c.cfg), c.cfg, info), info, nil
}

// ServerHandshake makes the handshake of an accepted connection.
func (c explainedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return follow(conn, c.cfg, info), info, nil
}

func follow(conn net.Conn, cfg *tls.Config, info credentials.AuthInfo) net.Conn {
	agreed, ok := info.(credentials.TLSInfo)
	if !ok {
		return conn
	}
	return tlsconf.Follow(conn, cfg, func() tls.ConnectionState { return agreed.State })
}

// Clone copies them.
func (c explainedCredentials) Clone() credentials.TransportCredentials {
	return explainedCredentials{c.TransportCredentials.Clone(), c.cfg, c.met}
}
