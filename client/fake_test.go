package client

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// fakeCluster is what its masters share: the replicated state, and who leads.
type fakeCluster struct {
	mu       sync.Mutex
	leader   string            // address; "" = none
	index    uint64            // applied
	oldest   uint64            // bases below are expired
	answers  map[string]string // request id -> application
	calls    map[string]int    // request id -> how often it arrived
	changed  chan struct{}     // closed and replaced on each change
	led      chan struct{}     // the same for the leader
	apps     map[model.AppID]model.AppView
	transfer int
	// sim replaces loopback for tests in virtual time.
	sim *simnet.Network
	// port is where the next master listens; 0 = anywhere.
	port int
}

// listen opens the listener of one more master.
func (c *fakeCluster) listen() (net.Listener, error) {
	if c.sim == nil {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	return c.sim.Host("master").Listen(fmt.Sprintf(":%d", c.port))
}

func (c *fakeCluster) dialer() rpc.DialFunc {
	if c.sim == nil {
		return nil
	}
	return c.sim.Host("master").Dial
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{
		index: 10, answers: map[string]string{}, calls: map[string]int{},
		changed: make(chan struct{}), led: make(chan struct{}), apps: map[model.AppID]model.AppView{},
	}
}

func (c *fakeCluster) setLeader(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = addr
	close(c.led)
	c.led = make(chan struct{})
}

func (c *fakeCluster) setApp(v model.AppView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apps[v.ID] = v
	close(c.changed)
	c.changed = make(chan struct{})
}

// commit makes a change once per request id.
func (c *fakeCluster) commit(call rpc.CallInfo) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[call.RequestID]++
	if app, ok := c.answers[call.RequestID]; ok {
		return app, nil
	}
	if call.Base < c.oldest {
		return "", model.RejectRequestExpired.Err("old base")
	}
	c.index++
	app := fmt.Sprintf("app-20261130061500-%04d", len(c.answers))
	c.answers[call.RequestID] = app
	return app, nil
}

// fakeMaster is one master over a real connection.
type fakeMaster struct {
	rpc.ClusterService
	c    *fakeCluster
	addr string
	lis  *cuttable
	stop func()

	// Faults and answers of this master; nil = none.
	afterCommit func() error
	verdicts    func([]rpc.SubmissionVerdict) // changes the answer to a batch
	waitApp     func(context.Context, rpc.WaitAppRequest) (model.AppView, error)
	readLog     func(context.Context, rpc.LogRequest, func(rpc.LogChunk) error) error
	driver      func(context.Context, rpc.DriverSessionStream) error
	lagging     bool // knows no application
	blind       bool // knows no leader
	reads       int
	asked       int // for its state
}

// cuttable is a listener whose connections a test can break.
type cuttable struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cuttable) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
	return conn, err
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// master starts one; change sets its faults before it serves.
func (c *fakeCluster) master(t *testing.T, change func(*fakeMaster)) *fakeMaster {
	t.Helper()
	l, err := c.listen()
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeMaster{c: c, addr: l.Addr().String(), lis: &cuttable{Listener: l}}
	if change != nil {
		change(m)
	}
	s := rpc.NewServer(rpc.ServerConfig{Listener: m.lis, Leader: m, Dial: c.dialer()}, rpc.Services{Cluster: m, Drivers: m, Explain: m})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var once sync.Once
	m.stop = func() {
		once.Do(func() {
			cancel()
			m.lis.cut()
			if err := <-ended; err != nil {
				t.Errorf("master ended with %v", err)
			}
		})
	}
	t.Cleanup(m.stop)
	return m
}

func (m *fakeMaster) Leading() bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.leader == m.addr
}

func (m *fakeMaster) Elected() bool { return m.Leading() }

func (m *fakeMaster) Changed() <-chan struct{} {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.led
}

func (m *fakeMaster) LeaderAddr() string {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.blind {
		return ""
	}
	return m.c.leader
}

