package rpc

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/hearthd/hearth/model"
)

// untilHeld waits until calls and sessions wait at s.
func untilHeld(t *testing.T, s *Server, calls, sessions int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx := testContext(t); ; {
		s.held.mu.Lock()
		c, n := s.held.calls, s.held.sessions
		s.held.mu.Unlock()
		if c == calls && n == sessions {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d calls and %d sessions wait, want %d and %d", c, n, calls, sessions)
		}
	}
}

// kill makes a call that only the leader can serve.
func kill(t *testing.T, addr string) <-chan error {
	t.Helper()
	c, ctx := ClusterClient(dial(t, addr, DialConfig{})), testContext(t)
	done := make(chan error, 1)
	go func() { done <- c.KillApp(ctx, CallInfo{RequestID: "r-1", Base: 4}, "a", "") }()
	return done
}

// readStrongly makes a call that only a leader that is ready can serve.
func readStrongly(t *testing.T, addr string) <-chan error {
	t.Helper()
	c, ctx := ClusterClient(dial(t, addr, DialConfig{})), testContext(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.App(ctx, AppRequest{ID: "a", Strong: true})
		done <- err
	}()
	return done
}

// counted serves killApp and counts the calls with the request id of kill.
func counted(n *atomic.Int32) *fakeServices {
	return &fakeServices{killApp: func(_ context.Context, c CallInfo, _ model.AppID, _ string) error {
		if c.RequestID == "r-1" && c.Base == 4 {
			n.Add(1)
		}
		return nil
	}}
}

func TestACallWaitsAtAStandbyUntilSomebodyLeads(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	leader, _ := serve(t, ServerConfig{Leader: ready()}, allServices(counted(&served)))
	known := leaderAt("")
	standby, _ := serve(t, ServerConfig{Leader: known}, allServices(&fakeServices{}))
	done := kill(t, standby.Addr().String())
	untilHeld(t, standby, 1, 0)
	known.follow(leader.Addr().String())
	if err := <-done; err != nil || served.Load() != 1 {
		t.Fatalf("got %v, served %d times", err, served.Load())
	}
	untilHeld(t, standby, 0, 0)
}

