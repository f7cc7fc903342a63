package masterd

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// deafStream is a stream whose peer says hello and then neither says nor reads
// anything: Send and Recv block until the stream is closed. The first free
// messages are taken.
type deafStream[Down, Up any] struct {
	hello   chan Up
	free    chan struct{}
	blocked chan struct{} // one for each blocked Send
	closed  chan struct{}
}

func newDeafStream[Down, Up any](t *testing.T, hello Up, free int) *deafStream[Down, Up] {
	t.Helper()
	s := &deafStream[Down, Up]{
		hello: make(chan Up, 1), free: make(chan struct{}, free),
		blocked: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	s.hello <- hello
	for range free {
		s.free <- struct{}{}
	}
	t.Cleanup(func() { close(s.closed) })
	return s
}

func (s *deafStream[Down, Up]) Send(Down) error {
	select {
	case <-s.free:
		return nil
	default:
	}
	s.blocked <- struct{}{}
	<-s.closed
	return io.EOF
}

func (s *deafStream[Down, Up]) Recv() (Up, error) {
	select {
	case up := <-s.hello:
		return up, nil
	case <-s.closed:
		var zero Up
		return zero, io.EOF
	}
}

// A leader scope waits for its sessions, and the next one for the scope.
func TestASessionWhosePeerDoesNotReadEndsWithItsContext(t *testing.T) {
	m, ctx := startOne(t)
	spec := sleeper("driver")
	spec.Kind, spec.Command, spec.Restart, spec.DriverAddr = model.AppKindDriver, model.Command{}, "", "127.0.0.1:1"
	app, err := newClient(t, m).RegisterApp(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	worker := newDeafStream[model.WorkerDown](t, model.WorkerUp{Hello: &model.WorkerHello{
		Worker: "worker-a", Incarnation: 1, BootID: "boot",
		Offer:     model.Offer{Hostname: "127.0.0.1", GRPCAddr: "127.0.0.1:1", SerfAddr: "127.0.0.1:1", Cores: 1, MemoryMiB: 512},
		Inventory: []model.ExecutorReport{running(model.ExecutorRef{App: "app-20261130061500-0099"})},
	}}, 1)
	driver := newDeafStream[model.DriverDown](t, model.DriverUp{Hello: &model.DriverHello{App: app.App, Token: app.Token}}, 0)
	for _, tc := range []struct {
		name    string
		serve   func(context.Context) error
		blocked <-chan struct{}
	}{
		{"of a worker", func(ctx context.Context) error { return sessionService{m.Master}.WorkerSession(ctx, worker) }, worker.blocked},
		{"of a driver", func(ctx context.Context) error { return sessionService{m.Master}.DriverSession(ctx, driver) }, driver.blocked},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sctx, cancel := context.WithCancel(ctx)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- tc.serve(sctx) }()
			select {
			case <-tc.blocked:
			case err := <-ended:
				t.Fatalf("ended before it sent anything: %v", err)
			}
			cancel()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			case <-time.After(testPatience):
				t.Fatal("it has not ended")
			}
		})
	}
}
