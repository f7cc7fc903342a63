package rpc

import (
	"context"

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
