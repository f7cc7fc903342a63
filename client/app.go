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
	if req.Strong {
		return c.strongApp(ctx, req.ID)
	}
	var out model.AppView
	err := c.read(ctx, "describe application "+req.ID, func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.App(ctx, req)
		return err
	})
	if errors.Is(err, model.ErrNotFound) {
		// Without a leader the replica's word is the best there is.
		ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
		defer cancel()
		view, serr := c.strongApp(ctx, req.ID)
		if serr == nil || errors.Is(serr, model.ErrNotFound) {
			return view, serr
		}
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
	what := "wait for application " + string(app)
	for {
		var out model.AppView
		err := c.loop(ctx, c.reader, call{
			what: what, timeout: WaitSlice, readOnly: true,
			fn: func(ctx context.Context, svc rpc.ClusterService) (err error) {
				out, err = svc.WaitApp(ctx, rpc.WaitAppRequest{App: app, After: after})
				return err
			},
		})
		switch {
		case err == nil && (out.ChangeIndex > after || out.Terminal):
			return out, nil
		case err == nil:
			// The end of the slice came as an answer without change.
		case !errors.Is(err, model.ErrNotFound):
			return model.AppView{}, err
		default:
			if _, serr := c.strongApp(ctx, string(app)); serr != nil {
				return model.AppView{}, serr
			}
			// It exists: the replica lags.
		}
		if err := c.pause(ctx, what); err != nil {
			return model.AppView{}, err
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
