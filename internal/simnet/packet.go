package simnet

import (
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// packet is a datagram and when it reaches its receiver.
type packet struct {
	data []byte
	from *net.UDPAddr
	at   time.Time
}

// PacketConn is a datagram socket. It implements [net.PacketConn]. Writing never blocks.
type PacketConn struct {
	host          *Host
	addr          *net.UDPAddr
	readDeadline  *deadline
	writeDeadline *deadline

	mu     sync.Mutex
	notify chan struct{}
	queue  []packet // by arrival, at most PacketQueueLen
	closed bool
}

var _ net.PacketConn = (*PacketConn)(nil)

func newPacketConn(h *Host, addr *net.UDPAddr) *PacketConn {
	return &PacketConn{
		host: h, addr: addr, notify: make(chan struct{}),
		readDeadline: newDeadline(), writeDeadline: newDeadline(),
	}
}

// ReadFrom blocks for the next datagram; what does not fit into p is cut off, as for UDP.
func (p *PacketConn) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		got, wait, notify, err := p.tryRead()
		if err != nil {
			return 0, nil, &net.OpError{Op: "read", Net: "udp", Source: p.addr, Err: err}
		}
		if got != nil {
			return copy(b, got.data), got.from, nil
		}
		block(notify, p.readDeadline.wait(), wait)
	}
}

func (p *PacketConn) tryRead() (*packet, time.Duration, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0, nil, net.ErrClosed
	}
	if p.readDeadline.passed() {
		return nil, 0, nil, os.ErrDeadlineExceeded
	}
	if len(p.queue) == 0 {
		return nil, 0, p.notify, nil
	}
	if left := time.Until(p.queue[0].at); left > 0 {
		return nil, left, p.notify, nil
	}
	got := p.queue[0]
	p.queue = p.queue[1:]
	return &got, 0, nil, nil
}

// WriteTo sends a datagram to addr, a *[net.UDPAddr] or anything whose String is "host:port". That it was swallowed on
// the way is not an error.
func (p *PacketConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	if err := p.send(b, addr.String()); err != nil {
		return 0, &net.OpError{Op: "write", Net: "udp", Source: p.addr, Addr: addr, Err: err}
	}
	return len(b), nil
}

func (p *PacketConn) send(b []byte, addr string) error {
	if len(b) > MaxDatagramBytes {
		return os.NewSyscallError("sendto", syscall.EMSGSIZE)
	}
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	if p.writeDeadline.passed() {
		return os.ErrDeadlineExceeded
	}
	ip, port, err := p.host.Resolve(addr)
	if err != nil {
		return err
	}
	p.host.n.route(p, b, ip, port)
	return nil
}

// heldPacket is a datagram that a pause keeps from its receiver.
type heldPacket struct {
	data     []byte
	from     *net.UDPAddr
	sender   string
	receiver *PacketConn
}

// route carries a datagram to whoever is bound to ip and port, holds it, or loses it.
func (n *Network) route(p *PacketConn, b []byte, ip net.IP, port int) {
	n.mu.RLock()
	target := p.host.targetLocked(ip)
	var receiver *PacketConn
	passable, paused := true, false
	if target != nil {
		l := link{p.host.name, target.name}
		passable = n.passableLocked(l.from, l.to) && !n.deaf[l]
		paused = !n.openLocked(l.from, l.to)
		receiver = target.sockets[port]
		if receiver != nil && receiver.addr.IP.IsLoopback() && target != p.host {
			receiver = nil
		}
	}
	n.mu.RUnlock()
	var overflowed bool
	lost := !passable || target != nil && n.lost(p.host.name, target.name)
	switch {
	case lost || receiver == nil:
	case paused:
		overflowed = !n.hold(heldPacket{append([]byte(nil), b...), p.addr, p.host.name, receiver})
	default:
		overflowed = !receiver.enqueue(packet{
			data: append([]byte(nil), b...),
			from: p.addr,
			at:   time.Now().Add(n.delay(p.host.name, target.name)),
		})
	}
	n.count(func(s *Stats) {
		s.PacketsSent++
		switch {
		case lost:
			s.PacketsLost++
		case receiver == nil:
			s.PacketsUnheard++
		case overflowed:
			s.PacketsOverflowed++
		}
	})
}

// hold keeps a datagram until a pause ends, and says whether there was room.
func (n *Network) hold(h heldPacket) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.held) >= PacketQueueLen {
		return false
	}
	n.held = append(n.held, h)
	return true
}

// release sends on what no pause holds any more.
func (n *Network) release() {
	n.mu.Lock()
	var free []heldPacket
	n.held = slices.DeleteFunc(n.held, func(h heldPacket) bool {
		open := n.openLocked(h.sender, h.receiver.host.name)
		if open {
			free = append(free, h)
		}
		return open
	})
	n.mu.Unlock()
	for _, h := range free {
		at := time.Now().Add(n.delay(h.sender, h.receiver.host.name))
		if !h.receiver.enqueue(packet{data: h.data, from: h.from, at: at}) {
			n.count(func(s *Stats) { s.PacketsOverflowed++ })
		}
	}
}

// enqueue puts a datagram in the order of arrival and says whether there was room.
func (p *PacketConn) enqueue(in packet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.queue) >= PacketQueueLen {
		return false
	}
	i := len(p.queue)
	for i > 0 && p.queue[i-1].at.After(in.at) {
		i--
	}
	p.queue = slices.Insert(p.queue, i, in)
	p.wakeLocked()
	return true
}

func (p *PacketConn) wakeLocked() {
	close(p.notify)
	p.notify = make(chan struct{})
}

// Close frees the port and ends a pending read. Calling it again does nothing.
func (p *PacketConn) Close() error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.queue = nil
	p.wakeLocked()
	p.mu.Unlock()
	if already {
		return nil
	}
	p.readDeadline.set(time.Time{})
	p.writeDeadline.set(time.Time{})
	p.host.n.mu.Lock()
	defer p.host.n.mu.Unlock()
	if p.host.sockets[p.addr.Port] == p {
		delete(p.host.sockets, p.addr.Port)
	}
	return nil
}

// LocalAddr returns the bound address, a *[net.UDPAddr].
func (p *PacketConn) LocalAddr() net.Addr { return p.addr }

// SetDeadline sets both deadlines; a pending read sees the change.
func (p *PacketConn) SetDeadline(t time.Time) error {
	p.readDeadline.set(t)
	p.writeDeadline.set(t)
	return nil
}

// SetReadDeadline sets the deadline of reads; the zero time means none.
func (p *PacketConn) SetReadDeadline(t time.Time) error {
	p.readDeadline.set(t)
	return nil
}

// SetWriteDeadline sets the deadline of writes; the zero time means none.
func (p *PacketConn) SetWriteDeadline(t time.Time) error {
	p.writeDeadline.set(t)
	return nil
}
