package client

import (
	"context"
	"errors"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Why says why an application or driver waits, from any master's replica; one
// that lags may not know it yet: then the leader is asked. The id may be a
// unique prefix.
func (c *Client) Why(ctx context.Context, id string) (model.Why, error) {
	var out model.Why
	what := "explain " + id
	ask := func(ctx context.Context, svc rpc.ClusterService) error {
		explain, err := rpc.ExplainOf(svc)
		if err != nil {
			return err
		}
		out, err = explain.Why(ctx, id)
		return err
	}
	err := c.read(ctx, what, ask)
	if errors.Is(err, model.ErrNotFound) && c.leaderKnows(ctx, id) {
		err = c.loop(ctx, c.leader, call{what: what, timeout: AttemptTimeout, readOnly: true, fn: ask})
	}
	return out, err
}

// leaderKnows reports whether the leader knows an application or driver that a
// replica does not: one that lags, or has just started. After it c.leader begins
// with the leader.
func (c *Client) leaderKnows(ctx context.Context, id string) bool {
	// Without a leader the replica's word is the best there is.
	ctx, cancel := context.WithTimeout(ctx, AttemptTimeout)
	defer cancel()
	var err error
	if model.IsDriver(model.AppID(id)) {
		_, err = c.driver(ctx, c.leader, rpc.DriverRequest{ID: id, Strong: true})
	} else {
		_, err = c.strongApp(ctx, id)
	}
	if err != nil {
		return false
	}
	// A standby may have passed the question on.
	if st, err := c.Staleness(ctx); err == nil && st.LeaderAddr != "" {
		c.leader.Hint(st.LeaderAddr)
	}
	return true
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
