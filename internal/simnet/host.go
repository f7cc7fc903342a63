package simnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// errHostDown is what a crashed host's own calls get.
var errHostDown = errors.New("host has crashed")

// Host is one machine with one address and the process on it. Its maps are guarded by the network's lock.
type Host struct {
	n    *Network
	name string
	ip   net.IP
	died chan struct{} // closed by Crash

	dead      bool
	nextPort  int
	listeners map[int]*Listener
	sockets   map[int]*PacketConn
	conns     map[*Conn]struct{}
}

func newHost(n *Network, name string, ip net.IP) *Host {
	return &Host{
		n:         n,
		name:      name,
		ip:        ip,
		died:      make(chan struct{}),
		nextPort:  firstEphemeralPort,
		listeners: make(map[int]*Listener),
		sockets:   make(map[int]*PacketConn),
		conns:     make(map[*Conn]struct{}),
	}
}

// Name returns the host's name, which is also valid in addresses ("name:port").
func (h *Host) Name() string { return h.name }

// IP returns the host's address. The caller must not change it.
func (h *Host) IP() net.IP { return h.ip }

// Listen opens a stream listener. addr is "host:port": an empty or unspecified host, the host's own name or address, or
// a loopback address (reachable from this host only). Port 0 takes a free one.
func (h *Host) Listen(addr string) (net.Listener, error) {
	ip, port, err := h.bindAddr(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: err}
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	port, err = h.claimPortLocked(port, func(p int) bool { return h.listeners[p] != nil })
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{IP: ip, Port: port}, Err: err}
	}
	l := &Listener{
		host:     h,
		addr:     &net.TCPAddr{IP: ip, Port: port},
		loopback: ip.IsLoopback(),
		queue:    make(chan *Conn, AcceptBacklog),
		done:     make(chan struct{}),
	}
	h.listeners[port] = l
	return l, nil
}

// ListenPacket opens a datagram socket, a *[PacketConn]; addr is as for [Host.Listen].
func (h *Host) ListenPacket(addr string) (net.PacketConn, error) {
	ip, port, err := h.bindAddr(addr)
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Err: err}
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	port, err = h.claimPortLocked(port, func(p int) bool { return h.sockets[p] != nil })
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "udp", Addr: &net.UDPAddr{IP: ip, Port: port}, Err: err}
	}
	p := newPacketConn(h, &net.UDPAddr{IP: ip, Port: port})
	h.sockets[port] = p
	return p, nil
}

// Dial opens a stream connection and blocks for a round trip. It hangs while a link is cut, until ctx ends or
// [ConnectTimeout]. The signature fits gRPC's context dialer.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	ip, port, err := h.Resolve(addr)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	remote := &net.TCPAddr{IP: ip, Port: port}
	conn, err := h.connect(ctx, remote)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: remote, Err: err}
	}
	return conn, nil
}

// DialTimeout is [Host.Dial] with a time limit instead of a context.
func (h *Host) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return h.Dial(ctx, addr)
}

// Resolve turns "host:port" into an address, where host is a name of the network, "localhost" or a literal address.
func (h *Host) Resolve(addr string) (net.IP, int, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("parse address %q: %w", addr, err)
	}
	port, err := strconv.Atoi(service)
	if err != nil || port < 0 || port > lastPort {
		return nil, 0, &net.AddrError{Err: "invalid port", Addr: addr}
	}
	if host == "" || host == "localhost" {
		return net.IPv4(127, 0, 0, 1).To4(), port, nil
	}
	if ip := net.ParseIP(host); ip != nil {
		if v4 := ip.To4(); v4 != nil {
			ip = v4
		}
		return ip, port, nil
	}
	h.n.mu.RLock()
	defer h.n.mu.RUnlock()
	if target := h.n.hosts[host]; target != nil {
		return target.ip, port, nil
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// bindAddr checks that addr is one this host may bind.
func (h *Host) bindAddr(addr string) (net.IP, int, error) {
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, 0, fmt.Errorf("parse address %q: %w", addr, err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = h.ip.String()
	}
	ip, port, err := h.Resolve(net.JoinHostPort(host, service))
	if err != nil {
		return nil, 0, err
	}
	if !ip.Equal(h.ip) && !ip.IsLoopback() {
		return nil, 0, os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)
	}
	return ip, port, nil
}

