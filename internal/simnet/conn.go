package simnet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Conn is one end of a stream connection. It implements [net.Conn] and CloseWrite.
type Conn struct {
	host          *Host
	local, remote *net.TCPAddr
	in, out       *stream
	readDeadline  *deadline
	writeDeadline *deadline
}

var _ net.Conn = (*Conn)(nil)

// newConnPair returns the two ends of a connection from near to far.
func newConnPair(near, far *Host, local, remote *net.TCPAddr) (*Conn, *Conn) {
	there, back := newStream(near.n, near.name, far.name), newStream(near.n, far.name, near.name)
	return newConn(near, local, remote, back, there), newConn(far, remote, local, there, back)
}

func newConn(h *Host, local, remote *net.TCPAddr, in, out *stream) *Conn {
	return &Conn{
		host: h, local: local, remote: remote, in: in, out: out,
		readDeadline: newDeadline(), writeDeadline: newDeadline(),
	}
}

// Read blocks until data has arrived. After the peer closed it returns what was sent, then [io.EOF].
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p, c.readDeadline)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.opError("read", err)
	}
	return n, err
}

// Write blocks while the stream holds [StreamBufferBytes] that were not read and acknowledged.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p, c.writeDeadline)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

// Close ends both directions; what was written still reaches the peer. Calling it again does nothing.
func (c *Conn) Close() error {
	c.out.endWrite(net.ErrClosed, io.EOF)
	c.in.endRead(net.ErrClosed, syscall.EPIPE)
	c.finish()
	return nil
}

// CloseWrite ends the writing direction only.
func (c *Conn) CloseWrite() error {
	c.out.finish()
	return nil
}

// abort resets the connection, as the kernel does for a process that is gone.
func (c *Conn) abort() {
	c.out.endWrite(syscall.ECONNRESET, syscall.ECONNRESET)
	c.in.endRead(syscall.ECONNRESET, syscall.ECONNRESET)
	c.finish()
}

// finish stops the timers and takes the connection off its host's books.
func (c *Conn) finish() {
	c.readDeadline.set(time.Time{})
	c.writeDeadline.set(time.Time{})
	c.host.n.mu.Lock()
	defer c.host.n.mu.Unlock()
	delete(c.host.conns, c)
}

// LocalAddr returns the near address, a *[net.TCPAddr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the far address, a *[net.TCPAddr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; a pending call sees the change.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readDeadline.set(t)
	c.writeDeadline.set(t)
	return nil
}

// SetReadDeadline sets the deadline of reads; the zero time means none.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.readDeadline.set(t)
	return nil
}

// SetWriteDeadline sets the deadline of writes; the zero time means none.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.set(t)
	return nil
}

func (c *Conn) opError(op string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
