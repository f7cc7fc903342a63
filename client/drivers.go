package client

import (
	"context"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// DriverFromEnv is the driver in cluster mode that a process with this
// environment is, or was started by: what a worker gives its drivers. "" = none.
func DriverFromEnv(env []string) (id model.DriverID, attempt int) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "HEARTH_DRIVER_ID="); ok {
			id = model.DriverID(v)
		}
		if v, ok := strings.CutPrefix(kv, "HEARTH_DRIVER_ATTEMPT="); ok {
			attempt, _ = strconv.Atoi(v) // not a number: 0, which is no attempt
		}
	}
	if _, err := id.Number(); err != nil || attempt < 1 {
		return "", 0
	}
	return id, attempt
}

// owned says on an application which driver in cluster mode registers it.
func (c *Client) owned(spec model.AppSpec) model.AppSpec {
	if spec.Driver == "" {
		spec.Driver, spec.Attempt = c.cfg.Driver, c.cfg.Attempt
	}
	return spec
}

// SubmitDriver submits a driver in cluster mode under a new request id. The
// answer says nothing about its start.
func (c *Client) SubmitDriver(ctx context.Context, spec model.DriverSpec) (rpc.SubmitDriverReply, error) {
	return c.SubmitDriverWithID(ctx, c.NewRequestID(), spec)
}

// SubmitDriverWithID submits a driver. Calls with the same request id get the
// same driver, whoever makes them.
func (c *Client) SubmitDriverWithID(ctx context.Context, requestID string, spec model.DriverSpec) (rpc.SubmitDriverReply, error) {
	var out rpc.SubmitDriverReply
	err := c.mutateDrivers(ctx, "submit driver "+spec.Name, requestID,
		func(ctx context.Context, svc rpc.DriversService, info rpc.CallInfo) (err error) {
			out, err = svc.SubmitDriver(ctx, info, spec)
			return err
		})
	if err != nil {
		return rpc.SubmitDriverReply{}, err
	}
	c.sawIndex(out.Index)
	c.leader.Hint(out.LeaderAddr)
	return out, nil
}

// KillDriver ends a driver: one that waits at once, another one once its process
// is gone.
func (c *Client) KillDriver(ctx context.Context, id model.DriverID, reason string) error {
	return c.mutateDrivers(ctx, "kill driver "+string(id), c.NewRequestID(),
		func(ctx context.Context, svc rpc.DriversService, info rpc.CallInfo) error {
			return svc.KillDriver(ctx, info, id, reason)
		})
}

// KillDrivers ends every driver that the caller may end.
func (c *Client) KillDrivers(ctx context.Context, reason string) error {
	return c.mutateDrivers(ctx, "kill all drivers", c.NewRequestID(),
		func(ctx context.Context, svc rpc.DriversService, info rpc.CallInfo) error {
			return svc.KillDrivers(ctx, info, reason)
		})
}

func (c *Client) mutateDrivers(ctx context.Context, what, requestID string, fn func(context.Context, rpc.DriversService, rpc.CallInfo) error) error {
	return c.mutate(ctx, what, requestID, func(ctx context.Context, svc rpc.ClusterService, info rpc.CallInfo) error {
		drivers, err := rpc.DriversOf(svc)
		if err != nil {
			return err
		}
		return fn(ctx, drivers, info)
	})
}

// Drivers lists drivers in cluster mode from any master's replica.
func (c *Client) Drivers(ctx context.Context, req rpc.DriversRequest) (rpc.DriversReply, error) {
	var out rpc.DriversReply
	err := c.read(ctx, "list drivers", func(ctx context.Context, svc rpc.ClusterService) error {
		drivers, err := rpc.DriversOf(svc)
		if err != nil {
			return err
		}
		out, err = drivers.Drivers(ctx, req)
		return err
	})
	return out, err
}

// Driver describes one driver, its attempts included. A replica that lags may not
// know it yet: then the leader is asked.
func (c *Client) Driver(ctx context.Context, id string) (model.DriverView, error) {
	out, err := c.driver(ctx, c.reader, rpc.DriverRequest{ID: id})
	return orOfLeader(ctx, out, err, func(ctx context.Context) (model.DriverView, error) { return c.strongDriver(ctx, id) })
}

func (c *Client) strongDriver(ctx context.Context, id string) (model.DriverView, error) {
	return c.driver(ctx, c.leader, rpc.DriverRequest{ID: id, Strong: true})
}

func (c *Client) driver(ctx context.Context, f *LeaderFinder, req rpc.DriverRequest) (model.DriverView, error) {
	var out model.DriverView
	err := c.loop(ctx, f, call{
		what: "describe driver " + req.ID, timeout: AttemptTimeout, readOnly: true, impatient: !req.Strong,
		fn: func(ctx context.Context, svc rpc.ClusterService) error {
			drivers, err := rpc.DriversOf(svc)
			if err != nil {
				return err
			}
			out, err = drivers.Driver(ctx, req)
			return err
		},
	})
	return out, err
}

// WaitDriver blocks until the driver's ChangeIndex is above after or it has
// ended, and describes it then. Failing masters are replaced by others.
func (c *Client) WaitDriver(ctx context.Context, id model.DriverID, after uint64) (model.DriverView, error) {
	return waitView(ctx, c, "wait for driver "+string(id),
		func(ctx context.Context, svc rpc.ClusterService) (v model.DriverView, moved bool, err error) {
			drivers, err := rpc.DriversOf(svc)
			if err != nil {
				return v, false, err
			}
			v, err = drivers.WaitDriver(ctx, rpc.WaitDriverRequest{ID: id, After: after})
			return v, v.ChangeIndex > after || v.Terminal, err
		},
		func(ctx context.Context) (model.DriverView, error) { return c.strongDriver(ctx, string(id)) })
}
