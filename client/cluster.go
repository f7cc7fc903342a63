package client

import (
	"context"
	"errors"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// maxRenewals bounds how often a call whose base proved too old is made again
// with a newer one.
const maxRenewals = 3

// mutate makes a call that changes the cluster, once, under requestID.
func (c *Client) mutate(ctx context.Context, what, requestID string, fn func(context.Context, rpc.ClusterService, rpc.CallInfo) error) error {
	for renewal := 0; ; renewal++ {
		base, err := c.ensureBase(ctx, what, renewal > 0)
		if err != nil {
			return err
		}
		info := rpc.CallInfo{RequestID: requestID, Base: base, Principal: c.cfg.Principal}
		err = c.loop(ctx, c.leader, call{
			what: what, timeout: AttemptTimeout, identified: true,
			fn: func(ctx context.Context, svc rpc.ClusterService) error { return fn(ctx, svc, info) },
		})
		// Expired and known not to have been applied: a client that lived
		// long without a call has an old base.
		if !errors.Is(err, model.ErrRequestExpired) || errors.Is(err, model.ErrOutcomeUnknown) || renewal >= maxRenewals {
			return err
		}
	}
}

// ensureBase returns an applied index from before the call.
func (c *Client) ensureBase(ctx context.Context, what string, renew bool) (uint64, error) {
	if base := c.knownBase(); base > 0 && !renew {
		return base, nil
	}
	err := c.read(ctx, what, func(ctx context.Context, svc rpc.ClusterService) error {
		st, err := svc.Staleness(ctx)
		if err != nil {
			return err
		}
		c.sawIndex(st.AppliedIndex)
		c.leader.Hint(st.LeaderAddr)
		return nil
	})
	return c.knownBase(), err
}

// read makes a call that any master answers.
func (c *Client) read(ctx context.Context, what string, fn attemptFunc) error {
	return c.loop(ctx, c.reader, call{what: what, timeout: AttemptTimeout, readOnly: true, impatient: true, fn: fn})
}

// RegisterApp registers an application under a new request id.
func (c *Client) RegisterApp(ctx context.Context, spec model.AppSpec) (rpc.RegisterAppReply, error) {
	return c.RegisterAppWithID(ctx, c.NewRequestID(), spec)
}

// RegisterAppWithID registers an application. Calls with the same request id
// get the same application, whoever makes them.
func (c *Client) RegisterAppWithID(ctx context.Context, requestID string, spec model.AppSpec) (rpc.RegisterAppReply, error) {
	spec = c.owned(spec)
	var out rpc.RegisterAppReply
	err := c.mutate(ctx, "register application "+spec.Name, requestID,
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) (err error) {
			out, err = svc.RegisterApp(ctx, info, spec)
			return err
		})
	if err != nil {
		return rpc.RegisterAppReply{}, err
	}
	c.sawIndex(out.Index)
	c.leader.Hint(out.LeaderAddr)
	return out, nil
}

// FinishApp ends an application on its driver's word.
func (c *Client) FinishApp(ctx context.Context, req rpc.FinishAppRequest) error {
	return c.mutate(ctx, "finish application "+string(req.App), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.FinishApp(ctx, info, req)
		})
}

// KillApp ends an application as KILLED.
func (c *Client) KillApp(ctx context.Context, app model.AppID, reason string) error {
	return c.mutate(ctx, "kill application "+string(app), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.KillApp(ctx, info, app, reason)
		})
}

// KillExecutors ends executors; a kept target refills them.
func (c *Client) KillExecutors(ctx context.Context, req rpc.KillExecutorsRequest) error {
	return c.mutate(ctx, "kill executors of "+string(req.App), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.KillExecutors(ctx, info, req)
		})
}

// SetTargets sets absolute executor totals per profile.
func (c *Client) SetTargets(ctx context.Context, req rpc.SetTargetsRequest) error {
	return c.mutate(ctx, "set executor targets of "+string(req.App), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.SetTargets(ctx, info, req)
		})
}

