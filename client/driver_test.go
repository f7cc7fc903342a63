package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// recorder is a DriverHandler that keeps what it was told.
type recorder struct {
	changes chan model.DriverExecutor
	ended   chan model.DriverEnded
}

func newRecorder() *recorder {
	return &recorder{changes: make(chan model.DriverExecutor, 64), ended: make(chan model.DriverEnded, 4)}
}

func (r *recorder) ExecutorChanged(e model.DriverExecutor) { r.changes <- e }
func (r *recorder) Ended(e model.DriverEnded)              { r.ended <- e }

func (r *recorder) next(t *testing.T) model.DriverExecutor {
	t.Helper()
	select {
	case e := <-r.changes:
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no change of an executor was reported")
		return model.DriverExecutor{}
	}
}

func executor(id model.ExecutorID, s model.ExecutorState, index uint64) model.DriverExecutor {
	return model.DriverExecutor{ID: id, State: s, Index: index}
}

// app is the leader's side of one application, shared by the masters.
type app struct {
	mu       sync.Mutex
	list     []model.DriverExecutor
	index    uint64
	confirms chan []model.ExecutorID
	sessions chan string               // master that serves a new session
	push     chan model.DriverDown     // sent on the present session
	hellos   chan model.DriverHello    // received
	silent   map[string]bool           // masters that answer no beat
	refuse   func(master string) error // instead of serving
}

func newApp() *app {
	return &app{
		confirms: make(chan []model.ExecutorID, 64), sessions: make(chan string, 64),
		push: make(chan model.DriverDown), hellos: make(chan model.DriverHello, 64), silent: map[string]bool{},
	}
}

