package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

const (
	testApp   = model.AppID("app-20261130061500-0001")
	testToken = "token"
)

// cluster is a leader that tests play by hand: registration and the driver
// session over real gRPC.
type cluster struct {
	rpc.ClusterService // the rest is not called
	t                  testing.TB
	addr               string

	mu        sync.Mutex
	index     uint64
	specs     []model.AppSpec
	requests  map[string]int
	executors map[model.ExecutorID]model.DriverExecutor
	ended     *model.DriverEnded
	finish    *rpc.FinishAppRequest
	killed    []model.ExecutorID
	// refusedKills counts the kills that came while nobody led.
	refusedKills int
	confirmed    map[model.ExecutorID]bool
	changed      chan struct{} // closed and replaced on each change
	// cut registrations are committed and answered with a broken connection.
	cut int
	// drop ends the sessions of now.
	drop chan struct{}
	// headless: nobody leads; calls and sessions fail until led.
	headless bool
	// grant, if set, is told the number of executors that is asked for.
	grant func(n int)
	// sized, if set, is told so of each profile that is named. targets and profiles
	// are what was asked for last.
	sized    func(profile, n int)
	targets  map[int]int
	profiles map[int]model.Profile
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{
		t: t, executors: map[model.ExecutorID]model.DriverExecutor{}, requests: map[string]int{},
		confirmed: map[model.ExecutorID]bool{}, changed: make(chan struct{}), drop: make(chan struct{}), index: 10,
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
	})
	return c
}

func (c *cluster) Staleness(context.Context) (model.Staleness, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return model.Staleness{AppliedIndex: c.index, LeaderAddr: c.addr}, nil
}

func (c *cluster) RegisterApp(_ context.Context, call rpc.CallInfo, spec model.AppSpec) (rpc.RegisterAppReply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := spec.Validate(); err != nil {
		return rpc.RegisterAppReply{}, err
	}
	c.requests[call.RequestID]++
	if c.requests[call.RequestID] == 1 {
		c.specs = append(c.specs, spec)
	}
	if c.cut > 0 {
		c.cut--
		return rpc.RegisterAppReply{}, fmt.Errorf("%w: the answer is cut", model.ErrOutcomeUnknown)
	}
	return rpc.RegisterAppReply{App: testApp, Token: testToken, Index: c.index, LeaderAddr: c.addr}, nil
}

func (c *cluster) FinishApp(_ context.Context, _ rpc.CallInfo, req rpc.FinishAppRequest) error {
	c.mu.Lock()
	c.finish = &req
	c.mu.Unlock()
	c.end(model.DriverEnded{State: req.State, Reason: req.Reason})
	return nil
}

func (c *cluster) KillExecutors(_ context.Context, _ rpc.CallInfo, req rpc.KillExecutorsRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.headless {
		c.refusedKills++
		return fmt.Errorf("%w: nobody leads", model.ErrUnavailable)
	}
	c.killed = append(c.killed, req.Executors...)
	return nil
}

// behead ends the sessions and lets nobody lead until led is called.
func (c *cluster) behead() {
	c.mu.Lock()
	c.headless = true
	c.mu.Unlock()
	c.dropSessions()
}

func (c *cluster) led() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headless = false
}

// announce tells the driver of an executor in its present state.
func (c *cluster) announce(e model.DriverExecutor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	e.Index = c.index
	c.executors[e.ID] = e
	c.wakeLocked()
}

// place announces an executor with this many cores, placeSized one of a profile.
func (c *cluster) place(id model.ExecutorID, cores int) { c.placeSized(id, cores, 0) }

func (c *cluster) placeSized(id model.ExecutorID, cores, profile int) {
	c.announce(model.DriverExecutor{
		Profile: profile, ID: id, Worker: "w", Host: fmt.Sprintf("host-%d", id), Cores: cores, MemoryMiB: 512,
		State: model.ExecutorLaunching, Secret: secretOf(id), ExitCode: -1,
	})
}

func (c *cluster) lost(id model.ExecutorID) {
	c.announce(model.DriverExecutor{ID: id, State: model.ExecutorLost, Cause: model.CauseInfra, Reason: "its worker is dead"})
}

func secretOf(id model.ExecutorID) model.Secret {
	return model.Secret(fmt.Sprintf("secret-%d", id))
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

func (c *cluster) dropSessions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.drop)
	c.drop = make(chan struct{})
}