func (m *fakeMaster) RegisterApp(_ context.Context, call rpc.CallInfo, _ model.AppSpec) (rpc.RegisterAppReply, error) {
	app, err := m.c.commit(call)
	if err == nil && m.afterCommit != nil {
		err = m.afterCommit()
	}
	return rpc.RegisterAppReply{App: model.AppID(app), Token: "token", LeaderAddr: m.addr}, err
}

// RegisterApps refuses what is called "bad", and otherwise answers like
// RegisterApp.
func (m *fakeMaster) RegisterApps(_ context.Context, call rpc.CallInfo, subs []rpc.Submission) (rpc.RegisterAppsReply, error) {
	out := rpc.RegisterAppsReply{LeaderAddr: m.addr}
	for _, s := range subs {
		v := rpc.SubmissionVerdict{Token: "token"}
		if s.Spec.Name == "bad" {
			v.Err = fmt.Errorf("%w: bad", model.ErrInvalid)
		} else {
			app, err := m.c.commit(rpc.CallInfo{RequestID: s.RequestID, Base: s.Base, Principal: call.Principal})
			v.App, v.Err = model.AppID(app), err
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	if m.verdicts != nil {
		m.verdicts(out.Verdicts)
	}
	if m.afterCommit != nil {
		return out, m.afterCommit()
	}
	return out, nil
}

func (m *fakeMaster) KillApp(_ context.Context, call rpc.CallInfo, _ model.AppID, _ string) error {
	_, err := m.c.commit(call)
	if err == nil && m.afterCommit != nil {
		err = m.afterCommit()
	}
	return err
}

func (m *fakeMaster) TransferLeadership(context.Context, model.MasterID) error {
	m.c.mu.Lock()
	m.c.transfer++
	m.c.mu.Unlock()
	if m.afterCommit != nil {
		return m.afterCommit()
	}
	return nil
}

func (m *fakeMaster) Staleness(context.Context) (model.Staleness, error) {
	leader := m.LeaderAddr()
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.asked++
	return model.Staleness{Master: model.MasterID(m.addr), LeaderAddr: leader, AppliedIndex: m.c.index}, nil
}

func (m *fakeMaster) Settings(context.Context) (model.Settings, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.reads++
	return model.DefaultSettings(), nil
}

func (m *fakeMaster) App(_ context.Context, req rpc.AppRequest) (model.AppView, error) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	v, ok := m.c.apps[model.AppID(req.ID)]
	if !ok || m.lagging {
		return model.AppView{}, fmt.Errorf("%w: application %s", model.ErrNotFound, req.ID)
	}
	return v, nil
}

func (m *fakeMaster) Why(ctx context.Context, id string) (model.Why, error) {
	v, err := m.App(ctx, rpc.AppRequest{ID: id})
	return model.Why{ID: string(v.ID), Staleness: model.Staleness{Master: model.MasterID(m.addr)}}, err
}

func (m *fakeMaster) Waiting(context.Context) (model.WaitingView, error) {
	return model.WaitingView{}, nil
}

func (m *fakeMaster) WaitApp(ctx context.Context, req rpc.WaitAppRequest) (model.AppView, error) {
	if m.waitApp != nil {
		return m.waitApp(ctx, req)
	}
	for {
		m.c.mu.Lock()
		v, ok := m.c.apps[req.App]
		changed := m.c.changed
		m.c.mu.Unlock()
		switch {
		case !ok || m.lagging:
			return model.AppView{}, fmt.Errorf("%w: application %s", model.ErrNotFound, req.App)
		case v.ChangeIndex > req.After || v.Terminal:
			return v, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return model.AppView{}, ctx.Err()
		}
	}
}

func (m *fakeMaster) ReadLog(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	return m.readLog(ctx, req, send)
}

func (m *fakeMaster) DriverSession(ctx context.Context, s rpc.DriverSessionStream) error {
	return m.driver(ctx, s)
}

func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

var spec = model.AppSpec{
	Name: "app", Kind: model.AppKindCommand, Executors: 1, Restart: model.RestartNever,
	Profile: model.Profile{MemoryMiB: 1}, Command: model.Command{Argv: []string{"true"}},
}