func (a *app) serve(m *fakeMaster) {
	m.driver = func(ctx context.Context, s rpc.DriverSessionStream) error {
		first, err := s.Recv()
		if err != nil {
			return err
		}
		if a.refuse != nil {
			return a.refuse(m.addr)
		}
		a.hellos <- *first.Hello
		a.mu.Lock()
		list := model.DriverExecutors{Index: a.index, BeatMilli: 20, Executors: a.list}
		silent := a.silent[m.addr]
		a.mu.Unlock()
		if err := s.Send(model.DriverDown{Executors: &list}); err != nil {
			return err
		}
		a.sessions <- m.addr
		ups := make(chan model.DriverUp)
		recvErr := make(chan error, 1)
		go func() {
			for {
				up, err := s.Recv()
				if err != nil {
					recvErr <- err
					return
				}
				select {
				case ups <- up:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			var down model.DriverDown
			select {
			case err := <-recvErr:
				return err
			case <-ctx.Done():
				return ctx.Err()
			case down = <-a.push:
			case up := <-ups:
				if up.Confirm != nil {
					select {
					case a.confirms <- up.Confirm:
					default:
					}
				}
				if up.Beat == nil || silent {
					continue
				}
				down = model.DriverDown{BeatAck: up.Beat}
			}
			if err := s.Send(down); err != nil {
				return err
			}
		}
	}
}

// run starts a session and returns the channel of its end.
func run(t *testing.T, c *Client, cfg DriverConfig) (*DriverSession, <-chan error) {
	t.Helper()
	cfg.App, cfg.Token, cfg.Addr = "app-1", "token", "driver:1"
	d, err := c.OpenDriver(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	ended := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { ended <- d.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return d, ended
}

func await[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func TestADriverFollowsItsApplicationThroughAChangeOfLeader(t *testing.T) {
	t.Parallel()
	fc, a, rec := newFakeCluster(), newApp(), newRecorder()
	m1, m2 := fc.master(t, a.serve), fc.master(t, a.serve)
	fc.setLeader(m1.addr)
	a.list, a.index = []model.DriverExecutor{executor(0, model.ExecutorPlaced, 1), executor(1, model.ExecutorPlaced, 2)}, 2
	d, ended := run(t, newClient(t, Config{Masters: []string{m2.addr}}), DriverConfig{Handler: rec})
	if got := await(t, a.sessions, "a session"); got != m1.addr {
		t.Fatalf("session with %s, the leader is %s", got, m1.addr)
	}
	if got, want := await(t, a.hellos, "a hello"), (model.DriverHello{App: "app-1", Token: "token", Addr: "driver:1"}); got != want {
		t.Fatalf("hello %+v, want %+v", got, want)
	}
	if got := []model.DriverExecutor{rec.next(t), rec.next(t)}; !cmp.Equal(got, a.list) {
		t.Fatalf("told of %+v", got)
	}
	d.Confirm(0, 1)
	for range 2 { // repeated until it shows
		if got := await(t, a.confirms, "a confirmation"); !cmp.Equal(got, []model.ExecutorID{0, 1}) {
			t.Fatalf("confirmed %v", got)
		}
	}
	running := executor(0, model.ExecutorRunning, 3)
	a.push <- model.DriverDown{Change: &running}
	if got := rec.next(t); !cmp.Equal(got, running) {
		t.Fatalf("told of %+v", got)
	}
	for !cmp.Equal(await(t, a.confirms, "a confirmation of the other alone"), []model.ExecutorID{1}) {
	}

	// The leader changes; meanwhile 0 went, 2 came and 1 stayed as it was.
	a.mu.Lock()
	a.list, a.index = []model.DriverExecutor{executor(1, model.ExecutorPlaced, 2), executor(2, model.ExecutorPlaced, 5)}, 6
	a.mu.Unlock()
	fc.setLeader(m2.addr)
	m1.stop()
	if got := await(t, a.sessions, "a session with the new leader"); got != m2.addr {
		t.Fatalf("session with %s", got)
	}
	if got := rec.next(t); !cmp.Equal(got, executor(2, model.ExecutorPlaced, 5)) {
		t.Fatalf("told of %+v", got)
	}
	lost := rec.next(t)
	if lost.ID != 0 || lost.State != model.ExecutorLost || lost.Reason == "" || lost.Index != 6 {
		t.Fatalf("told of %+v", lost)
	}
	if got := await(t, a.confirms, "a confirmation"); !cmp.Equal(got, []model.ExecutorID{1}) {
		t.Fatalf("confirmed %v", got)
	}
	a.push <- model.DriverDown{Ended: &model.DriverEnded{State: model.AppKilled, Reason: "by ann"}}
	if err := await(t, ended, "the end"); err != nil {
		t.Fatal(err)
	}
	if got := await(t, rec.ended, "the end"); got.State != model.AppKilled || got.Reason != "by ann" {
		t.Fatalf("ended as %+v", got)
	}
	if len(rec.changes) != 0 {
		t.Fatalf("told once more: %+v", <-rec.changes)
	}
}

func TestADriverThatCannotDialTheLeaderIsProxied(t *testing.T) {
	t.Parallel()
	fc, a, rec := newFakeCluster(), newApp(), newRecorder()
	leader, standby := fc.master(t, a.serve), fc.master(t, nil)
	fc.setLeader(leader.addr)
	c := newClient(t, Config{Masters: []string{standby.addr}, Dialer: func(ctx context.Context, addr string) (net.Conn, error) {
		if addr != standby.addr {
			return nil, errors.New("no route to host")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}})
	_, ended := run(t, c, DriverConfig{Handler: rec})
	for range 2 { // the second time it knows that the leader cannot be dialled
		if got := await(t, a.sessions, "a session"); got != leader.addr {
			t.Fatalf("session with %s", got)
		}
		standby.lis.cut()
	}
	await(t, a.sessions, "a third session")
	a.push <- model.DriverDown{Ended: &model.DriverEnded{State: model.AppFinished}}
	if err := await(t, ended, "the end"); err != nil {
		t.Fatal(err)
	}
}

func TestASilentLeaderIsLeft(t *testing.T) {
	t.Parallel()
	fc, a, rec := newFakeCluster(), newApp(), newRecorder()
	m1, m2 := fc.master(t, a.serve), fc.master(t, a.serve)
	fc.setLeader(m1.addr)
	a.silent[m1.addr] = true
	_, _ = run(t, newClient(t, Config{Masters: []string{m1.addr, m2.addr}}), DriverConfig{Handler: rec, BeatTimeout: 300 * time.Millisecond})
	if got := await(t, a.sessions, "a session"); got != m1.addr {
		t.Fatalf("session with %s", got)
	}
	fc.setLeader(m2.addr)
	if got := await(t, a.sessions, "a session with the other"); got != m2.addr {
		t.Fatalf("session with %s", got)
	}
}

func TestARefusalEndsTheSessionAndANewLeaderDoesNot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"a wrong token":           {model.RejectBadToken.Err("token"), model.ErrUnauthenticated},
		"an unknown application":  {model.RejectUnknownApp.Err("app"), model.ErrNotFound},
		"an application that was": {model.RejectAppEnded.Err("app"), model.ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fc, a := newFakeCluster(), newApp()
			a.refuse = func(string) error { return tc.err }
			m := fc.master(t, a.serve)
			fc.setLeader(m.addr)
			_, ended := run(t, newClient(t, Config{Masters: []string{m.addr}}), DriverConfig{Handler: newRecorder()})
			var rej *model.RejectedError
			if err := await(t, ended, "the end"); !errors.Is(err, tc.want) || !errors.As(err, &rej) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("a leader that is stepping down", func(t *testing.T) {
		t.Parallel()
		fc, a := newFakeCluster(), newApp()
		tries := make(chan struct{}, 64)
		a.refuse = func(string) error { tries <- struct{}{}; return model.ErrNotLeader }
		m := fc.master(t, a.serve)
		fc.setLeader(m.addr)
		_, ended := run(t, newClient(t, Config{Masters: []string{m.addr}}), DriverConfig{Handler: newRecorder()})
		for range 3 {
			await(t, tries, "another try")
		}
		select {
		case err := <-ended:
			t.Fatalf("gave up: %v", err)
		default:
		}
	})
}

func TestASessionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	fc, a := newFakeCluster(), newApp()
	m := fc.master(t, a.serve)
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	d, err := c.OpenDriver(DriverConfig{App: "app-1", Handler: newRecorder()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	await(t, a.sessions, "a session")
	cancel()
	if err := await(t, ended, "the end"); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.OpenDriver(DriverConfig{App: "app-1"}); !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("without a handler: %v", err)
	}
}
