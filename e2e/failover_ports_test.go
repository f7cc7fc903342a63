//go:build e2e

package e2e

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// reservation keeps the TCP ports of a dead daemon for its next start. A port
// that nobody listens on may be given to any outgoing connection of the
// machine, and a hundred restarts among busy clients would meet one. A socket
// that is bound but does not listen prevents that, refuses connections as a
// closed port does, and lets the daemon bind beside it.
type reservation struct {
	held map[string]int // descriptors by address
}

func newReservation(t testing.TB) *reservation {
	r := &reservation{held: map[string]int{}}
	t.Cleanup(func() {
		for _, fd := range r.held {
			_ = unix.Close(fd) // nothing was written
		}
	})
	return r
}

// keep reserves the ports of a daemon that is not running now.
func (r *reservation) keep(t testing.TB, n *node) {
	t.Helper()
	for _, addr := range []string{n.GRPC, n.Raft, n.Serf, n.HTTP} {
		if addr != "" {
			r.hold(t, addr)
		}
	}
}

// hold reserves one address; a second time changes nothing.
func (r *reservation) hold(t testing.TB, addr string) {
	t.Helper()
	if _, done := r.held[addr]; done {
		return
	}
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("reserve %s: %v", addr, err)
	}
	r.held[addr] = fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		t.Fatalf("reserve %s: %v", addr, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: ap.Addr().As4()}); err != nil {
		t.Fatalf("reserve %s: %v", addr, err)
	}
}