// SetSettings changes the named settings.
func (c *Client) SetSettings(ctx context.Context, values map[string]string) error {
	return c.mutate(ctx, "set settings", c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.SetSettings(ctx, info, values)
		})
}

// RemoveMaster takes a master out of the Raft configuration.
func (c *Client) RemoveMaster(ctx context.Context, id model.MasterID) error {
	return c.mutate(ctx, "remove master "+string(id), c.NewRequestID(),
		func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
			return svc.RemoveMaster(ctx, info, id)
		})
}

// TransferLeadership moves leadership; "" = to the best follower. It carries no
// request id and is not repeated once it may have been done.
func (c *Client) TransferLeadership(ctx context.Context, to model.MasterID) error {
	return c.loop(ctx, c.leader, call{
		what: "transfer leadership", timeout: transferTimeout,
		fn: func(ctx context.Context, svc rpc.ClusterService) error { return svc.TransferLeadership(ctx, to) },
	})
}

// Status answers from any master's replica.
func (c *Client) Status(ctx context.Context) (model.ClusterView, error) {
	var out model.ClusterView
	err := c.read(ctx, "cluster status", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.Status(ctx)
		return err
	})
	return out, err
}

// Staleness says how far the answering master's replica is and who leads.
func (c *Client) Staleness(ctx context.Context) (model.Staleness, error) {
	var out model.Staleness
	err := c.read(ctx, "ask a master for its state", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.Staleness(ctx)
		return err
	})
	return out, err
}

// Apps lists applications from any master's replica.
func (c *Client) Apps(ctx context.Context, req rpc.AppsRequest) (rpc.AppsReply, error) {
	var out rpc.AppsReply
	err := c.read(ctx, "list applications", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.Apps(ctx, req)
		return err
	})
	return out, err
}

// Workers lists workers from any master's replica.
func (c *Client) Workers(ctx context.Context) (rpc.WorkersReply, error) {
	var out rpc.WorkersReply
	err := c.read(ctx, "list workers", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.Workers(ctx)
		return err
	})
	return out, err
}

// Settings reads the replicated settings from any master's replica.
func (c *Client) Settings(ctx context.Context) (model.Settings, error) {
	var out model.Settings
	err := c.read(ctx, "read settings", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.Settings(ctx)
		return err
	})
	return out, err
}

// RaftServers lists the members of the Raft configuration, from the leader.
func (c *Client) RaftServers(ctx context.Context) ([]model.MasterView, error) {
	var out []model.MasterView
	err := c.loop(ctx, c.leader, call{
		what: "list Raft servers", timeout: AttemptTimeout, readOnly: true,
		fn: func(ctx context.Context, svc rpc.ClusterService) (err error) {
			out, err = svc.RaftServers(ctx)
			return err
		},
	})
	return out, err
}

// GossipKeys asks all members of gossip, through any master, which keys they have.
func (c *Client) GossipKeys(ctx context.Context) (model.GossipKeysView, error) {
	var out model.GossipKeysView
	err := c.read(ctx, "list gossip keys", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.GossipKeys(ctx)
		return err
	})
	return out, err
}

// ChangeGossipKeys installs, uses or removes a key of gossip on all members,
// through any master. The same order given twice is as one.
func (c *Client) ChangeGossipKeys(ctx context.Context, o model.GossipKeyOrder) (model.GossipKeysView, error) {
	var out model.GossipKeysView
	err := c.read(ctx, string(o.Action)+" a gossip key", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.ChangeGossipKeys(ctx, o)
		return err
	})
	return out, err
}

// GossipMembers lists what the answering master's gossip sees.
func (c *Client) GossipMembers(ctx context.Context) ([]model.GossipMemberView, error) {
	var out []model.GossipMemberView
	err := c.read(ctx, "list gossip members", func(ctx context.Context, svc rpc.ClusterService) (err error) {
		out, err = svc.GossipMembers(ctx)
		return err
	})
	return out, err
}
