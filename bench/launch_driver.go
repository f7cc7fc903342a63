package bench

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// secretWait is how long an executor may be here before the leader has said that
// there is one.
const secretWait = 10 * time.Second

// launchDriver is the driver of one application: a listener where executors
// register, and a session with the leader, who says which there are and with
// what secrets.
type launchDriver struct {
	app     model.AppID
	session *client.DriverSession // nil in the probe that has no leader
	failed  chan error            // capacity 1
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	secrets    map[model.ExecutorID]model.Secret
	changed    chan struct{} // closed and replaced with each new secret
	registered map[model.ExecutorID]bool
	want       int
	done       chan struct{} // closed when want executors have registered
	at         time.Time     // when
	ended      chan struct{} // closed when the application is over
}

// executorServer is the listener of all drivers of the benchmark.
type executorServer struct {
	addr    string
	cancel  context.CancelFunc
	stopped chan struct{} // closed when it serves no more

	mu      sync.Mutex
	drivers map[model.AppID]*launchDriver
	changed chan struct{} // closed and replaced with each new driver
}

func serveExecutors(ctx context.Context) (*executorServer, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for executors: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &executorServer{
		addr: l.Addr().String(), cancel: cancel, stopped: make(chan struct{}),
		drivers: make(map[model.AppID]*launchDriver), changed: make(chan struct{}),
	}
	server := rpc.NewServer(rpc.ServerConfig{Listener: l}, rpc.Services{Executors: s})
	go func() {
		defer close(s.stopped)
		_ = server.Run(ctx) // were it to fail, executors would not register in time
	}()
	return s, nil
}

func (s *executorServer) close() {
	if s != nil {
		s.cancel()
		<-s.stopped
	}
}

// ExecutorSession implements rpc.ExecutorHub: it registers one executor and
// holds its stream until the application is over.
func (s *executorServer) ExecutorSession(ctx context.Context, stream rpc.ExecutorSessionStream) error {
	up, err := stream.Recv()
	if err != nil {
		return err
	}
	if up.Hello == nil {
		return fmt.Errorf("%w: the first message of an executor must be a hello", model.ErrInvalid)
	}
	waiting, cancel := context.WithTimeout(ctx, secretWait)
	defer cancel()
	d, err := s.driver(waiting, up.Hello.App)
	if err != nil {
		return err
	}
	if err := d.register(waiting, up.Hello); err != nil {
		return err
	}
	if err := stream.Send(model.ExecutorDown{Welcome: &model.ExecutorWelcome{BeatMilli: time.Minute.Milliseconds()}}); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-d.ended:
	}
	return nil
}

func (s *executorServer) driver(ctx context.Context, app model.AppID) (*launchDriver, error) {
	for {
		s.mu.Lock()
		d, changed := s.drivers[app], s.changed
		s.mu.Unlock()
		if d != nil {
			return d, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: application %s has no driver here", model.ErrNotFound, app)
		}
	}
}

func newLaunchDriver(app model.AppID, n int) *launchDriver {
	return &launchDriver{
		app: app, failed: make(chan error, 1), want: n,
		secrets: make(map[model.ExecutorID]model.Secret), registered: make(map[model.ExecutorID]bool),
		changed: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}),
	}
}

// announce has executors of an application find their driver.
func (s *executorServer) announce(d *launchDriver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drivers[d.app] = d
	close(s.changed)
	s.changed = make(chan struct{})
}

// open begins to drive an application that wants n executors.
func (s *executorServer) open(ctx context.Context, c *client.Client, reply rpc.RegisterAppReply, n int) (*launchDriver, error) {
	d := newLaunchDriver(reply.App, n)
	session, err := c.OpenDriver(client.DriverConfig{App: reply.App, Token: reply.Token, Addr: s.addr, Handler: d})
	if err != nil {
		return nil, err
	}
	d.session = session
	s.announce(d)
	ctx, d.cancel = context.WithCancel(ctx)
	d.running.Go(func() {
		if err := session.Run(ctx); err != nil && ctx.Err() == nil {
			d.failed <- err
		}
	})
	return d, nil
}

// ExecutorChanged implements client.DriverHandler.
func (d *launchDriver) ExecutorChanged(e model.DriverExecutor) {
	if e.State.Terminal() && e.Cause != model.CauseKill {
		select {
		case d.failed <- fmt.Errorf("executor %s/%d ended as %s: %s", d.app, e.ID, e.State, e.Reason):
		default:
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.Secret == "" {
		return
	}
	d.secrets[e.ID] = e.Secret
	close(d.changed)
	d.changed = make(chan struct{})
}

// Ended implements client.DriverHandler.
func (d *launchDriver) Ended(model.DriverEnded) { close(d.ended) }

// register takes an executor in if its secret is right.
func (d *launchDriver) register(ctx context.Context, h *model.ExecutorHello) error {
	for {
		d.mu.Lock()
		secret, known := d.secrets[h.Executor]
		changed := d.changed
		d.mu.Unlock()
		if known {
			if !secret.Is(h.Secret) {
				return fmt.Errorf("%w: executor %s/%d has another secret", model.ErrUnauthenticated, d.app, h.Executor)
			}
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: the leader has not announced executor %s/%d", model.ErrNotFound, d.app, h.Executor)
		}
	}
	if d.session != nil {
		d.session.Confirm(h.Executor)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registered[h.Executor] = true
	if len(d.registered) == d.want && d.at.IsZero() {
		d.at = time.Now()
		close(d.done)
	}
	return nil
}

// await returns when all executors had registered.
func (d *launchDriver) await(ctx context.Context) (time.Time, error) {
	select {
	case <-d.done:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.at, nil
	case err := <-d.failed:
		return time.Time{}, err
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		return time.Time{}, fmt.Errorf("%d of %d executors have registered: %w", len(d.registered), d.want, ctx.Err())
	}
}

// close ends the session.
func (d *launchDriver) close() {
	d.cancel()
	d.running.Wait()
}
