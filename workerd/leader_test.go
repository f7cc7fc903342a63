//go:build linux

package workerd

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// fakeLeader is a real gRPC server whose sessions a test plays by hand.
type fakeLeader struct {
	t        *testing.T
	addr     string
	sessions chan *fakeSession

	mu     sync.Mutex
	hint   string // a standby that points there
	leads  bool
	silent bool // beats are not answered
	mute   bool // planned restarts are not agreed to
	// lag is how late beats are answered; something else is said at once.
	lag time.Duration
	// cluster, if set, is compared with that of a Hello, as a master does; refusals counts.
	cluster  model.ClusterIdentity
	refusals int
}

func newFakeLeader(t *testing.T) *fakeLeader {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeLeader{t: t, addr: l.Addr().String(), sessions: make(chan *fakeSession, 16), leads: true}
	srv := rpc.NewServer(rpc.ServerConfig{Listener: l}, rpc.Services{Workers: f, Cluster: clusterOf{leader: f}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("fake leader: %v", err)
		}
	})
	return f
}

func (f *fakeLeader) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// clusterOf answers whose master it is, and nothing else.
type clusterOf struct {
	rpc.ClusterService
	leader *fakeLeader
}

// Status implements rpc.ClusterService.
func (c clusterOf) Status(context.Context) (model.ClusterView, error) {
	c.leader.mu.Lock()
	defer c.leader.mu.Unlock()
	return model.ClusterView{Cluster: c.leader.cluster.ID, Epoch: c.leader.cluster.Epoch}, nil
}

// WorkerSession implements rpc.WorkerSessionService.
func (f *fakeLeader) WorkerSession(ctx context.Context, stream rpc.WorkerSessionStream) error {
	f.mu.Lock()
	leads, hint := f.leads, f.hint
	f.mu.Unlock()
	if !leads {
		return rpc.NotLeader(hint)
	}
	first, err := stream.Recv()
	if err != nil || first.Hello == nil {
		return fmt.Errorf("first message %+v, %w", first, err)
	}
	f.mu.Lock()
	refused := f.cluster.Accepts(first.Hello.Cluster)
	if refused != nil {
		f.refusals++
	}
	f.mu.Unlock()
	if refused != nil {
		return fmt.Errorf("worker %s: %w", first.Hello.Worker, refused)
	}
	s := &fakeSession{
		leader: f, stream: stream, hello: *first.Hello, end: make(chan error, 1), gone: make(chan struct{}),
		latest: make(map[model.ExecutorRef]model.ExecutorReport), news: make(chan struct{}, 1), acks: true,
	}
	go s.read()
	f.sessions <- s
	select {
	case err = <-s.end:
	case <-s.gone:
	case <-ctx.Done():
	}
	return err
}

// next waits for the next session.
func (f *fakeLeader) next() *fakeSession {
	f.t.Helper()
	select {
	case s := <-f.sessions:
		return s
	case <-time.After(patience):
		f.t.Fatal("no worker has opened a session")
		return nil
	}
}

// welcomed waits for the next session and welcomes it in this term.
func (f *fakeLeader) welcomed(term uint64) *fakeSession {
	f.t.Helper()
	return f.welcomedAt(term, 1)
}

// welcomedAt is welcomed by a leader whose state is at this index.
func (f *fakeLeader) welcomedAt(term, index uint64) *fakeSession {
	f.t.Helper()
	s := f.next()
	s.fence = model.Fence{Cluster: clusterA1, Term: term, Incarnation: s.hello.Incarnation, ViewIndex: index}
	s.send(model.WorkerDown{Welcome: &model.WorkerWelcome{
		Fence: s.fence, Leader: "m1", Masters: []string{f.addr}, BeatMilli: 50, DeathMilli: 2000,
	}})
	return s
}

type fakeSession struct {
	leader *fakeLeader
	stream rpc.WorkerSessionStream
	hello  model.WorkerHello
	fence  model.Fence
	end    chan error    // ends the session from here
	gone   chan struct{} // closed when the worker has ended it
	sendMu sync.Mutex

	mu     sync.Mutex
	acks   bool // reports are acknowledged as they come
	latest map[model.ExecutorRef]model.ExecutorReport
	counts map[uint64]int // reports per sequence
	left   bool
	// stopping and restart are what the worker has said of its end.
	stopping bool
	restart  *model.WorkerRestart
	news     chan struct{}
}

