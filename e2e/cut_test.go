//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// HTTP/2 framing, RFC 9113 sections 4.1 and 6.
const (
	frameHeaderBytes = 9
	frameData        = 0x0
	frameHeaders     = 0x1
	flagEndStream    = 0x1
)

// cutter dials connections that break at the first answer to a registration:
// the server has committed and answered, the client never hears of it.
type cutter struct {
	done atomic.Bool   // one answer was cut
	cuts *atomic.Int64 // of all cutters
	tls  *tls.Config   // what the frames travel in; nil for a plain connection
}

func (c *cutter) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.tls != nil { // its client speaks plainly to this
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		own := tlsconf.ForHost(c.tls, host)
		own.NextProtos = []string{"h2"}
		conn = tls.Client(conn, own)
	}
	return &cutConn{Conn: conn, cutter: c, held: map[uint32][]byte{}}, nil
}

var errCut = errors.New("the answer was cut")

// cutConn hands on whole frames. It holds the headers of an answer back until
// the first data says whether this is the answer to cut. One goroutine reads.
type cutConn struct {
	net.Conn
	cutter *cutter

	mu    sync.Mutex // Read is called by one goroutine; this says so to the race detector
	ready bytes.Buffer
	held  map[uint32][]byte
}

// Read implements net.Conn.
func (c *cutConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.ready.Len() == 0 {
		if err := c.frame(); err != nil {
			return 0, err
		}
	}
	return c.ready.Read(p)
}

// frame reads one frame into ready, holds it back, or cuts the connection.
func (c *cutConn) frame() error {
	var head [frameHeaderBytes]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return err
	}
	length := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind, flags := head[3], head[4]
	stream := binary.BigEndian.Uint32(head[5:]) &^ (1 << 31)
	frame := make([]byte, frameHeaderBytes+length)
	copy(frame, head[:])
	if _, err := io.ReadFull(c.Conn, frame[frameHeaderBytes:]); err != nil {
		return err
	}
	held, waits := c.held[stream]
	switch {
	case kind == frameHeaders && flags&flagEndStream == 0 && !c.cutter.done.Load():
		c.held[stream] = frame
		return nil
	case kind == frameData && waits && bytes.Contains(frame[frameHeaderBytes:], []byte("app-")) && c.cutter.done.CompareAndSwap(false, true):
		c.cutter.cuts.Add(1)
		return errors.Join(errCut, c.Conn.Close())
	}
	if waits {
		delete(c.held, stream)
		c.ready.Write(held)
	}
	c.ready.Write(frame)
	return nil
}
