package masterd

import (
	"context"
	"fmt"
	"net"
	"strconv"
)

// listen opens a stream listener on the bind address.
func (m *Master) listen(port int) (net.Listener, error) {
	addr := net.JoinHostPort(m.cfg.Bind, strconv.Itoa(port))
	var l net.Listener
	var err error
	if m.deps.Network != nil {
		l, err = m.deps.Network.Listen(addr)
	} else {
		var lc net.ListenConfig
		l, err = lc.Listen(context.Background(), "tcp", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// dial opens a stream; names are resolved on each call.
func (m *Master) dial(ctx context.Context, addr string) (net.Conn, error) {
	if m.deps.Network != nil {
		return m.deps.Network.Dial(ctx, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
