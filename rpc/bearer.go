package rpc

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/hearthd/hearth/model"
)

// bearer sends a token with each call on a connection.
type bearer struct{ token model.Secret }

var _ credentials.PerRPCCredentials = bearer{}

// GetRequestMetadata is the header of a call.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{mdAuthorization: bearerScheme + b.token.Reveal()}, nil
}

// RequireTransportSecurity is false: Dial has refused what must not be sent in
// the clear, and knows loopback.
func (bearer) RequireTransportSecurity() bool { return false }

// onLoopback reports whether an address cannot leave this machine. A name other
// than localhost is not looked up: what it means may change.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
