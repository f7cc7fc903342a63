package simnet

import (
	"net"
	"sync"
)

// Listener accepts the stream connections of one port. It implements [net.Listener].
type Listener struct {
	host     *Host
	addr     *net.TCPAddr
	loopback bool
	queue    chan *Conn

	closeOnce sync.Once
	done      chan struct{}
}

var _ net.Listener = (*Listener)(nil)

// Accept blocks for the next connection. After Close it returns [net.ErrClosed].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, l.closed()
	default:
	}
	select {
	case <-l.done:
		return nil, l.closed()
	case c := <-l.queue:
		l.host.n.mu.Lock()
		l.host.n.wakeDialsLocked() // there is room in the backlog again
		l.host.n.mu.Unlock()
		return c, nil
	}
}

func (l *Listener) closed() error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
}

// Close stops listening and resets the connections nobody accepted. Calling it again does nothing.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() {
		n := l.host.n
		n.mu.Lock()
		if l.host.listeners[l.addr.Port] == l {
			delete(l.host.listeners, l.addr.Port)
		}
		n.wakeDialsLocked()
		n.mu.Unlock()
		close(l.done)
		for {
			select {
			case c := <-l.queue:
				c.abort()
			default:
				return
			}
		}
	})
	return nil
}

// Addr returns the bound address, a *[net.TCPAddr].
func (l *Listener) Addr() net.Addr { return l.addr }
