package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

const (
	testApp   = model.AppID("app-20261130061500-0001")
	testToken = "token"
)

// cluster is a leader and its workers in this process: it starts real
// executors for the one application that registers.
type cluster struct {
	rpc.ClusterService // the rest is not called
	t                  *testing.T
	addr               string
	cores              []int // of the executors to start
	refuse             error // what a registration is answered with

	mu      sync.Mutex
	index   uint64
	spec    model.AppSpec
	list    map[model.ExecutorID]model.DriverExecutor
	kill    map[model.ExecutorID]context.CancelFunc
	next    model.ExecutorID
	finish  *rpc.FinishAppRequest
	ended   *model.DriverEnded
	changed chan struct{}
	running sync.WaitGroup // executors
}

func newCluster(t *testing.T, cores ...int) *cluster {
	t.Helper()
	c := &cluster{
		t: t, cores: cores, index: 1, changed: make(chan struct{}),
		list: map[model.ExecutorID]model.DriverExecutor{}, kill: map[model.ExecutorID]context.CancelFunc{},
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr = l.Addr().String()
	srv := rpc.NewServer(rpc.ServerConfig{Listener: l}, rpc.Services{Cluster: c, Drivers: c})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("cluster: %v", err)
		}
		c.mu.Lock()
		for _, kill := range c.kill {
			kill()
		}
		c.mu.Unlock()
		c.running.Wait()
	})
	return c
}

func (c *cluster) Staleness(context.Context) (model.Staleness, error) {
	return model.Staleness{AppliedIndex: 1, LeaderAddr: c.addr}, nil
}

func (c *cluster) RegisterApp(_ context.Context, _ rpc.CallInfo, spec model.AppSpec) (rpc.RegisterAppReply, error) {
	if err := spec.Validate(); err != nil {
		return rpc.RegisterAppReply{}, err
	}
	if c.refuse != nil {
		return rpc.RegisterAppReply{}, c.refuse
	}
	c.mu.Lock()
	c.spec = spec
	c.mu.Unlock()
	for _, n := range c.cores {
		c.launch(n)
	}
	return rpc.RegisterAppReply{App: testApp, Token: testToken, Index: 1, LeaderAddr: c.addr}, nil
}

func (c *cluster) FinishApp(_ context.Context, _ rpc.CallInfo, req rpc.FinishAppRequest) error {
	c.mu.Lock()
	c.finish = &req
	c.mu.Unlock()
	c.end(model.DriverEnded{State: req.State, Reason: req.Reason})
	return nil
}

func (c *cluster) end(e model.DriverEnded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = &e
	c.wakeLocked()
}

func (c *cluster) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *cluster) setLocked(e model.DriverExecutor) {
	c.index++
	e.Index = c.index
	c.list[e.ID] = e
	c.wakeLocked()
}

// launch starts an executor and returns its id.
func (c *cluster) launch(cores int) model.ExecutorID {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	secret := model.Secret(fmt.Sprintf("secret-%d", id))
	c.setLocked(model.DriverExecutor{
		ID: id, Worker: "w", Host: "h", Cores: cores, MemoryMiB: 512,
		State: model.ExecutorRunning, Secret: secret, ExitCode: -1,
	})
	ctx, cancel := context.WithCancel(context.Background())
	c.kill[id] = cancel
	cfg := executor.Config{
		App: testApp, Executor: id, DriverAddr: c.spec.DriverAddr, Secret: secret, Cores: cores, Host: "h",
		Worker: "w", WorkDir: c.t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"},
		TLS: tlsconf.Pinned(c.spec.DriverCert),
	}
	c.running.Go(func() {
		err := executor.Run(ctx, cfg)
		// Cut off when the driver does not end it first; never for a fault.
		if err != nil && !errors.Is(err, model.ErrUnavailable) && !errors.Is(err, model.ErrEnded) {
			c.t.Errorf("executor %d: %v", id, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.setLocked(model.DriverExecutor{ID: id, State: model.ExecutorLost, Reason: "it has ended"})
	})
	return id
}

// DriverSession sends every executor, and each change.
func (c *cluster) DriverSession(ctx context.Context, s rpc.DriverSessionStream) error {
	if first, err := s.Recv(); err != nil || first.Hello == nil || first.Hello.Token != testToken {
		return errors.Join(model.ErrUnauthenticated, err)
	}
	beats := make(chan *model.Beat)
	go func() {
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case beats <- m.Beat:
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := s.Send(model.DriverDown{Executors: &model.DriverExecutors{BeatMilli: 200}}); err != nil {
		return err
	}
	sent := map[model.ExecutorID]uint64{}
	for {
		c.mu.Lock()
		var out []model.DriverDown
		for id, e := range c.list {
			if sent[id] != e.Index {
				sent[id] = e.Index
				out = append(out, model.DriverDown{Change: &e})
			}
		}
		ended, changed := c.ended, c.changed
		c.mu.Unlock()
		if ended != nil {
			return s.Send(model.DriverDown{Ended: ended})
		}
		for _, m := range out {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case b := <-beats:
			if b == nil {
				continue
			}
			if err := s.Send(model.DriverDown{BeatAck: b}); err != nil {
				return err
			}
		}
	}
}

// finished is what the cluster was told at the end.
func (c *cluster) finished() rpc.FinishAppRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finish == nil {
		return rpc.FinishAppRequest{}
	}
	return *c.finish
}

// ran is what came of a run.
type ran struct {
	sum            Summary
	code           int
	err            error
	stdout, stderr string
}

// runOn runs options on a cluster.
func runOn(ctx context.Context, t *testing.T, c *cluster, o Options, change func(*Deps)) ran {
	t.Helper()
	cl, err := client.New(client.Config{Masters: []string{c.addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var out, errs bytes.Buffer
	deps := Deps{Client: cl, Masters: []string{c.addr}, Stdout: &out, Stderr: &errs, Stdin: strings.NewReader("")}
	if change != nil {
		change(&deps)
	}
	result := make(chan ran, 1)
	go func() {
		var r ran
		r.sum, r.code, r.err = Run(ctx, o, deps)
		result <- r
	}()
	select {
	case r := <-result:
		r.stdout, r.stderr = out.String(), errs.String()
		return r
	case <-time.After(patience):
		t.Fatal("the run does not end")
		return ran{}
	}
}
