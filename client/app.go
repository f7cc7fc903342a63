package client

import (
	"context"
	"errors"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// App describes one application, its executors included. A replica that lags
// may not know it yet: then the leader is asked.
func (c *Client) App(ctx context.Context, req rpc.AppRequest) (model.AppView, error) {
	strong := func(ctx context.Context) (model.AppView, error) { return c.strongApp(ctx, req.ID) }
	if req.Strong {
		return strong(ctx)
	}
	var out model.AppView
	err := c.read(ctx, "describe application "+req.ID, func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.App(ctx, req)
		return err
	})
	return orOfLeader(ctx, out, err, strong)
}

// orOfLeader is what a replica answered, but what the leader says if the replica
// did not find it. Without a leader the replica's word is the best there is.
func orOfLeader[V any](ctx context.Context, out V, err error, strong func(context.Context) (V, error)) (V, error) {
	if !errors.Is(err, model.ErrNotFound) {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	view, serr := strong(ctx)
	if serr == nil || errors.Is(serr, model.ErrNotFound) {
		return view, serr
	}
	return out, err
}

func (c *Client) strongApp(ctx context.Context, id string) (model.AppView, error) {
	var out model.AppView
	err := c.loop(ctx, c.leader, call{
		what: "describe application " + id, timeout: AttemptTimeout, readOnly: true,
		fn: func(ctx context.Context, svc rpc.ClusterService) (err error) {
			out, err = svc.App(ctx, rpc.AppRequest{ID: id, Strong: true})
			return err
		},
	})
	return out, err
}

// WaitApp blocks until the application's ChangeIndex is above after or it has
// ended, and describes it then. Failing masters are replaced by others.
func (c *Client) WaitApp(ctx context.Context, app model.AppID, after uint64) (model.AppView, error) {
	return waitView(ctx, c, "wait for application "+string(app),
		func(ctx context.Context, svc rpc.ClusterService) (v model.AppView, moved bool, err error) {
			v, err = svc.WaitApp(ctx, rpc.WaitAppRequest{App: app, After: after})
			return v, v.ChangeIndex > after || v.Terminal, err
		},
		func(ctx context.Context) (model.AppView, error) { return c.strongApp(ctx, string(app)) })
}

// waitView repeats a wait at the masters until what it describes has moved. strong
// asks the leader, for a replica that lags may not know it yet.
func waitView[V any](ctx context.Context, c *Client, what string,
	wait func(context.Context, rpc.ClusterService) (v V, moved bool, err error), strong func(context.Context) (V, error),
) (V, error) {
	var none V
	for {
		var out V
		var moved bool
		err := c.loop(ctx, c.reader, call{
			what: what, timeout: WaitSlice, readOnly: true,
			fn: func(ctx context.Context, svc rpc.ClusterService) (err error) {
				out, moved, err = wait(ctx, svc)
				return err
			},
		})
		switch {
		case err == nil && moved:
			return out, nil
		case err == nil:
			// The end of the slice came as an answer without change.
		case !errors.Is(err, model.ErrNotFound):
			return none, err
		default:
			if _, serr := strong(ctx); serr != nil {
				return none, serr
			}
			// It exists: the replica lags.
		}
		if err := c.pause(ctx, what); err != nil {
			return none, err
		}
	}
}

// WaitEnded blocks until the application has ended.
func (c *Client) WaitEnded(ctx context.Context, app model.AppID) (model.AppView, error) {
	var after uint64
	for {
		view, err := c.WaitApp(ctx, app, after)
		if err != nil || view.Terminal {
			return view, err
		}
		after = view.ChangeIndex
	}
}
