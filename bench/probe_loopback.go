package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// LoopbackProbe sends bytes to and fro over one TCP connection on 127.0.0.1, n
// times, and returns how long each round trip took, in milliseconds. The
// listener takes the probe's own connection and no other.
func LoopbackProbe(ctx context.Context, bytes, n int) (took []float64, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("loopback probe: %w", err)
	}
	near, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("loopback probe: %w", err), l.Close())
	}
	defer func() { err = errors.Join(err, near.Close()) }()
	far, err := acceptFrom(l, near.LocalAddr())
	if cerr := l.Close(); err != nil || cerr != nil {
		return nil, fmt.Errorf("loopback probe: %w", errors.Join(err, cerr))
	}
	echoed := make(chan error, 1)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{far}, struct{ io.Reader }{far}, make([]byte, bytes))
		echoed <- errors.Join(err, far.Close())
	}()
	stop := context.AfterFunc(ctx, func() { _ = near.Close() }) // ends the reads below
	defer stop()
	buf := make([]byte, bytes)
	for range n {
		begin := time.Now()
		if _, err := near.Write(buf); err != nil {
			return took, fmt.Errorf("loopback probe: %w", err)
		}
		if _, err := io.ReadFull(near, buf); err != nil {
			return took, fmt.Errorf("loopback probe: %w", err)
		}
		took = append(took, time.Since(begin).Seconds()*1e3)
	}
	if c, ok := near.(*net.TCPConn); ok {
		if err := c.CloseWrite(); err != nil {
			return took, fmt.Errorf("loopback probe: %w", err)
		}
	}
	return took, <-echoed
}

// acceptFrom waits for the connection of one peer and refuses others.
func acceptFrom(l net.Listener, peer net.Addr) (net.Conn, error) {
	for {
		c, err := l.Accept()
		if err != nil {
			return nil, err
		}
		if c.RemoteAddr().String() == peer.String() {
			return c, nil
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
}
