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

func TestACallIntoABlackHoleFailsWithinFiveSeconds(t *testing.T) {
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

func TestASilentPeerIsNoticedWithinTwentySeconds(t *testing.T) {
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
		conn, err := Dial("master:7070", DialConfig{Dial: network.Host("worker").Dial})
		if err != nil {
			t.Fatal(err)
		}
		ws, err := OpenWorkerSession(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := ws.Send(model.WorkerUp{Beat: &model.Beat{Number: 1}}); err != nil {
			t.Fatal(err)
		}
		if _, err := ws.Recv(); err != nil {
			t.Fatal(err)
		}
		network.Partition("master", "worker")
		began := time.Now()
		_, err = ws.Recv()
		if d := time.Since(began); d > 20*time.Second || !errors.Is(err, model.ErrUnavailable) {
			t.Errorf("after %s: %v", d, err)
		}
		if err := errors.Join(ws.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
		network.Heal()
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

func TestAConnectionWithoutCallsOutlivesManyPings(t *testing.T) {
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
