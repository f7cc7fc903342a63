package rpc

import (
	"context"
	"errors"
	"math/rand"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

func TestHA41ACallIntoABlackHoleFailsWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, err := Dial("192.0.2.1:7070", DialConfig{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		_, err = ClusterClient(conn).Staleness(context.Background())
		if d := time.Since(began); d > 5*time.Second || !errors.Is(err, model.ErrUnavailable) {
			t.Fatalf("after %s: %v", d, err)
		}
		err = ClusterClient(conn).KillApp(context.Background(), CallInfo{RequestID: "r"}, "a", "")
		if errors.Is(err, model.ErrOutcomeUnknown) {
			t.Fatalf("nothing was sent, but: %v", err)
		}
	})
}

// silenceLimit is the limit of HA-41.
const silenceLimit = 20 * time.Second

// simServer serves over a simulated network until stop is called.
func simServer(t *testing.T, h *simnet.Host, f *fakeServices) (stop func()) {
	t.Helper()
	lis, err := h.Listen(":7070")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{Listener: lis}, allServices(f))
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// clientEnd is what the caller's ends of all sessions have in common.
type clientEnd struct {
	beat func() error // sends one
	recv func() error
	end  func() error
}

// sessionKinds are all long-lived streams: how the server's end waits for the
// peer, and how the caller opens one.
var sessionKinds = map[string]struct {
	serve func(f *fakeServices, received func(error))
	open  func(context.Context, *Conn) (clientEnd, error)
}{
	"a worker and the leader": {
		func(f *fakeServices, received func(error)) {
			f.workerSession = func(_ context.Context, s WorkerSessionStream) error {
				return receiveAll(received, func() error { _, err := s.Recv(); return err })
			}
		},
		func(ctx context.Context, c *Conn) (clientEnd, error) {
			s, err := OpenWorkerSession(ctx, c)
			if err != nil {
				return clientEnd{}, err
			}
			return clientEnd{
				func() error { return s.Send(model.WorkerUp{Beat: &model.Beat{Number: 1}}) },
				func() error { _, err := s.Recv(); return err }, s.Close,
			}, nil
		},
	},
	"a driver and the leader": {
		func(f *fakeServices, received func(error)) {
			f.driverSession = func(_ context.Context, s DriverSessionStream) error {
				return receiveAll(received, func() error { _, err := s.Recv(); return err })
			}
		},
		func(ctx context.Context, c *Conn) (clientEnd, error) {
			s, err := OpenDriverSession(ctx, c, false)
			if err != nil {
				return clientEnd{}, err
			}
			return clientEnd{
				func() error { return s.Send(model.DriverUp{Beat: &model.Beat{Number: 1}}) },
				func() error { _, err := s.Recv(); return err }, s.Close,
			}, nil
		},
	},
	"an executor and its driver": {
		func(f *fakeServices, received func(error)) {
			f.executors = func(_ context.Context, s ExecutorSessionStream) error {
				return receiveAll(received, func() error { _, err := s.Recv(); return err })
			}
		},
		func(ctx context.Context, c *Conn) (clientEnd, error) {
			s, err := OpenExecutorSession(ctx, c)
			if err != nil {
				return clientEnd{}, err
			}
			return clientEnd{
				func() error { return s.Send(model.ExecutorUp{Beat: &model.Beat{Number: 1}}) },
				func() error { _, err := s.Recv(); return err }, s.Close,
			}, nil
		},
	},
}

// receiveAll tells of each message and of the error that ends the stream.
func receiveAll(received func(error), recv func() error) error {
	for {
		err := recv()
		received(err)
		if err != nil {
			return err
		}
	}
}

// Neither end has anything to say when packets begin to be dropped.
func TestHA41BothEndsOfASessionNoticeDroppedPacketsWithinTwentySeconds(t *testing.T) {
	t.Parallel()
	for name, kind := range sessionKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := simnet.New(rand.New(rand.NewSource(1)))
				server := make(chan error, 8)
				f := &fakeServices{}
				kind.serve(f, func(err error) { server <- err })
				stop := simServer(t, network.Host("master"), f)
				conn, err := Dial("master:7070", DialConfig{Dial: network.Host("worker").Dial})
				if err != nil {
					t.Fatal(err)
				}
				s, err := kind.open(context.Background(), conn)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(s.beat(), <-server); err != nil {
					t.Fatal(err)
				}
				// Virtual: idle, none the worse for it, and just after a ping.
				time.Sleep(5*time.Minute + time.Second)
				network.Partition("master", "worker")
				began := time.Now()
				caller := make(chan error, 1)
				go func() { caller <- s.recv() }()
				for end, ch := range map[string]chan error{"caller": caller, "server": server} {
					select {
					case err := <-ch:
						if err == nil {
							t.Errorf("the %s has received something", end)
						}
						t.Logf("the %s noticed after %s: %v", end, time.Since(began), err)
					case <-time.After(silenceLimit - time.Since(began)):
						t.Errorf("the %s has noticed nothing after %s", end, time.Since(began))
					}
				}
				if err := errors.Join(s.end(), conn.Close()); err != nil {
					t.Error(err)
				}
				network.Heal()
				stop()
			})
		})
	}
}

func TestHA42AServerToleratesTwiceAsManyPingsAsAClientSends(t *testing.T) {
	t.Parallel()
	if 2*KeepaliveMinimum > KeepaliveInterval {
		t.Errorf("servers tolerate a ping each %s and clients send one each %s: want at most half", KeepaliveMinimum, KeepaliveInterval)
	}
	if KeepaliveInterval < 10*time.Second {
		t.Errorf("gRPC raises intervals below 10 s, so %s would not be what clients do", KeepaliveInterval)
	}
}

// Half of the streams share a connection, the others have one each.
func TestHA42AHundredIdleStreamsOutliveAnHour(t *testing.T) {
	t.Parallel()
	const streams = 100
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(rand.New(rand.NewSource(1)))
		stop := simServer(t, network.Host("master"), &fakeServices{
			executors: func(ctx context.Context, _ ExecutorSessionStream) error {
				<-ctx.Done()
				return ctx.Err()
			},
		})
		var conns []*Conn
		ended := make(chan error, streams)
		var ends []func() error
		for n := range streams {
			if n < 1 || n > streams/2 {
				conn, err := Dial("master:7070", DialConfig{Dial: network.Host("worker").Dial})
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
			}
			s, err := OpenExecutorSession(context.Background(), conns[len(conns)-1])
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(model.ExecutorUp{Hello: &model.ExecutorHello{}}); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, s.Close)
			go func() {
				_, err := s.Recv()
				ended <- err
			}()
		}
		time.Sleep(time.Hour) // virtual
		early := len(ended)
		for range early {
			t.Errorf("a stream was closed: %v", <-ended)
		}
		for _, end := range ends {
			_ = end()
		}
		for range streams - early {
			<-ended
		}
		for _, conn := range conns {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
		stop()
	})
}

func TestHA42AConnectionWithoutCallsOutlivesManyPings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(rand.New(rand.NewSource(1)))
		lis, err := network.Host("master").Listen(":7070")
		if err != nil {
			t.Fatal(err)
		}
		s := NewServer(ServerConfig{Listener: lis}, allServices(&fakeServices{}))
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		dials := 0
		conn, err := Dial("master:7070", DialConfig{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			dials++
			return network.Host("worker").Dial(ctx, addr)
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := ClusterClient(conn).Staleness(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // virtual
		}
		if dials != 1 {
			t.Errorf("dialled %d times: the server found the pings too many", dials)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}
