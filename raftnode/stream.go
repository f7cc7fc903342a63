package raftnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// StreamLayer is how masters reach each other: a listener and a dialer. Addr
// returns the advertised address. Accept and Dial may be called concurrently;
// Close ends a pending Accept.
type StreamLayer interface {
	net.Listener
	// Dial connects to the "host:port" of another master; it ends with ctx,
	// which has a deadline.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// DialFunc connects to a "host:port"; it must end with ctx.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// keepAlive finds a peer that vanished without a goodbye within about 10 s:
// the library sets no deadline while it waits for a request.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}
}

type stream struct {
	net.Listener
	dial      DialFunc
	advertise net.Addr
	tls       StreamTLS
}

// StreamTLS secures Raft's connections; nil configs mean plain ones. Server is
// used for connections accepted, Client for those dialed (its server name
// defaults to the dialed host). Whatever they accept, only masters are spoken
// with: certificates of workers and clients are of the same authority.
type StreamTLS struct{ Server, Client *tls.Config }

// advertised is an address that is given out as it was written, since it may
// be a name that only the peers can resolve.
type advertised string

func (advertised) Network() string  { return "tcp" }
func (a advertised) String() string { return string(a) }

// NewStream builds a StreamLayer from a listener and a dialer. advertise is
// the "host:port" other masters dial; empty stands for the listener's own.
func NewStream(listener net.Listener, dial DialFunc, advertise string, secure StreamTLS) StreamLayer {
	secure.Server, secure.Client = tlsconf.Only(secure.Server, tlsconf.RoleMaster), tlsconf.Only(secure.Client, tlsconf.RoleMaster)
	s := &stream{Listener: listener, dial: dial, advertise: listener.Addr(), tls: secure}
	if advertise != "" {
		s.advertise = advertised(advertise)
	}
	return s
}

// NewTCPStream is NewStream over TCP; names are resolved on each dial.
func NewTCPStream(listener net.Listener, advertise string, secure StreamTLS) StreamLayer {
	dialer := &net.Dialer{KeepAliveConfig: keepAlive()}
	dial := func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	return NewStream(listener, dial, advertise, secure)
}

// Addr returns the advertised address.
func (s *stream) Addr() net.Addr { return s.advertise }

// Accept returns the next connection; with TLS its handshake is yet to come.
func (s *stream) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		// A socket that cannot be tuned still works; the peer just stays
		// undetected for longer.
		_ = tcp.SetKeepAliveConfig(keepAlive())
	}
	if s.tls.Server != nil {
		secured := tls.Server(conn, s.tls.Server)
		return tlsconf.Follow(secured, s.tls.Server, secured.ConnectionState), nil
	}
	return conn, nil
}

// Dial connects and, with TLS, completes the handshake.
func (s *stream) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := s.dial(ctx, addr)
	if err != nil || s.tls.Client == nil {
		return conn, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, joinClose(conn, fmt.Errorf("dial raft peer %s: %w", addr, err))
	}
	cfg := tlsconf.ForHost(s.tls.Client, host)
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, joinClose(conn, fmt.Errorf("tls handshake with raft peer %s: %w", addr, tlsconf.Explain(s.tls.Client, err)))
	}
	return tlsconf.Follow(tlsconf.Explained(secured, s.tls.Client), cfg, secured.ConnectionState), nil
}

// joinClose closes a connection that is of no use and returns why.
func joinClose(conn net.Conn, err error) error {
	_ = conn.Close() // the reason is what matters
	return err
}
