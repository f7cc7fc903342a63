package rpc

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// explainedCredentials are gRPC's own, except that a server which refuses the
// certificate of this end is an error that says which certificate that was: with
// TLS 1.3 it comes after the handshake, as an alert without a reason.
type explainedCredentials struct {
	credentials.TransportCredentials
	cfg *tls.Config
}

func clientCredentials(cfg *tls.Config) credentials.TransportCredentials {
	return explainedCredentials{credentials.NewTLS(cfg), cfg}
}

// ClientHandshake makes the handshake of a dialled connection.
func (c explainedCredentials) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, tlsconf.Explain(c.cfg, err)
	}
	return tlsconf.Explained(conn, c.cfg), info, nil
}

// Clone copies them.
func (c explainedCredentials) Clone() credentials.TransportCredentials {
	return explainedCredentials{c.TransportCredentials.Clone(), c.cfg}
}
