package rpc

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// pair serves a leader and a standby that knows it.
func pair(t *testing.T, f *fakeServices) (leader *Server, cut func(), standby *Server) {
	t.Helper()
	leader, lis := serve(t, ServerConfig{Leader: ready()}, allServices(f))
	standby, _ = serve(t, ServerConfig{Leader: leaderAt(leader.Addr().String())}, allServices(&fakeServices{
		registerApp: func(context.Context, CallInfo, model.AppSpec) (RegisterAppReply, error) {
			t.Error("a standby served a leader's call")
			return RegisterAppReply{}, nil
		},
	}))
	return leader, lis.cut, standby
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	return lis.Addr().String()
}

// shortContext is for calls that wait for a leader in vain.
func shortContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var commandSpec = model.AppSpec{
	Name: "app", Kind: model.AppKindCommand, Executors: 1, Restart: model.RestartNever,
	Profile: model.Profile{MemoryMiB: 1}, Command: model.Command{Argv: []string{"true"}},
}

func TestAStandbyForwardsALeadersCallWithAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	var info CallInfo
	var spec model.AppSpec
	_, _, standby := pair(t, &fakeServices{registerApp: func(_ context.Context, c CallInfo, s model.AppSpec) (RegisterAppReply, error) {
		info, spec = c, s
		return RegisterAppReply{App: "app-7", Token: "t", Index: 9}, nil
	}})
	c := ClusterClient(dial(t, standby.Addr().String(), DialConfig{Principal: "ann"}))
	got, err := c.RegisterApp(testContext(t), CallInfo{RequestID: "r-7", Base: 3}, commandSpec)
	if err != nil {
		t.Fatal(err)
	}
	if want := (RegisterAppReply{App: "app-7", Token: "t", Index: 9}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want := (CallInfo{RequestID: "r-7", Base: 3, Principal: "ann", From: "127.0.0.1"}); info != want {
		t.Errorf("the leader saw %+v, want %+v", info, want)
	}
	if !cmp.Equal(spec, commandSpec) {
		t.Errorf("the description changed:\n%s", cmp.Diff(commandSpec, spec))
	}
}

func TestTheLeadersOwnErrorComesBackThroughTheStandby(t *testing.T) {
	t.Parallel()
	_, _, standby := pair(t, &fakeServices{killApp: func(context.Context, CallInfo, model.AppID, string) error {
		return model.RejectUnknownApp.Err("no such application")
	}})
	err := ClusterClient(dial(t, standby.Addr().String(), DialConfig{})).KillApp(testContext(t), CallInfo{RequestID: "r"}, "a", "")
	var rej *model.RejectedError
	if !errors.As(err, &rej) || rej.Reason != model.RejectUnknownApp || !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestACallIsForwardedOnceOnly(t *testing.T) {
	t.Parallel()
	second, _ := serve(t, ServerConfig{Leader: leaderAt("third:1")}, allServices(&fakeServices{}))
	first, _ := serve(t, ServerConfig{Leader: leaderAt(second.Addr().String())}, allServices(&fakeServices{}))
	// The first holds the call for as long as it may, which is less than this.
	err := ClusterClient(dial(t, first.Addr().String(), DialConfig{})).KillApp(testContext(t), CallInfo{RequestID: "r"}, "a", "")
	if hint, _ := LeaderHint(err); !errors.Is(err, model.ErrNotLeader) || hint != "third:1" {
		t.Fatalf("got %v", err)
	}
}

func TestWithoutALeaderACallIsRefusedAndReadsAreServed(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{Leader: leaderAt("")}, allServices(&fakeServices{}))
	c, ctx := ClusterClient(dial(t, s.Addr().String(), DialConfig{})), testContext(t)
	if err := c.KillApp(shortContext(t), CallInfo{RequestID: "r"}, "a", ""); !errors.Is(err, model.ErrNoLeader) {
		t.Errorf("a change: %v", err)
	}
	if _, err := c.App(shortContext(t), AppRequest{ID: "a", Strong: true}); !errors.Is(err, model.ErrNoLeader) {
		t.Errorf("a strong read: %v", err)
	}
	if _, err := c.App(ctx, AppRequest{ID: "a"}); err != nil {
		t.Errorf("a read: %v", err)
	}
}

func TestALeaderThatRefusesConnectionsLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{Leader: leaderAt(closedPort(t))}, allServices(&fakeServices{}))
	err := ClusterClient(dial(t, s.Addr().String(), DialConfig{})).KillApp(shortContext(t), CallInfo{RequestID: "r"}, "a", "")
	if !errors.Is(err, model.ErrNoLeader) || errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestABrokenConnectionAfterTheRequestLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	var cutLeader func()
	f := &fakeServices{killApp: func(ctx context.Context, _ CallInfo, _ model.AppID, _ string) error {
		cutLeader()
		<-ctx.Done()
		return ctx.Err()
	}}
	leader, cut, standby := pair(t, f)
	cutLeader = cut
	for name, addr := range map[string]string{"directly": leader.Addr().String(), "through a standby": standby.Addr().String()} {
		err := ClusterClient(dial(t, addr, DialConfig{})).KillApp(shortContext(t), CallInfo{RequestID: "r"}, "a", "")
		if !errors.Is(err, model.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAChangeOfLeaderMovesForwardedCalls(t *testing.T) {
	t.Parallel()
	var served [2]int
	addrs := make([]string, 2)
	for i := range addrs {
		s, _ := serve(t, ServerConfig{Leader: ready()}, allServices(&fakeServices{
			killApp: func(context.Context, CallInfo, model.AppID, string) error { served[i]++; return nil },
		}))
		addrs[i] = s.Addr().String()
	}
	info := leaderAt(addrs[0])
	s, _ := serve(t, ServerConfig{Leader: info}, allServices(&fakeServices{}))
	c := ClusterClient(dial(t, s.Addr().String(), DialConfig{}))
	for i := range addrs {
		info.follow(addrs[i])
		if err := c.KillApp(testContext(t), CallInfo{RequestID: "r"}, "a", ""); err != nil {
			t.Fatal(err)
		}
	}
	if served != [2]int{1, 1} {
		t.Fatalf("calls served by the two leaders: %v", served)
	}
}

func TestAStandbyRefusesStreamsWithAHintUnlessAskedToProxy(t *testing.T) {
	t.Parallel()
	leader, _, standby := pair(t, &fakeServices{driverSession: func(ctx context.Context, s DriverSessionStream) error {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if err := s.Send(model.DriverDown{Executors: &model.DriverExecutors{Index: 4, BeatMilli: 5}}); err != nil {
			return err
		}
		_, err = s.Recv()
		if err != nil {
			return err
		}
		return model.RejectBadToken.Err("token of " + string(m.Hello.App))
	}})
	ctx := testContext(t)
	conn := dial(t, standby.Addr().String(), DialConfig{})
	plain, err := OpenDriverSession(ctx, conn, false)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_, err = plain.Recv()
	if hint, _ := LeaderHint(err); hint != leader.Addr().String() {
		t.Fatalf("without proxy: %v", err)
	}
	proxied, err := OpenDriverSession(ctx, conn, true)
	if err != nil {
		t.Fatal(err)
	}
	defer proxied.Close()
	if err := proxied.Send(model.DriverUp{Hello: &model.DriverHello{App: "app-1"}}); err != nil {
		t.Fatal(err)
	}
	got, err := proxied.Recv()
	if want := (model.DriverDown{Executors: &model.DriverExecutors{Index: 4, BeatMilli: 5}}); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := proxied.Send(model.DriverUp{Beat: &model.Beat{Number: 1}}); err != nil {
		t.Fatal(err)
	}
	_, err = proxied.Recv()
	var rej *model.RejectedError
	if !errors.As(err, &rej) || rej.Text != "token of app-1" || !Answered(err) {
		t.Fatalf("the leader's refusal arrived as %v", err)
	}
}

func TestAProxiedStreamEndsWhenTheLeaderDiesOrTheClientGoes(t *testing.T) {
	t.Parallel()
	left := make(chan struct{}, 2)
	_, cut, standby := pair(t, &fakeServices{workerSession: func(_ context.Context, s WorkerSessionStream) error {
		defer func() { left <- struct{}{} }()
		return untilEnd(s.Recv, func(m model.WorkerUp) error { return s.Send(model.WorkerDown{BeatAck: m.Beat}) })
	}})
	conn := dial(t, standby.Addr().String(), DialConfig{})
	open := func() WorkerSessionClient {
		s, err := OpenProxiedWorkerSession(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(model.WorkerUp{Beat: &model.Beat{Number: 8}}); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Recv(); err != nil || m.BeatAck.Number != 8 {
			t.Fatalf("got %+v, %v", m, err)
		}
		return s
	}
	gone := open()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	<-left
	s := open()
	defer s.Close()
	cut()
	if _, err := s.Recv(); !errors.Is(err, model.ErrUnavailable) {
		t.Fatalf("after the leader's death: %v", err)
	}
	<-left
}

// A leader that is cut off would hold the call until its deadline.
func TestACallThatHangsAtAnOldLeaderIsGivenUpWhenAnotherLeads(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	old, _ := serve(t, ServerConfig{Leader: ready()}, allServices(&fakeServices{
		killApp: func(ctx context.Context, _ CallInfo, _ model.AppID, _ string) error {
			close(arrived)
			<-ctx.Done()
			return ctx.Err()
		},
	}))
	known := leaderAt(old.Addr().String())
	standby, _ := serve(t, ServerConfig{Leader: known}, allServices(&fakeServices{}))
	go func() {
		<-arrived
		known.follow("127.0.0.1:1")
	}()
	err := ClusterClient(dial(t, standby.Addr().String(), DialConfig{})).KillApp(shortContext(t), CallInfo{RequestID: "r"}, "a", "")
	if !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("got %v, want outcome unknown", err)
	}
}
