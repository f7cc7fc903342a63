package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of the wire.
const (
	// MaxInboundStreams bounds the streams that peers have open to us; each lives at most StreamTimeout after its start,
	// longer only while memberlist is busy with it. Further ones are closed at once.
	MaxInboundStreams = 256
	// bindAttempts is how often a free port is looked for that is free for packets and streams.
	bindAttempts = 10
	// maxPacketBytes is the largest datagram there can be.
	maxPacketBytes = 65536
	// socketBufferBytes is what we ask the kernel for, so that bursts survive a busy moment.
	socketBufferBytes = 2 << 20
	// acceptRetryDelay is the pause after a failed accept, for instance for want of file descriptors.
	acceptRetryDelay = 50 * time.Millisecond
	// resolveTimeout bounds the look-up of a seed's name.
	resolveTimeout = 5 * time.Second
)

// wire carries memberlist's packets and streams over a Transport. Its shutdown closes everything that is open, so
// nothing of memberlist lingers in a read or a dial.
type wire struct {
	transport Transport
	names     *names
	listener  net.Listener
	socket    net.PacketConn
	packets   chan *memberlist.Packet
	streams   chan net.Conn

	ctx    context.Context //nolint:containedctx // ends with the wire; memberlist passes none to the dials that need it
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	inbound int
	down    bool

	advertised netip.AddrPort // what FinalAdvertiseAddr answered last
	nameless   error          // why that is not the address of the advertised name
}

var _ memberlist.NodeAwareTransport = (*wire)(nil)

// openWire binds both sockets and starts reading them.
func openWire(t Transport, addr string, n *names) (*wire, error) {
	listener, socket, err := bind(t, addr)
	if err != nil {
		return nil, err
	}
	if s, ok := socket.(interface{ SetReadBuffer(bytes int) error }); ok {
		for size := socketBufferBytes; size > maxPacketBytes && s.SetReadBuffer(size) != nil; {
			size /= 2 // the kernel may allow less
		}
	}
	w := &wire{
		transport: t,
		names:     n,
		listener:  listener,
		socket:    socket,
		packets:   make(chan *memberlist.Packet),
		streams:   make(chan net.Conn),
		open:      make(map[net.Conn]struct{}),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.loops.Add(2)
	go w.acceptStreams()
	go w.readPackets()
	return w, nil
}

// bind opens a listener and a socket with the same port number.
func bind(t Transport, addr string) (net.Listener, net.PacketConn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("parse gossip address %q: %w", addr, err)
	}
	var errs []error
	for range bindAttempts {
		listener, err := t.Listen(addr)
		if err != nil {
			return nil, nil, fmt.Errorf("listen for gossip streams on %s: %w", addr, err)
		}
		bound := port
		if _, actual, err := net.SplitHostPort(listener.Addr().String()); err == nil {
			bound = actual
		}
		socket, err := t.ListenPacket(net.JoinHostPort(host, bound))
		if err == nil {
			return listener, socket, nil
		}
		errs = append(errs, fmt.Errorf("listen for gossip packets on port %s of %q: %w", bound, host, err), listener.Close())
		if port != "0" {
			break
		}
	}
	return nil, nil, errors.Join(errs...)
}

func (w *wire) acceptStreams() {
	defer w.loops.Done()
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			if !w.pause(acceptRetryDelay) {
				return
			}
			continue
		}
		stream := w.track(conn, true)
		if stream == nil {
			_ = conn.Close()
			continue
		}
		select {
		case w.streams <- stream:
		case <-w.ctx.Done():
			_ = stream.Close()
			return
		}
	}
}

func (w *wire) readPackets() {
	defer w.loops.Done()
	buf := make([]byte, maxPacketBytes)
	for {
		n, from, err := w.socket.ReadFrom(buf)
		now := time.Now()
		if err != nil {
			// Some systems report here that an earlier datagram of ours met a closed port.
			if errors.Is(err, net.ErrClosed) || !w.pause(time.Millisecond) {
				return
			}
			continue
		}
		if n == 0 {
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: now}
		select {
		case w.packets <- packet:
		case <-w.ctx.Done():
			return
		}
	}
}

// pause waits; false means that the wire is going down.
func (w *wire) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// track registers a connection to be closed with the wire; nil means that there is no room or no wire any more.
func (w *wire) track(conn net.Conn, inbound bool) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down || inbound && w.inbound >= MaxInboundStreams {
		return nil
	}
	if inbound {
		w.inbound++
	}
	s := &stream{Conn: conn, wire: w, inbound: inbound}
	w.open[s] = struct{}{}
	return s
}

