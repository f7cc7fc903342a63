package rpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

func TestACallCarriesItsRequestIDBaseAndPrincipal(t *testing.T) {
	t.Parallel()
	var got CallInfo
	f := &fakeServices{killApp: func(_ context.Context, c CallInfo, _ model.AppID, _ string) error {
		got = c
		return nil
	}}
	s, _ := serve(t, ServerConfig{}, allServices(f))
	c := ClusterClient(dial(t, s.Addr().String(), DialConfig{Principal: "ann\nx"}))
	if err := c.KillApp(testContext(t), CallInfo{RequestID: "r-1", Base: 1<<63 + 5}, "app-1", ""); err != nil {
		t.Fatal(err)
	}
	if want := (CallInfo{RequestID: "r-1", Base: 1<<63 + 5, Principal: "ann?x", From: "127.0.0.1"}); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestAChangeWithoutRequestIDIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{}, allServices(&fakeServices{}))
	c := ClusterClient(dial(t, s.Addr().String(), DialConfig{}))
	for _, id := range []string{"", strings.Repeat("x", model.MaxRequestIDBytes+1)} {
		if err := c.KillApp(testContext(t), CallInfo{RequestID: id}, "app-1", ""); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("request id of %d bytes: %v", len(id), err)
		}
	}
}

func TestAPanicIsAnErrorAndTheServerLives(t *testing.T) {
	t.Parallel()
	f := &fakeServices{
		status:        func(context.Context) (model.ClusterView, error) { panic("boom") },
		killApp:       func(context.Context, CallInfo, model.AppID, string) error { panic("boom") },
		workerSession: func(context.Context, WorkerSessionStream) error { panic("boom") },
	}
	s, _ := serve(t, ServerConfig{}, allServices(f))
	conn := dial(t, s.Addr().String(), DialConfig{})
	c, ctx := ClusterClient(conn), testContext(t)
	if _, err := c.Status(ctx); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("a panicking read: %v", err)
	}
	if err := c.KillApp(ctx, CallInfo{RequestID: "r"}, "a", ""); !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Errorf("a panicking change: %v", err)
	}
	ws, err := OpenWorkerSession(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if _, err := ws.Recv(); err == nil {
		t.Error("a panicking session ended without error")
	}
	if _, err := c.Staleness(ctx); err != nil {
		t.Errorf("after the panics: %v", err)
	}
}

func TestASessionEchoesAndEndsWithTheClient(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	f := &fakeServices{}
	f.executors = func(_ context.Context, s ExecutorSessionStream) error {
		err := untilEnd(s.Recv, func(m model.ExecutorUp) error {
			return s.Send(model.ExecutorDown{Tasks: make([]model.ExecTask, len(m.Results))})
		})
		ended <- err
		return err
	}
	s, _ := serve(t, ServerConfig{}, allServices(f))
	es, err := OpenExecutorSession(testContext(t), dial(t, s.Addr().String(), DialConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, model.MaxTaskOutput)
	results := make([]model.TaskResult, 24) // 12 MiB in one call of Send
	for i := range results {
		results[i] = model.TaskResult{ID: model.TaskID(i), Stdout: big, Stderr: big}
	}
	if err := es.Send(model.ExecutorUp{Results: results}); err != nil {
		t.Fatal(err)
	}
	for got := 0; got < len(results); {
		down, err := es.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got += len(down.Tasks)
	}
	for range 2 {
		if err := es.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := es.Recv(); err == nil {
		t.Fatal("a closed session still receives")
	}
	select {
	case <-ended:
	case <-testContext(t).Done():
		t.Fatal("the driver's end did not notice the close")
	}
}

func TestALogIsCutIntoPiecesWithoutGaps(t *testing.T) {
	t.Parallel()
	data := []byte(strings.Repeat("0123456789", MaxLogChunk/4))
	f := &fakeServices{readLog: func(_ context.Context, _ LogRequest, send func(LogChunk) error) error {
		return send(LogChunk{Offset: 7, Data: data})
	}}
	s, _ := serve(t, ServerConfig{}, allServices(f))
	w := WorkerClient(dial(t, s.Addr().String(), DialConfig{}))
	var got []byte
	err := w.ReadLog(testContext(t), LogRequest{Stream: LogStdout}, func(c LogChunk) error {
		if len(c.Data) > MaxLogChunk || c.Offset != 7+int64(len(got)) {
			t.Errorf("piece of %d bytes at %d", len(c.Data), c.Offset)
		}
		got = append(got, c.Data...)
		return nil
	})
	if err != nil || !cmp.Equal(got, data) {
		t.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
	}
	stop := errors.New("enough")
	if err := w.ReadLog(testContext(t), LogRequest{Stream: LogStdout}, func(LogChunk) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("the caller's own error became %v", err)
	}
	if err := w.ReadLog(testContext(t), LogRequest{Stream: "stdlog"}, nil); !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("an unknown stream: %v", err)
	}
}

func TestAMessageBeyondTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, ServerConfig{}, allServices(&fakeServices{}))
	c := ClusterClient(dial(t, s.Addr().String(), DialConfig{}))
	err := c.KillApp(testContext(t), CallInfo{RequestID: "r"}, "a", strings.Repeat("x", MaxMessageBytes+1))
	if !errors.Is(err, model.ErrTooLarge) || errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	spec := model.AppSpec{Name: "big", Kind: model.AppKindCommand, Files: []model.File{{Name: "f", Data: make([]byte, model.MaxSpecBytes+1)}}}
	if _, err := c.RegisterApp(testContext(t), CallInfo{RequestID: "r"}, spec); !errors.Is(err, model.ErrTooLarge) || !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
}

