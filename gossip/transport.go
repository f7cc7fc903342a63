package gossip

import (
	"context"
	"net"
)

// Transport is the network under gossip. Addresses are "host:port". It is used by several goroutines at once.
type Transport interface {
	// Listen opens the stream listener; port 0 takes a free one, which Addr of the listener tells.
	Listen(addr string) (net.Listener, error)
	// ListenPacket opens the datagram socket on the port that Listen has got. Its WriteTo is given a *net.UDPAddr, and must
	// drop a datagram rather than block.
	ListenPacket(addr string) (net.PacketConn, error)
	// Dial opens a stream and blocks until it is established or ctx ends.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// osTransport is the network of the operating system.
type osTransport struct {
	dialer net.Dialer
	listen net.ListenConfig
}

var _ Transport = (*osTransport)(nil)

func (t *osTransport) Listen(addr string) (net.Listener, error) {
	return t.listen.Listen(context.Background(), "tcp", addr)
}

func (t *osTransport) ListenPacket(addr string) (net.PacketConn, error) {
	return t.listen.ListenPacket(context.Background(), "udp", addr)
}

func (t *osTransport) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return t.dialer.DialContext(ctx, "tcp", addr)
}