// stream is a connection that takes itself off the books.
type stream struct {
	net.Conn
	wire    *wire
	inbound bool
	once    sync.Once
}

// Close closes the connection; calling it again does nothing.
func (s *stream) Close() error {
	err := error(nil)
	s.once.Do(func() {
		err = s.Conn.Close()
		s.wire.mu.Lock()
		defer s.wire.mu.Unlock()
		delete(s.wire.open, s)
		if s.inbound {
			s.wire.inbound--
		}
	})
	return err
}

// FinalAdvertiseAddr decides what others are told. A name is resolved here if that is possible; without a host, or with a
// name that only others know, the bound address is taken, and for a bind to all interfaces the machine's first private
// one. Others look up a name for themselves (see names).
func (w *wire) FinalAdvertiseAddr(host string, port int) (net.IP, int, error) {
	bound, err := netip.ParseAddrPort(w.listener.Addr().String())
	if err != nil {
		return nil, 0, fmt.Errorf("parse bound gossip address: %w", err)
	}
	if port == 0 {
		port = int(bound.Port())
	}
	ip := bound.Addr().Unmap()
	var nameless error
	if host != "" {
		ctx, cancel := context.WithTimeout(w.ctx, nameTimeout)
		defer cancel()
		var ips []netip.Addr
		if ips, nameless = resolve(ctx, host, w.names.lookup); nameless == nil && !slices.Contains(ips, ip) {
			ip = alike(ips, ip)
		}
	}
	if ip.IsUnspecified() && (host == "" || nameless != nil) {
		if ip, err = machineAddr(); err != nil {
			return nil, 0, errors.Join(err, nameless)
		}
	}
	if ip.IsUnspecified() {
		return nil, 0, fmt.Errorf("advertised gossip address %s cannot be reached by others: set an advertise address", ip)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advertised, w.nameless = netip.AddrPortFrom(ip, uint16(port)), nameless
	return ip.AsSlice(), port, nil
}

// advertisedAddr returns what FinalAdvertiseAddr answered last.
func (w *wire) advertisedAddr() netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.advertised
}

// unnamed returns why the own advertised name is not known here, nil if it is.
func (w *wire) unnamed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nameless
}

// WriteTo sends a packet.
func (w *wire) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("parse gossip peer address: %w", err)
	}
	_, err = w.socket.WriteTo(b, net.UDPAddrFromAddrPort(to))
	return time.Now(), err
}

// WriteToAddress sends a packet to a member.
func (w *wire) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return w.WriteTo(b, w.names.find(addr))
}

// PacketCh gives the packets received.
func (w *wire) PacketCh() <-chan *memberlist.Packet { return w.packets }

// StreamCh gives the streams accepted.
func (w *wire) StreamCh() <-chan net.Conn { return w.streams }

// DialTimeout opens a stream to a peer.
func (w *wire) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	conn, err := w.transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stream := w.track(conn, false)
	if stream == nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return stream, nil
}

// DialAddressTimeout opens a stream to a member.
func (w *wire) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return w.DialTimeout(w.names.find(addr), timeout)
}

// Shutdown closes the sockets and every stream, and waits for the loops. Calling it again does nothing.
func (w *wire) Shutdown() error {
	w.mu.Lock()
	if w.down {
		w.mu.Unlock()
		return nil
	}
	w.down = true
	open := make([]net.Conn, 0, len(w.open))
	for conn := range w.open {
		open = append(open, conn)
	}
	w.mu.Unlock()
	w.cancel()
	err := errors.Join(w.listener.Close(), w.socket.Close())
	for _, conn := range open {
		_ = conn.Close()
	}
	w.loops.Wait()
	return err
}

// machineAddr picks the address to advertise for a bind to all interfaces: the first private one, else the first that is
// routable at all.
func machineAddr() (netip.Addr, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list interface addresses: %w", err)
	}
	var routable []netip.Addr
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().IsPrivate() {
			return prefix.Addr(), nil
		}
		routable = append(routable, prefix.Addr())
	}
	if len(routable) == 0 {
		return netip.Addr{}, errors.New("no interface has an address that others could reach: set an advertise address")
	}
	return routable[0], nil
}
