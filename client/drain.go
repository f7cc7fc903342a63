package client

import (
	"context"

	"github.com/hearthd/hearth/rpc"
)

// DrainWorkers takes workers out of service and says which; naming one that is
// drained gives it new terms.
func (c *Client) DrainWorkers(ctx context.Context, req rpc.DrainRequest) (rpc.DrainReply, error) {
	var out rpc.DrainReply
	err := c.mutate(ctx, "drain workers", c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) (err error) {
			out, err = svc.DrainWorkers(ctx, info, req)
			return err
		})
	return out, err
}

// UndrainWorkers puts workers into service again.
func (c *Client) UndrainWorkers(ctx context.Context, workers rpc.WorkerChoice) (rpc.DrainReply, error) {
	var out rpc.DrainReply
	err := c.mutate(ctx, "undrain workers", c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) (err error) {
			out, err = svc.UndrainWorkers(ctx, info, workers)
			return err
		})
	return out, err
}
