//go:build linux

package workerd

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/hearthd/hearth/rpc"
)

// knownLeader is what a standby says of the leader.
type knownLeader string

func (knownLeader) Leading() bool            { return false }
func (knownLeader) Elected() bool            { return false }
func (l knownLeader) LeaderAddr() string     { return string(l) }
func (knownLeader) Changed() <-chan struct{} { return nil }

func TestAWorkerThatCannotDialTheLeaderIsPassedOnByAStandby(t *testing.T) {
	leader := newFakeLeader(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	never := &fakeLeader{t: t, hint: leader.addr}
	standby := rpc.NewServer(rpc.ServerConfig{Listener: l, Leader: knownLeader(leader.addr)}, rpc.Services{Workers: never})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- standby.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("standby: %v", err)
		}
	})

	r := &rig{t: t, logger: testLogger(t), cfg: rigConfig(t, l.Addr().String())}
	r.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		if addr == leader.addr {
			return nil, fmt.Errorf("dial %s: %w", addr, syscall.EHOSTUNREACH)
		}
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	r.start()
	t.Cleanup(r.stop)
	leader.welcomed(1)
	eventually(t, "the worker is ready", func() bool {
		code, _ := r.get("/readyz")
		return code == 200
	})
}