func TestACallWhoseLeaderHasDiedIsServedHereOnceThisMasterLeads(t *testing.T) {
	t.Parallel()
	known := leaderAt(closedPort(t))
	standby, _ := serve(t, ServerConfig{Leader: known}, allServices(&fakeServices{}))
	done := readStrongly(t, standby.Addr().String())
	untilHeld(t, standby, 1, 0)
	known.set(func() { known.addr, known.elected = standby.Addr().String(), true })
	untilHeld(t, standby, 1, 0)
	known.set(func() { known.leading = true })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAForwardedCallWaitsUntilTheElectedMasterIsReady(t *testing.T) {
	t.Parallel()
	self := leaderAt("")
	self.set(func() { self.elected = true })
	elected, _ := serve(t, ServerConfig{Leader: self}, allServices(&fakeServices{}))
	standby, _ := serve(t, ServerConfig{Leader: leaderAt(elected.Addr().String())}, allServices(&fakeServices{}))
	done := readStrongly(t, standby.Addr().String())
	untilHeld(t, elected, 1, 0)
	self.set(func() { self.leading = true })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A command is judged when it is applied, behind all that was committed before.
func TestAProposalDoesNotWaitUntilTheElectedMasterIsReady(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	self := leaderAt("")
	elected, _ := serve(t, ServerConfig{Leader: self}, allServices(counted(&served)))
	done := kill(t, elected.Addr().String())
	untilHeld(t, elected, 1, 0)
	self.set(func() { self.elected = true })
	if err := <-done; err != nil || served.Load() != 1 {
		t.Fatalf("got %v, served %d times", err, served.Load())
	}
}

func TestACallIsPassedOnOverTheConnectionThatIsKeptOpen(t *testing.T) {
	t.Parallel()
	leader, lis := serve(t, ServerConfig{Leader: ready()}, allServices(&fakeServices{}))
	warm := dial(t, leader.Addr().String(), DialConfig{})
	if _, err := ClusterClient(warm).Status(testContext(t)); err != nil {
		t.Fatal(err)
	}
	standby, _ := serve(t, ServerConfig{
		Leader: leaderAt(leader.Addr().String()),
		Peers:  func(string) (*Conn, error) { return warm, nil },
		Dial: func(context.Context, string) (net.Conn, error) {
			return nil, errors.New("the standby dialled")
		},
	}, allServices(&fakeServices{}))
	for range 2 {
		if err := <-readStrongly(t, standby.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	lis.mu.Lock()
	defer lis.mu.Unlock()
	if n := len(lis.conns); n != 1 {
		t.Errorf("the leader has %d connections, want 1", n)
	}
}

// The client never hears of it: the repeat has the same request id.
func TestACallOfUnknownOutcomeIsRepeatedAtTheNextLeader(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	var cutLeader func()
	known := leaderAt("")
	var repeats atomic.Int32
	old, lis := serve(t, ServerConfig{Leader: ready()}, allServices(&fakeServices{
		killApp: func(ctx context.Context, _ CallInfo, _ model.AppID, _ string) error {
			if repeats.Add(1) == 1 {
				cutLeader()
			}
			<-ctx.Done()
			return ctx.Err()
		},
	}))
	cutLeader = lis.cut
	next, _ := serve(t, ServerConfig{Leader: ready()}, allServices(counted(&served)))
	known.follow(old.Addr().String())
	standby, _ := serve(t, ServerConfig{Leader: known}, allServices(&fakeServices{}))
	done := kill(t, standby.Addr().String())
	untilHeld(t, standby, 1, 0)
	known.follow(next.Addr().String())
	if err := <-done; err != nil || served.Load() != 1 {
		t.Fatalf("got %v, served %d times by the next leader", err, served.Load())
	}
}

func TestAReadThatOnlyTheLeaderCanServeWaitsToo(t *testing.T) {
	t.Parallel()
	leader, _ := serve(t, ServerConfig{Leader: ready()}, allServices(&fakeServices{}))
	known := leaderAt("")
	standby, _ := serve(t, ServerConfig{Leader: known}, allServices(&fakeServices{}))
	done := readStrongly(t, standby.Addr().String())
	untilHeld(t, standby, 1, 0)
	known.follow(leader.Addr().String())
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A call without a request id must not be repeated: its client decides.
func TestACallWithoutARequestIDDoesNotWait(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{Leader: leaderAt("")}, allServices(&fakeServices{}))
	began := time.Now()
	err := ClusterClient(dial(t, s.Addr().String(), DialConfig{})).TransferLeadership(testContext(t), "")
	if took := time.Since(began); !errors.Is(err, model.ErrNoLeader) || took >= CallHold {
		t.Fatalf("got %v after %s", err, took)
	}
}

func TestACallThatWaitsIsAnsweredBeforeItsCallersDeadline(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{Leader: leaderAt("")}, allServices(&fakeServices{}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := ClusterClient(dial(t, s.Addr().String(), DialConfig{})).KillApp(ctx, CallInfo{RequestID: "r"}, "a", "")
	if !errors.Is(err, model.ErrNoLeader) || errors.Is(err, model.ErrOutcomeUnknown) || !Answered(err) {
		t.Fatalf("got %v", err)
	}
}

func TestTheHoldIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(ServerConfig{Leader: leaderAt("")}, Services{})
		m := methodTable()["/hearth.cluster.v1.Cluster/KillApp"]
		if !m.identified {
			t.Fatal("the table has no such method")
		}
		began := time.Now()
		_, err := s.atLeader(t.Context(), "KillApp", m, nil, nil)
		if took := time.Since(began); !errors.Is(err, model.ErrNoLeader) || took != CallHold {
			t.Errorf("got %v after %s, want no leader after %s", err, took, CallHold)
		}
		for range MaxHeldCalls {
			if _, ok := s.held.call(0); !ok {
				t.Fatal("refused below the limit")
			}
		}
		began = time.Now()
		_, err = s.atLeader(t.Context(), "KillApp", m, nil, nil)
		if took := time.Since(began); !errors.Is(err, model.ErrNoLeader) || took != 0 {
			t.Errorf("got %v after %s with %d calls waiting, want no leader at once", err, took, MaxHeldCalls)
		}
		h := &holds{}
		if _, ok := h.call(MaxHeldBytes); !ok {
			t.Error("the bytes of one call were refused below the limit")
		}
		if _, ok := h.call(1); ok {
			t.Error("more bytes wait than the limit allows")
		}
	})
}

// An expired repeat says nothing of the attempt before it.
func TestAnExpiredRepeatOfAnUnknownAttemptStaysUnknown(t *testing.T) {
	t.Parallel()
	h := &heldCall{s: NewServer(ServerConfig{}, Services{}), m: method{changes: true, identified: true}}
	if !h.again(t.Context(), model.ErrOutcomeUnknown) {
		t.Fatal("an unknown outcome is not repeated")
	}
	if h.again(t.Context(), model.ErrRequestExpired) {
		t.Error("an expired request is repeated")
	}
	if err := h.outcome(model.ErrRequestExpired); !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	if err := h.outcome(model.ErrInvalid); errors.Is(err, model.ErrOutcomeUnknown) {
		t.Errorf("an answer became %v", err)
	}
}

func TestASessionWaitsUntilSomebodyLeads(t *testing.T) {
	t.Parallel()
	leader := leaderAt("")
	standby, _ := serve(t, ServerConfig{Leader: leader}, allServices(&fakeServices{}))
	conn := dial(t, standby.Addr().String(), DialConfig{})
	open := func() WorkerSessionClient {
		s, err := OpenWorkerSession(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(model.WorkerUp{Beat: &model.Beat{Number: 8}}); err != nil {
			t.Fatal(err)
		}
		untilHeld(t, standby, 0, 1)
		return s
	}
	elsewhere := open()
	defer elsewhere.Close()
	leader.follow("other:1")
	if _, err := elsewhere.Recv(); !errors.Is(err, model.ErrNotLeader) {
		t.Fatalf("got %v", err)
	} else if hint, _ := LeaderHint(err); hint != "other:1" {
		t.Fatalf("the hint is %q", hint)
	}
	leader.follow("")
	here := open()
	defer here.Close()
	leader.set(func() { leader.leading, leader.elected = true, true })
	if m, err := here.Recv(); err != nil || m.BeatAck == nil || m.BeatAck.Number != 8 {
		t.Fatalf("got %+v, %v", m, err)
	}
}

// stillStream is a server stream that nothing is read from.
type stillStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s stillStream) Context() context.Context { return s.ctx }

// Five thousand workers come to two standbys in the moment of a failover.
func TestSessionsThatWaitedAreLetGoOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers = 2500
		leader := leaderAt("")
		s := NewServer(ServerConfig{Leader: leader}, Services{})
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{})
		let := make(chan time.Time, workers)
		for range workers {
			go func() {
				if err := s.leaderStream(ctx, stillStream{ctx: ctx}, "Session", nil); errors.Is(err, model.ErrNotLeader) {
					let <- time.Now()
				}
			}()
		}
		synctest.Wait()
		led := time.Now()
		leader.follow("other:1")
		perTick := map[time.Duration]int{}
		var last time.Duration
		for range workers {
			at := (<-let).Sub(led)
			perTick[at.Truncate(10*time.Millisecond)]++
			last = max(last, at)
		}
		if want := workers * heldSessionPace; last > want {
			t.Errorf("the last was let go after %s, want at most %s", last, want)
		}
		for at, n := range perTick {
			if most := int(10 * time.Millisecond / heldSessionPace); n > most {
				t.Errorf("%d were let go in 10 ms after %s, want at most %d", n, at, most)
			}
		}
		began := time.Now()
		leader.follow("")
		if err := s.leaderStream(ctx, stillStream{ctx: ctx}, "Session", nil); !errors.Is(err, model.ErrNotLeader) || time.Since(began) != SessionHold {
			t.Errorf("without a leader: %v after %s", err, time.Since(began))
		}
	})
}
