package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/internal/loopback"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// DialFunc opens a byte stream to host:port. It resolves the name on each call
// and gives up when ctx ends.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// DialConfig says how to connect.
type DialConfig struct {
	// TLS is the client's configuration; nil = plain.
	TLS *tls.Config
	// Dial opens the connection; nil = TCP with names resolved on each dial.
	Dial DialFunc
	// Principal names the caller in the audit trail where no certificate does.
	Principal string
	// Token says what the caller may do, to servers that ask for one. It is sent
	// over TLS, or to a loopback address: other calls fail.
	Token model.Secret
}

// Conn is a connection to one server that is (re)established when it is used.
// Safe for concurrent use.
type Conn struct {
	cc        *grpc.ClientConn
	addr      string
	principal string
	// For streams that are not gRPC's.
	dial     DialFunc
	tls      *tls.Config // nil = plain
	grpcOnly atomic.Bool // the server knows nothing else
}

// Dial prepares a connection to host:port and returns at once: calls on it
// connect, and fail with model.ErrUnavailable after at most DialTimeout.
func Dial(addr string, cfg DialConfig) (*Conn, error) {
	if addr == "" {
		return nil, fmt.Errorf("dial: %w: the address is empty", model.ErrInvalid)
	}
	if cfg.Token != "" && cfg.TLS == nil && !loopback.Addr(addr) {
		return nil, fmt.Errorf("dial %s: %w: a token would travel in the clear to another machine: use TLS", addr, model.ErrRefused)
	}
	creds, renew := insecure.NewCredentials(), &renewal{addr: addr, cfg: cfg.TLS}
	var secured *tls.Config
	if cfg.TLS != nil {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w: %w", addr, model.ErrInvalid, err)
		}
		secured = tlsconf.ForHost(cfg.TLS, host)
		creds = credentialsOf(secured, renew.met)
	}
	dial := cfg.Dial
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(dial),
		grpc.WithResolvers(renew),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: BackoffFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: BackoffMax},
			MinConnectTimeout: DialTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: KeepaliveInterval, Timeout: KeepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithStatsHandler(sentTracker{}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(newCodec()),
			grpc.MaxCallRecvMsgSize(MaxReplyBytes),
			grpc.MaxCallSendMsgSize(MaxReplyBytes),
		),
	}
	if cfg.Token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer{cfg.Token}))
	}
	cc, err := grpc.NewClient(targetScheme+":///"+addr, options...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w: %w", addr, model.ErrInvalid, err)
	}
	return &Conn{cc: cc, addr: addr, principal: cfg.Principal, dial: dial, tls: secured}, nil
}

// Addr returns the address given to Dial.
func (c *Conn) Addr() string { return c.addr }

// Failed reports whether the last attempt to connect has failed. gRPC then lets
// calls fail during its own back-off of up to BackoffMax, although the server
// may be back: a caller with a back-off of its own dials anew instead.
func (c *Conn) Failed() bool { return c.cc.GetState() == connectivity.TransientFailure }

// Close ends the connection and every call on it. Idempotent.
func (c *Conn) Close() error {
	if err := c.cc.Close(); err != nil && status.Code(err) != codes.Canceled {
		return fmt.Errorf("close connection to %s: %w", c.addr, err)
	}
	return nil
}
