package client

import (
	"context"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Why says why an application or driver waits, from any master's replica. The
// id may be a unique prefix.
func (c *Client) Why(ctx context.Context, id string) (model.Why, error) {
	var out model.Why
	err := c.read(ctx, "explain "+id, func(ctx context.Context, svc rpc.ClusterService) error {
		explain, err := rpc.ExplainOf(svc)
		if err != nil {
			return err
		}
		out, err = explain.Why(ctx, id)
		return err
	})
	return out, err
}

// Waiting lists what waits, from any master's replica.
func (c *Client) Waiting(ctx context.Context) (model.WaitingView, error) {
	var out model.WaitingView
	err := c.read(ctx, "list what waits", func(ctx context.Context, svc rpc.ClusterService) error {
		explain, err := rpc.ExplainOf(svc)
		if err != nil {
			return err
		}
		out, err = explain.Waiting(ctx)
		return err
	})
	return out, err
}
