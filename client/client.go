package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Config says which cluster to talk to.
type Config struct {
	// Masters are gRPC addresses, any non-empty subset of the cluster's.
	Masters []string
	TLS     *tls.Config  // nil = plain
	Dialer  rpc.DialFunc // nil = TCP
	Logger  hclog.Logger // nil = silent
	// Rand gives jitter and request ids; nil = seeded by the system. The
	// client owns it from New on.
	Rand *rand.Rand
	// Principal names the caller where no certificate does.
	Principal string
	// Token says what the caller may do, where a cluster asks for that.
	Token model.Secret
	// Driver and Attempt are the driver in cluster mode that this program is part
	// of (DriverFromEnv): what it registers ends with that. "" = none.
	Driver  model.DriverID
	Attempt int
}

// maxConns bounds open connections: every seed and a few hints.
const maxConns = MaxSeeds + 8

// Client calls a cluster through any of its masters. Safe for concurrent use.
//
// Every call is repeated, with back-off, until it is answered or its context
// ends: give the context a deadline. A mutating call keeps one request id
// through all repeats, so it takes effect once, whatever fails on the way. When
// the context ends first, the error wraps
//
//   - model.ErrOutcomeUnknown if the call may have taken effect,
//   - model.ErrNoLeader if masters answered but none of them led,
//   - model.ErrUnavailable if no master answered,
//
// and the context's own error.
type Client struct {
	cfg    Config
	log    hclog.Logger
	leader *LeaderFinder // for leader-only calls
	reader *LeaderFinder // for reads: "leader" is the master that answered last

	mu    sync.Mutex
	rnd   *rand.Rand
	conns map[string]*rpc.Conn
	// watches are those of attempts that take long, by master.
	watches map[string]*stuckWatch
	base    uint64 // highest applied index seen
	closed  bool
}

// New makes a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	cfg.Masters = slices.DeleteFunc(slices.Clone(cfg.Masters), func(s string) bool { return s == "" })
	if len(cfg.Masters) == 0 {
		return nil, fmt.Errorf("cluster client: %w: no master address given", model.ErrInvalid)
	}
	if len(cfg.Masters) > MaxSeeds {
		return nil, fmt.Errorf("cluster client: %w: %d master addresses, the limit is %d", model.ErrInvalid, len(cfg.Masters), MaxSeeds)
	}
	// Certificates of workers and of other clients are of the same authority.
	cfg.TLS = tlsconf.Only(cfg.TLS, tlsconf.RoleMaster)
	c := &Client{cfg: cfg, log: cfg.Logger, rnd: cfg.Rand, conns: map[string]*rpc.Conn{}, watches: map[string]*stuckWatch{}}
	if c.log == nil {
		c.log = hclog.NewNullLogger()
	}
	if c.rnd == nil {
		c.rnd = newRand()
	}
	c.leader = NewLeaderFinder(cfg.Masters, c.childRand())
	c.reader = NewLeaderFinder(cfg.Masters, c.childRand())
	return c, nil
}

// Close closes every connection; calls in flight fail. Idempotent.
func (c *Client) Close() error {
	c.mu.Lock()
	conns := c.conns
	c.conns, c.closed = nil, true
	c.mu.Unlock()
	var errs []error
	for _, conn := range conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// AddMasters adds addresses that may be tried too, for instance those learnt
// from a leader.
func (c *Client) AddMasters(addrs []string) {
	c.leader.AddSeeds(addrs)
	c.reader.AddSeeds(addrs)
}

// NewRequestID returns an identifier for RegisterAppWithID: 128 random bits.
func (c *Client) NewRequestID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("req-%016x%016x", c.rnd.Uint64(), c.rnd.Uint64())
}

func (c *Client) childRand() *rand.Rand {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rand.New(rand.NewPCG(c.rnd.Uint64(), c.rnd.Uint64()))
}

var errClosed = fmt.Errorf("%w: the client is closed", model.ErrRefused)

// conn returns the connection to addr, new or from an earlier call. One that
// could not be established when it was last tried is replaced: the finders'
// pauses are enough, and the master may be back.
func (c *Client) conn(addr string) (*rpc.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if conn := c.conns[addr]; conn != nil {
		if !conn.Failed() {
			return conn, nil
		}
		c.dropLocked(addr, conn)
	}
	conn, err := rpc.Dial(addr, rpc.DialConfig{TLS: c.cfg.TLS, Dial: c.cfg.Dialer, Principal: c.cfg.Principal, Token: c.cfg.Token})
	if err != nil {
		return nil, err
	}
	if len(c.conns) >= maxConns {
		c.evictLocked()
	}
	c.conns[addr] = conn
	return conn, nil
}

// evictLocked closes one connection; a call on it is repeated elsewhere.
func (c *Client) evictLocked() {
	for addr, conn := range c.conns {
		if slices.Contains(c.cfg.Masters, addr) {
			continue
		}
		c.dropLocked(addr, conn)
		return
	}
}

func (c *Client) dropLocked(addr string, conn *rpc.Conn) {
	delete(c.conns, addr)
	if err := conn.Close(); err != nil {
		c.log.Debug("closing a connection failed", "addr", addr, "err", err)
	}
}

func (c *Client) knownBase() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base
}

func (c *Client) sawIndex(index uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base = max(c.base, index)
}
