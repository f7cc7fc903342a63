package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// fakeServices implements every service. Calls without a function answer with
// zero values; sessions echo.
type fakeServices struct {
	ClusterService
	registerApp   func(context.Context, CallInfo, model.AppSpec) (RegisterAppReply, error)
	registerApps  func(context.Context, CallInfo, []Submission) (RegisterAppsReply, error)
	killApp       func(context.Context, CallInfo, model.AppID, string) error
	waitApp       func(context.Context, WaitAppRequest) (model.AppView, error)
	app           func(context.Context, AppRequest) (model.AppView, error)
	status        func(context.Context) (model.ClusterView, error)
	readLog       func(context.Context, LogRequest, func(LogChunk) error) error
	workerSession func(context.Context, WorkerSessionStream) error
	driverSession func(context.Context, DriverSessionStream) error
	executors     func(context.Context, ExecutorSessionStream) error
}

func (f *fakeServices) RegisterApp(ctx context.Context, c CallInfo, s model.AppSpec) (RegisterAppReply, error) {
	if f.registerApp == nil {
		return RegisterAppReply{}, nil
	}
	return f.registerApp(ctx, c, s)
}

func (f *fakeServices) RegisterApps(ctx context.Context, c CallInfo, subs []Submission) (RegisterAppsReply, error) {
	if f.registerApps == nil {
		return RegisterAppsReply{Verdicts: make([]SubmissionVerdict, len(subs))}, nil
	}
	return f.registerApps(ctx, c, subs)
}

func (f *fakeServices) KillApp(ctx context.Context, c CallInfo, a model.AppID, r string) error {
	if f.killApp == nil {
		return nil
	}
	return f.killApp(ctx, c, a, r)
}

func (f *fakeServices) WaitApp(ctx context.Context, r WaitAppRequest) (model.AppView, error) {
	if f.waitApp == nil {
		return model.AppView{}, nil
	}
	return f.waitApp(ctx, r)
}

func (f *fakeServices) App(ctx context.Context, r AppRequest) (model.AppView, error) {
	if f.app == nil {
		return model.AppView{}, nil
	}
	return f.app(ctx, r)
}

func (f *fakeServices) Status(ctx context.Context) (model.ClusterView, error) {
	if f.status == nil {
		return model.ClusterView{}, nil
	}
	return f.status(ctx)
}

func (f *fakeServices) Staleness(context.Context) (model.Staleness, error) {
	return model.Staleness{Master: "fake"}, nil
}

func (f *fakeServices) FinishApp(context.Context, CallInfo, FinishAppRequest) error { return nil }

func (f *fakeServices) KillExecutors(context.Context, CallInfo, KillExecutorsRequest) error {
	return nil
}

func (f *fakeServices) SetTargets(context.Context, CallInfo, SetTargetsRequest) error { return nil }

func (f *fakeServices) DrainWorkers(context.Context, CallInfo, DrainRequest) (DrainReply, error) {
	return DrainReply{}, nil
}

func (f *fakeServices) UndrainWorkers(context.Context, CallInfo, WorkerChoice) (DrainReply, error) {
	return DrainReply{}, nil
}

func (f *fakeServices) SetSettings(context.Context, CallInfo, map[string]string) error { return nil }

func (f *fakeServices) RemoveMaster(context.Context, CallInfo, model.MasterID) error { return nil }

func (f *fakeServices) TransferLeadership(context.Context, model.MasterID) error { return nil }

func (f *fakeServices) Apps(context.Context, AppsRequest) (AppsReply, error) { return AppsReply{}, nil }

func (f *fakeServices) Workers(context.Context) (WorkersReply, error) { return WorkersReply{}, nil }

func (f *fakeServices) Why(context.Context, string) (model.Why, error) { return model.Why{}, nil }

func (f *fakeServices) Waiting(context.Context) (model.WaitingView, error) {
	return model.WaitingView{}, nil
}

func (f *fakeServices) Settings(context.Context) (model.Settings, error) {
	return model.Settings{}, nil
}

func (f *fakeServices) RaftServers(context.Context) ([]model.MasterView, error) { return nil, nil }

func (f *fakeServices) GossipMembers(context.Context) ([]model.GossipMemberView, error) {
	return nil, nil
}

func (f *fakeServices) GossipKeys(context.Context) (model.GossipKeysView, error) {
	return model.GossipKeysView{}, nil
}

func (f *fakeServices) ChangeGossipKeys(context.Context, model.GossipKeyOrder) (model.GossipKeysView, error) {
	return model.GossipKeysView{}, nil
}

func (f *fakeServices) ReadLog(ctx context.Context, r LogRequest, send func(LogChunk) error) error {
	if f.readLog == nil {
		return nil
	}
	return f.readLog(ctx, r, send)
}

func (f *fakeServices) Promise(context.Context, PromiseRequest) (PromiseReply, error) {
	return PromiseReply{}, nil
}

func (f *fakeServices) PeerStats(context.Context) (PeerStatsReply, error) {
	return PeerStatsReply{ID: "fake"}, nil
}