// DriverSession sends the whole list and then each change.
func (c *cluster) DriverSession(ctx context.Context, s rpc.DriverSessionStream) error {
	first, err := s.Recv()
	if err != nil {
		return err
	}
	if first.Hello == nil || first.Hello.Token != testToken || first.Hello.App != testApp {
		return model.ErrUnauthenticated
	}
	c.mu.Lock()
	drop, headless := c.drop, c.headless
	c.mu.Unlock()
	if headless {
		return fmt.Errorf("%w: nobody leads", model.ErrUnavailable)
	}
	up := make(chan model.DriverUp)
	go func() {
		defer close(up)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case up <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	sent := map[model.ExecutorID]uint64{}
	listed := false
	for {
		c.mu.Lock()
		var out []model.DriverDown
		list := model.DriverExecutors{Index: c.index, BeatMilli: 200}
		for id, e := range c.executors {
			if sent[id] == e.Index {
				continue
			}
			sent[id] = e.Index
			if listed {
				out = append(out, model.DriverDown{Change: &e})
			} else if !e.State.Terminal() {
				list.Executors = append(list.Executors, e)
			}
		}
		if !listed {
			out = append(out, model.DriverDown{Executors: &list})
			listed = true
		}
		ended, changed := c.ended, c.changed
		if ended != nil {
			out = append(out, model.DriverDown{Ended: ended})
		}
		c.mu.Unlock()
		for _, m := range out {
			if err := s.Send(m); err != nil {
				return err
			}
		}
		if ended != nil {
			return nil
		}
		select {
		case <-drop:
			return model.ErrUnavailable
		case <-changed:
		case m, ok := <-up:
			switch {
			case !ok:
				return nil
			case m.Beat != nil:
				if err := s.Send(model.DriverDown{BeatAck: m.Beat}); err != nil {
					return err
				}
			case m.Confirm != nil:
				c.confirm(m.Confirm)
			}
		}
	}
}

func (c *cluster) confirm(ids []model.ExecutorID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		c.confirmed[id] = true
		if e := c.executors[id]; e.State == model.ExecutorLaunching {
			c.index++
			e.State, e.Index = model.ExecutorRunning, c.index
			c.executors[id] = e
		}
	}
	c.wakeLocked()
}

func locked[T any](c *cluster, read func() T) T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return read()
}

// rig is a running driver on a cluster of its own.
type rig struct {
	*Driver
	t       *testing.T
	cluster *cluster
	events  chan Event
	ended   chan error
	cancel  context.CancelFunc
}

// start runs a driver; change may alter its configuration.
func start(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return startOn(t, newCluster(t), change)
}

func startOn(t *testing.T, cl *cluster, change func(*Config)) *rig {
	t.Helper()
	c, err := client.New(client.Config{Masters: []string{cl.addr}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, cluster: cl, events: make(chan Event, 1<<16), ended: make(chan error, 1)}
	cfg := Config{
		plain:  true,
		Client: c, Spec: model.AppSpec{Name: "test", Profile: model.Profile{MemoryMiB: 512}, Executors: model.TargetUnlimited},
		Observer: func(e Event) { r.events <- e },
	}
	if change != nil {
		change(&cfg)
	}
	if r.Driver, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-r.done
		if err := c.Close(); err != nil {
			t.Errorf("client: %v", err)
		}
	})
	return r
}

// end waits for Run's error.
func (r *rig) end() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		return err
	case <-time.After(patience):
		r.t.Fatal("Run does not end")
		return nil
	}
}

// event waits for the next event of a kind and returns it.
func (r *rig) event(kind EventKind) Event {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-r.events:
			if e.Kind == kind {
				return e
			}
		case <-deadline:
			r.t.Fatalf("no event %s", kind)
		}
	}
}

func (r *rig) submit(argv ...string) model.TaskID {
	r.t.Helper()
	id, err := r.Submit(r.t.Context(), Task{Argv: argv, Tag: argv[0]})
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

func (r *rig) result() Result {
	r.t.Helper()
	select {
	case res, ok := <-r.Results():
		if !ok {
			r.t.Fatal("no result: the driver has ended")
		}
		return res
	case <-time.After(patience):
		r.t.Fatal("no result")
		return Result{}
	}
}

// noResult checks that nothing is delivered now.
func (r *rig) noResult() {
	r.t.Helper()
	select {
	case res := <-r.Results():
		r.t.Errorf("a result too many: %+v", res)
	default:
	}
}

func (r *rig) address() string {
	r.t.Helper()
	r.event(EventRegistered)
	return locked(r.cluster, func() string { return r.cluster.specs[0].DriverAddr })
}

// eventually polls until check is content.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	err := errors.New("not checked")
	for err != nil {
		select {
		case <-tick.C:
			err = check()
		case <-deadline:
			t.Fatalf("waited for: %s: %v", what, err)
		}
	}
}
