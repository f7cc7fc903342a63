package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/hearthd/hearth/internal/tlsconf"
)

// targetScheme begins the targets of connections: the rest goes to the dialler,
// which resolves it on each attempt. gRPC's own resolver would keep an old answer.
const targetScheme = "hearth"

// RenewInterval is how often a connection is compared with the certificates of
// its ends. It is made anew, without a call noticing, soon after that of this end
// was renewed, and after half of the time that was left of either when it was
// made: before one of the ends would cut it (tlsconf.Follow).
const RenewInterval = 2 * time.Second

// renewal is the resolver of one connection. It always answers with the one
// address, as a new one after each renewal: gRPC then connects again, sends new
// calls there, and lets those under way end where they are.
type renewal struct {
	addr string
	cfg  *tls.Config // nil: nothing to renew

	mu     sync.Mutex
	cc     resolver.ClientConn
	own    *x509.Certificate
	due    time.Time // when to connect again in any case; zero before the first
	count  int
	timer  *time.Timer
	closed bool
}

// renewalKey is the attribute that makes an address another one.
type renewalKey struct{}

var (
	_ resolver.Builder  = (*renewal)(nil)
	_ resolver.Resolver = (*renewal)(nil)
)

// Scheme implements resolver.Builder.
func (*renewal) Scheme() string { return targetScheme }

// Build implements resolver.Builder; it is called once for each connection.
func (r *renewal) Build(_ resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cc, r.own = cc, tlsconf.Own(r.cfg)
	if r.own != nil {
		r.timer = time.AfterFunc(RenewInterval, r.look)
	}
	return r, r.tellLocked()
}

func (r *renewal) tellLocked() error {
	addr := resolver.Address{Addr: r.addr, Attributes: attributes.New(renewalKey{}, r.count)}
	return r.cc.UpdateState(resolver.State{Addresses: []resolver.Address{addr}})
}

// met is told of the certificate of the server on a new connection.
func (r *renewal) met(peer *x509.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	until := peer.NotAfter
	if r.own != nil && r.own.NotAfter.Before(until) {
		until = r.own.NotAfter
	}
	now := time.Now()
	r.due = now.Add(max(RenewInterval, until.Sub(now)/2))
}

// look tells gRPC of a renewal.
func (r *renewal) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	due := !r.due.IsZero() && time.Now().After(r.due)
	if own := tlsconf.Own(r.cfg); own != r.own || due {
		r.own, r.due = own, time.Time{}
		r.count++
		_ = r.tellLocked() // a state that the balancer refuses leaves the old connection
	}
	r.timer.Reset(RenewInterval)
}

// ResolveNow implements resolver.Resolver.
func (*renewal) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements resolver.Resolver.
func (r *renewal) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