func (s *fakeSession) send(d model.WorkerDown) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	_ = s.stream.Send(d) // a session that ended is noticed by whoever waits for its effect
}

func (s *fakeSession) read() {
	defer close(s.gone)
	for {
		up, err := s.stream.Recv()
		if err != nil {
			return
		}
		s.leader.mu.Lock()
		silent, mute, lag := s.leader.silent, s.leader.mute, s.leader.lag
		s.leader.mu.Unlock()
		switch {
		case up.Beat != nil && lag > 0:
			s.send(model.WorkerDown{RestartOK: &model.RestartOK{}}) // nobody has asked for it
			time.AfterFunc(lag, func() { s.send(model.WorkerDown{BeatAck: up.Beat}) })
		case up.Beat != nil && !silent:
			s.send(model.WorkerDown{BeatAck: up.Beat})
		case up.Report != nil:
			s.took(up.Report)
		case up.Restart != nil:
			s.mu.Lock()
			s.restart = up.Restart
			s.mu.Unlock()
			if !mute {
				s.send(model.WorkerDown{RestartOK: &model.RestartOK{}})
			}
		case up.Stopping != nil:
			s.mu.Lock()
			s.stopping = true
			s.mu.Unlock()
		case up.Leave != nil:
			s.mu.Lock()
			s.left = true
			s.mu.Unlock()
			s.send(model.WorkerDown{LeaveOK: &model.LeaveOK{}})
		}
	}
}

func (s *fakeSession) took(r *model.WorkerReport) {
	s.mu.Lock()
	for _, e := range r.Executors {
		s.latest[e.Ref] = e
	}
	if s.counts == nil {
		s.counts = make(map[uint64]int)
	}
	s.counts[r.Seq]++
	ack := s.acks
	s.mu.Unlock()
	if ack {
		s.send(model.WorkerDown{ReportAck: &model.ReportAck{Seq: r.Seq}})
	}
}

// obeyed waits until the worker has carried out an order of this session: then it has taken its
// Welcome too.
func (s *fakeSession) obeyed(r model.ExecutorRef) {
	s.leader.t.Helper()
	s.run(r, "/bin/true")
	s.reported(r, model.ExecutorExited)
}

// refused waits until the worker has ended the session.
func (s *fakeSession) refused() {
	s.leader.t.Helper()
	select {
	case <-s.gone:
	case <-time.After(patience):
		s.leader.t.Fatal("the worker has not ended the session")
	}
}

func (s *fakeSession) sequences() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counts)
}

func (s *fakeSession) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

func (s *fakeSession) report(r model.ExecutorRef) model.ExecutorReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest[r]
}

// reported waits until an executor was reported in this state.
func (s *fakeSession) reported(r model.ExecutorRef, want model.ExecutorState) model.ExecutorReport {
	s.leader.t.Helper()
	eventually(s.leader.t, fmt.Sprintf("%s is reported %s", r, want), func() bool { return s.report(r).State == want })
	return s.report(r)
}

// run orders a command.
func (s *fakeSession) run(r model.ExecutorRef, argv ...string) {
	s.send(model.WorkerDown{Launch: s.launch(r, argv...)})
}

func (s *fakeSession) launch(r model.ExecutorRef, argv ...string) *model.LaunchOrder {
	return &model.LaunchOrder{
		Fence: s.fence, Ref: r, Cores: 1, MemoryMiB: 64, MasterAddr: []string{s.leader.addr},
		Spec: model.AppSpec{Name: "test", Kind: model.AppKindCommand, Command: model.Command{Argv: argv}},
	}
}

func (s *fakeSession) kill(r model.ExecutorRef, grace time.Duration) {
	s.send(model.WorkerDown{Kill: &model.KillOrder{Fence: s.fence, Ref: r, GraceMilli: grace.Milliseconds(), Reason: "test"}})
}
