//go:build linux

package testcluster

import (
	"context"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// callBound is how long a call of a scenario may take: longer than a failover of any kind.
const callBound = time.Minute

// Client talks to the cluster from the host "client". It knows the given masters, all expected ones if none is given.
func (c *Cluster) Client(masters ...*Master) *client.Client {
	c.t.Helper()
	return c.ClientOn("client", masters...)
}

// ClientOn is Client on another host.
func (c *Cluster) ClientOn(host string, masters ...*Master) *client.Client {
	c.t.Helper()
	var addrs []string
	for _, m := range masters {
		addrs = append(addrs, fmt.Sprintf("%s:%d", c.Addr(m.Host), masterGRPC))
	}
	for i := 0; len(masters) == 0 && i < c.Expect; i++ {
		addrs = append(addrs, fmt.Sprintf("%s:%d", c.Addr(fmt.Sprintf("m%d", i+1)), masterGRPC))
	}
	cl, err := client.New(client.Config{
		Masters: addrs, Dialer: c.Net.Host(host).Dial,
		Rand: randv2.New(randv2.NewPCG(c.Rand.Uint64(), c.Rand.Uint64())), //nolint:gosec // replayable on purpose
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.clients = append(c.clients, cl)
	return cl
}

// Submit registers an application, which must succeed, and returns its id.
func (c *Cluster) Submit(spec model.AppSpec) model.AppID {
	c.t.Helper()
	app, err := c.TrySubmit(c.Client(), spec, callBound)
	if err != nil {
		c.t.Fatalf("submit %s: %v", spec.Name, err)
	}
	return app
}

// TrySubmit registers an application and notes the answer, or that there was none, for the check at the end. Names must
// differ. Safe for concurrent use.
func (c *Cluster) TrySubmit(cl *client.Client, spec model.AppSpec, limit time.Duration) (model.AppID, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	id := cl.NewRequestID()
	reply, err := cl.RegisterAppWithID(ctx, id, spec)
	c.books.submitted(submission{name: spec.Name, request: id, app: reply.App, err: err})
	return reply.App, err
}

// Kill ends an application, which must succeed.
func (c *Cluster) Kill(app model.AppID) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callBound)
	defer cancel()
	if err := c.Client().KillApp(ctx, app, "test"); err != nil {
		c.t.Fatalf("kill %s: %v", app, err)
	}
}

// Driver is a running driver on a machine of its own.
type Driver struct {
	*driver.Driver
	Host string

	proc *process
}

// StartDriver starts a driver with n executors of one core and waits until its application is registered.
func (c *Cluster) StartDriver(name string, n int) *Driver {
	c.t.Helper()
	host := fmt.Sprintf("d%d", len(c.drivers)+1)
	spec := model.AppSpec{
		Name: name, CoresMax: n, Executors: model.TargetUnlimited, Profile: model.Profile{Cores: 1, MemoryMiB: 64},
	}
	d, err := driver.New(driver.Config{
		Client: c.ClientOn(host), Spec: spec, Listen: c.Addr(host) + ":0", ListenOn: c.Net.Host(host).Listen,
		Logger: c.log.Named(host),
	})
	if err != nil {
		c.t.Fatalf("driver %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	dr := &Driver{Driver: d, Host: host}
	dr.proc = begin(host, cancel, func() error { return d.Run(ctx) })
	c.drivers = append(c.drivers, dr)
	c.Until("driver "+name+" is registered", callBound, func() error {
		if d.App() == "" {
			return errors.New("no application yet")
		}
		return nil
	})
	return dr
}

// Ended says whether the driver has ended.
func (d *Driver) Ended() bool { return d.proc.ended() }

// Do runs one task and waits for its result.
func (c *Cluster) Do(d *Driver, limit time.Duration, argv ...string) driver.Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	id, err := d.Submit(ctx, driver.Task{Argv: argv})
	if err != nil {
		c.t.Fatalf("submit a task to %s: %v", d.Host, err)
	}
	select {
	case r, ok := <-d.Results():
		if !ok || r.ID != id {
			c.t.Fatalf("result %+v, want that of task %d", r, id)
		}
		return r
	case <-ctx.Done():
		c.t.Fatalf("task %d has no result after %s", id, limit)
	}
	return driver.Result{}
}
