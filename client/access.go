package client

import (
	"context"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// CreateToken has a token accepted from now on. Its secret stays with the caller.
func (c *Client) CreateToken(ctx context.Context, req rpc.CreateTokenRequest) error {
	return c.mutate(ctx, "create token for "+req.Name, c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			access, err := rpc.AccessOf(svc)
			if err != nil {
				return err
			}
			return access.CreateToken(ctx, info, req)
		})
}

// RevokeToken has a token refused from now on.
func (c *Client) RevokeToken(ctx context.Context, id model.TokenID) error {
	return c.mutate(ctx, "revoke "+string(id), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			access, err := rpc.AccessOf(svc)
			if err != nil {
				return err
			}
			return access.RevokeToken(ctx, info, id)
		})
}

// Tokens lists the tokens of people from any master's replica.
func (c *Client) Tokens(ctx context.Context) ([]model.TokenView, error) {
	var out []model.TokenView
	err := c.read(ctx, "list tokens", func(ctx context.Context, svc rpc.ClusterService) error {
		access, err := rpc.AccessOf(svc)
		if err != nil {
			return err
		}
		out, err = access.Tokens(ctx)
		return err
	})
	return out, err
}

// Audit reads the audit trail from any master's replica.
func (c *Client) Audit(ctx context.Context, req rpc.AuditRequest) (rpc.AuditReply, error) {
	var out rpc.AuditReply
	err := c.read(ctx, "read the audit trail", func(ctx context.Context, svc rpc.ClusterService) error {
		access, err := rpc.AccessOf(svc)
		if err != nil {
			return err
		}
		out, err = access.Audit(ctx, req)
		return err
	})
	return out, err
}