// claimPortLocked checks a wanted port or finds a free one for 0. n.mu is held for writing.
func (h *Host) claimPortLocked(port int, taken func(int) bool) (int, error) {
	if h.dead {
		return port, errHostDown
	}
	if port != 0 {
		if taken(port) {
			return port, os.NewSyscallError("bind", syscall.EADDRINUSE)
		}
		return port, nil
	}
	for range lastPort - firstEphemeralPort {
		candidate := h.ephemeralLocked()
		// A process that gossips wants one number for both kinds of socket, so port 0 never gives half of a used pair.
		if h.listeners[candidate] == nil && h.sockets[candidate] == nil {
			return candidate, nil
		}
	}
	return 0, os.NewSyscallError("bind", syscall.EADDRINUSE)
}

// ephemeralLocked returns the next port number of the ephemeral range. n.mu is held for writing.
func (h *Host) ephemeralLocked() int {
	port := h.nextPort
	h.nextPort++
	if h.nextPort > lastPort {
		h.nextPort = firstEphemeralPort
	}
	return port
}

// targetLocked finds the host at ip as seen from h. n.mu is held.
func (h *Host) targetLocked(ip net.IP) *Host {
	if ip.IsLoopback() {
		return h
	}
	return h.n.byIP[ip.String()]
}

// connect runs the handshake of a stream connection.
func (h *Host) connect(ctx context.Context, remote *net.TCPAddr) (*Conn, error) {
	timeout := time.NewTimer(ConnectTimeout)
	defer timeout.Stop()
	handshake := time.NewTimer(h.roundTrip(remote.IP))
	defer handshake.Stop()
	arrived := handshake.C
	var changed <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-h.died:
			return nil, errHostDown
		case <-timeout.C:
			return nil, os.NewSyscallError("connect", syscall.ETIMEDOUT)
		case <-arrived:
			arrived = nil
		case <-changed:
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var conn *Conn
		var err error
		if conn, changed, err = h.knock(remote); conn != nil || err != nil {
			return conn, err
		}
	}
}

// roundTrip draws the time a handshake takes, repeats of lost packets included.
func (h *Host) roundTrip(ip net.IP) time.Duration {
	h.n.mu.RLock()
	name := ip.String()
	if target := h.targetLocked(ip); target != nil {
		name = target.name
	}
	h.n.mu.RUnlock()
	return h.n.reliableDelay(h.name, name, SynRetransmit) + h.n.reliableDelay(name, h.name, SynRetransmit)
}

// knock tries to establish a connection now. Without an answer it returns the channel that tells when to try again.
func (h *Host) knock(remote *net.TCPAddr) (*Conn, <-chan struct{}, error) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if h.dead {
		return nil, nil, errHostDown
	}
	target := h.targetLocked(remote.IP)
	if target == nil || !h.n.openLocked(h.name, target.name) || !h.n.openLocked(target.name, h.name) {
		return nil, h.n.changed, nil
	}
	l := target.listeners[remote.Port]
	if target.dead || l == nil || l.loopback && target != h || h.n.refused[link{h.name, target.name}] {
		h.n.count(func(s *Stats) { s.DialsRefused++ })
		return nil, nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	localIP := h.ip
	if remote.IP.IsLoopback() {
		localIP = remote.IP
	}
	near, far := newConnPair(h, target, &net.TCPAddr{IP: localIP, Port: h.ephemeralLocked()}, remote)
	select {
	case l.queue <- far:
	default:
		return nil, h.n.changed, nil // backlog full: the request is dropped and repeated
	}
	h.conns[near] = struct{}{}
	target.conns[far] = struct{}{}
	h.n.count(func(s *Stats) { s.Dials++ })
	return near, nil, nil
}

// takeAllLocked empties the host's tables and returns what was in them. n.mu is held for writing.
func (h *Host) takeAllLocked() ([]*Listener, []*PacketConn, []*Conn) {
	var listeners []*Listener
	for _, l := range h.listeners {
		listeners = append(listeners, l)
	}
	var sockets []*PacketConn
	for _, p := range h.sockets {
		sockets = append(sockets, p)
	}
	var conns []*Conn
	for c := range h.conns {
		conns = append(conns, c)
	}
	clear(h.listeners)
	clear(h.sockets)
	clear(h.conns)
	return listeners, sockets, conns
}