func (f *fakeServices) LeaderGone(_ context.Context, req LeaderGoneRequest) (LeaderGoneReply, error) {
	return LeaderGoneReply{ID: "fake", Gone: true, Reason: string(req.From), LastIndex: req.LastIndex, LastTerm: req.LastTerm}, nil
}

func (f *fakeServices) Prove(_ context.Context, req ProveRequest) (ProveReply, error) {
	return ProveReply{Master: model.Master{ID: "fake"}, Signature: req.Nonce}, nil
}

func (f *fakeServices) ReportHash(context.Context, HashReport) (HashVerdict, error) {
	return HashVerdict{}, nil
}

func (f *fakeServices) Identify(context.Context) (WorkerIdentity, error) {
	return WorkerIdentity{Worker: "fake"}, nil
}

// untilEnd receives until the stream ends.
func untilEnd[M any](recv func() (M, error), each func(M) error) error {
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

func (f *fakeServices) WorkerSession(ctx context.Context, s WorkerSessionStream) error {
	if f.workerSession != nil {
		return f.workerSession(ctx, s)
	}
	return untilEnd(s.Recv, func(m model.WorkerUp) error {
		if m.Beat == nil {
			return nil
		}
		return s.Send(model.WorkerDown{BeatAck: m.Beat})
	})
}

func (f *fakeServices) DriverSession(ctx context.Context, s DriverSessionStream) error {
	if f.driverSession != nil {
		return f.driverSession(ctx, s)
	}
	return untilEnd(s.Recv, func(m model.DriverUp) error {
		if m.Beat == nil {
			return nil
		}
		return s.Send(model.DriverDown{BeatAck: m.Beat})
	})
}

func (f *fakeServices) ExecutorSession(ctx context.Context, s ExecutorSessionStream) error {
	if f.executors != nil {
		return f.executors(ctx, s)
	}
	return untilEnd(s.Recv, func(m model.ExecutorUp) error {
		if m.Beat == nil {
			return nil
		}
		return s.Send(model.ExecutorDown{BeatAck: m.Beat})
	})
}

func (f *fakeServices) CreateToken(context.Context, CallInfo, CreateTokenRequest) error { return nil }

func (f *fakeServices) RevokeToken(context.Context, CallInfo, model.TokenID) error { return nil }

func (f *fakeServices) Tokens(context.Context) ([]model.TokenView, error) { return nil, nil }

func (f *fakeServices) Audit(context.Context, AuditRequest) (AuditReply, error) {
	return AuditReply{}, nil
}

func (f *fakeServices) RecordAudit(context.Context, RecordAuditRequest) error { return nil }

func (f *fakeServices) SubmitDriver(context.Context, CallInfo, model.DriverSpec) (SubmitDriverReply, error) {
	return SubmitDriverReply{Driver: "driver-20261130061500-0001"}, nil
}

func (f *fakeServices) KillDriver(context.Context, CallInfo, model.DriverID, string) error {
	return nil
}

func (f *fakeServices) KillDrivers(context.Context, CallInfo, string) error { return nil }

func (f *fakeServices) Drivers(context.Context, DriversRequest) (DriversReply, error) {
	return DriversReply{}, nil
}

func (f *fakeServices) Driver(context.Context, DriverRequest) (model.DriverView, error) {
	return model.DriverView{}, nil
}

func (f *fakeServices) WaitDriver(context.Context, WaitDriverRequest) (model.DriverView, error) {
	return model.DriverView{}, nil
}

func allServices(f *fakeServices) Services {
	return Services{Access: f, Cluster: f, Workers: f, Drivers: f, Peer: f, Worker: f, Executors: f, Content: f, Explain: f, Submitted: f}
}

// fakeLeader is a LeaderInfo that a test changes.
type fakeLeader struct {
	mu               sync.Mutex
	leading, elected bool
	addr             string
	changed          chan struct{}
}

func leaderAt(addr string) *fakeLeader {
	return &fakeLeader{addr: addr, changed: make(chan struct{})}
}

// ready is a leader itself.
func ready() *fakeLeader {
	l := leaderAt("")
	l.set(func() { l.leading, l.elected = true, true })
	return l
}

// set changes the answers and tells of it.
func (l *fakeLeader) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *fakeLeader) follow(addr string) { l.set(func() { l.addr = addr }) }

func (l *fakeLeader) Leading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading
}

func (l *fakeLeader) Elected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.elected
}

func (l *fakeLeader) LeaderAddr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

func (l *fakeLeader) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
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

// serve runs a server on loopback until the test ends.
func serve(t testing.TB, cfg ServerConfig, v Services) (*Server, *cuttable) {
	t.Helper()
	if cfg.Listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Listener = l
	}
	lis := &cuttable{Listener: cfg.Listener}
	cfg.Listener = lis
	s := NewServer(cfg, v)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("server ended with %v", err)
			}
		case <-time.After(StopGrace + 5*time.Second):
			t.Error("the server did not stop")
		}
	})
	return s, lis
}

func dial(t testing.TB, addr string, cfg DialConfig) *Conn {
	t.Helper()
	c, err := Dial(addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