func TestStoppingEndsLongCallsAtOnce(t *testing.T) {
	t.Parallel()
	inside := make(chan struct{}, 2)
	f := &fakeServices{}
	f.waitApp = func(ctx context.Context, _ WaitAppRequest) (model.AppView, error) {
		inside <- struct{}{}
		<-ctx.Done()
		return model.AppView{}, ctx.Err()
	}
	f.driverSession = func(ctx context.Context, _ DriverSessionStream) error {
		inside <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{Listener: lis}, allServices(f))
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	conn := dial(t, lis.Addr().String(), DialConfig{})
	ds, err := OpenDriverSession(testContext(t), conn, false)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	waited := make(chan error, 1)
	go func() {
		_, err := ClusterClient(conn).WaitApp(testContext(t), WaitAppRequest{})
		waited <- err
	}()
	<-inside
	<-inside
	began := time.Now()
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d >= StopGrace {
		t.Errorf("stopping took %s", d)
	}
	if err := <-waited; !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("the wait ended with %v", err)
	}
	if _, err := ds.Recv(); !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("the session ended with %v", err)
	}
}

func TestAHandlerThatIgnoresTheEndIsCutOff(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{Listener: lis}, allServices(&fakeServices{})) // sessions block in Recv
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	ws, err := OpenWorkerSession(testContext(t), dial(t, lis.Addr().String(), DialConfig{}))
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if err := ws.Send(model.WorkerUp{Beat: &model.Beat{Number: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Recv(); err != nil {
		t.Fatal(err)
	}
	stop()
	select {
	case err := <-ran:
		if err != nil {
			t.Fatal(err)
		}
	case <-testContext(t).Done():
		t.Fatal("the server did not stop")
	}
}

func TestCallsWorkOverTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "prod")
	s, _ := serve(t, ServerConfig{TLS: p.issue(tlsconf.RoleMaster, "m1").Server()}, allServices(&fakeServices{}))
	if _, err := ClusterClient(dial(t, s.Addr().String(), DialConfig{TLS: p.issue(tlsconf.RoleClient, "ann").Client()})).Staleness(testContext(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := ClusterClient(dial(t, s.Addr().String(), DialConfig{})).Staleness(ctx); !errors.Is(err, model.ErrUnavailable) {
		t.Fatalf("a plain call to a TLS server: %v", err)
	}
}

func TestIPv6AndNamesAreDialled(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 loopback here: %v", err)
	}
	s, _ := serve(t, ServerConfig{Listener: lis}, allServices(&fakeServices{}))
	if _, err := ClusterClient(dial(t, s.Addr().String(), DialConfig{})).Staleness(testContext(t)); err != nil {
		t.Fatal(err)
	}
	var asked []string
	d := DialConfig{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		asked = append(asked, addr)
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr().String())
	}}
	if _, err := ClusterClient(dial(t, "no-such-host.invalid:7070", d)).Staleness(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"no-such-host.invalid:7070"}; !cmp.Equal(asked, want) {
		t.Fatalf("the dialer was asked for %q, want the name itself", asked)
	}
}
