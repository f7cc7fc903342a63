package gossip

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// Times of the names that members advertise.
const (
	// nameTimeout bounds one look-up. With nameRetryFirst it keeps the report of a name that means nothing here within
	// 5 s of the first meeting.
	nameTimeout = 2 * time.Second
	// nameRetryFirst is when a look-up that failed is made again; the pause doubles up to nameRetryLast.
	nameRetryFirst = time.Second
	nameRetryLast  = 15 * time.Second
	// nameRefresh is how often a name that is known is looked up again.
	nameRefresh = time.Minute
	// maxLookups bounds the look-ups at once.
	maxLookups = 64
)

// LookupFunc finds the addresses of a host name.
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// Unresolved is a member whose advertised name means nothing on this node.
type Unresolved struct {
	ID   string
	Role Role
	Host string
	Err  string
}

// names knows where members are that advertise a name. memberlist tells addresses only, as the member itself sees them;
// behind a bridge that is an inner one, or the name does not exist there at all. So each node looks up for itself what a
// member advertises, as it does for the member's other ports (ADR 0051). Safe for concurrent use.
type names struct {
	log    hclog.Logger
	lookup LookupFunc
	wake   chan struct{} // capacity 1; there is news of members

	mu    sync.RWMutex
	known map[string]*named // by member id
}

// named is one member's name. Only the loop changes it.
type named struct {
	host string
	last located    // as it was seen last
	at   netip.Addr // where the member is found; zero: where it says
	once bool       // the name has meant something here
	err  error      // of the last look-up
	told string     // the error that is in the log
	next time.Time  // of the next look-up
	wait time.Duration
}

func newNames(log hclog.Logger, lookup LookupFunc) *names {
	return &names{log: log, lookup: lookup, wake: make(chan struct{}, 1), known: make(map[string]*named)}
}

// poke is told of news. It never blocks.
func (n *names) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// find is where to send to a member: memberlist's address, unless the member's name means another one.
func (n *names) find(to memberlist.Address) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	m := n.known[to.Name]
	if m == nil || !m.at.IsValid() {
		return to.Addr
	}
	told, err := netip.ParseAddrPort(to.Addr)
	if err != nil {
		return to.Addr
	}
	return netip.AddrPortFrom(m.at, told.Port()).String()
}

// unresolved lists the members whose names mean nothing here, by id.
func (n *names) unresolved() []Unresolved {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []Unresolved
	for id, m := range n.known {
		if m.err != nil {
			out = append(out, Unresolved{ID: id, Role: m.last.Role, Host: m.host, Err: m.err.Error()})
		}
	}
	slices.SortFunc(out, func(a, b Unresolved) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// watchNames looks names up until the wire goes down. Like watchDatagrams it must not take the locks of Gossip.
func (g *Gossip) watchNames(ctx context.Context, s *serf.Serf) {
	for {
		var due <-chan time.Time // nil: nobody advertises a name
		if next, named := g.names.look(ctx, g.others(s)); named {
			due = time.After(max(time.Until(next), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return
		case <-g.names.wake:
		case <-due:
		}
	}
}

// others are the members but this node.
func (g *Gossip) others(s *serf.Serf) []located {
	var out []located
	for _, raw := range s.Members() {
		if m, ok := g.known(raw); ok && m.ID != g.cfg.NodeID {
			ip, _ := netip.AddrFromSlice(raw.Addr)
			out = append(out, located{Member: m, told: ip.Unmap()})
		}
	}
	return out
}

// located is a member with the address that memberlist tells.
type located struct {
	Member
	told netip.Addr
}

// look looks up the names that are due, and returns when the next one is.
func (n *names) look(ctx context.Context, members []located) (next time.Time, named bool) {
	now := time.Now()
	present := make(map[string]bool)
	var lookups sync.WaitGroup
	free := make(chan struct{}, maxLookups)
	for _, m := range members {
		host := nameOf(m.Tags)
		if host == "" {
			continue
		}
		e := n.entry(m, host)
		if e == nil {
			continue
		}
		present[m.ID] = true
		if now.Before(e.next) {
			continue
		}
		free <- struct{}{}
		lookups.Go(func() {
			defer func() { <-free }()
			n.resolve(ctx, m, e)
		})
	}
	lookups.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, e := range n.known {
		if !present[id] {
			delete(n.known, id)
			continue
		}
		if !named || e.next.Before(next) {
			next, named = e.next, true
		}
	}
	return next, named
}

// entry returns the entry of a member, nil if its name is of no interest. Of one that has failed it is the reason only if
// it never meant anything: names of containers go with them.
func (n *names) entry(m located, host string) *named {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.known[m.ID]
	if e != nil && e.host != host {
		e = nil
	}
	switch {
	case m.Status == StatusAlive || m.Status == StatusFailed && e != nil && !e.once:
	case m.Status == StatusFailed && e != nil:
		e.err, e.told = nil, "" // it is asked for by its last address
		e.next, e.last = time.Now().Add(nameRefresh), m
		return e
	default:
		return nil
	}
	if e == nil {
		e = &named{host: host, last: m}
		n.known[m.ID] = e
	}
	if e.last.Status != m.Status || e.last.told != m.told || e.last.Tags.Incarnation != m.Tags.Incarnation {
		e.next = time.Time{} // it came back, perhaps from elsewhere
	}
	e.last = m
	return e
}

// resolve looks one name up. A name that meant something keeps its address while its look-up fails.
func (n *names) resolve(ctx context.Context, m located, e *named) {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	ips, err := resolve(ctx, e.host, n.lookup)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		e.err = err
		e.wait = min(max(2*e.wait, nameRetryFirst), nameRetryLast)
		e.next = time.Now().Add(e.wait)
		if e.told != err.Error() {
			e.told = err.Error()
			n.log.Warn("the name that a member advertises does not resolve here: make it resolve, or advertise another one there",
				"member", m.ID, "role", string(m.Role), "name", e.host, "setting", "network.advertise", "err", err)
		}
		return
	}
	if e.told != "" {
		n.log.Info("the name that a member advertises resolves now", "member", m.ID, "name", e.host)
	}
	e.err, e.told, e.once, e.wait = nil, "", true, 0
	e.next = time.Now().Add(nameRefresh)
	e.at = netip.Addr{}
	if !slices.Contains(ips, m.told) {
		e.at = alike(ips, m.told)
	}
}

// alike is the first address of the kind, 4 or 6, of the one that was told: the member listens on it.
func alike(ips []netip.Addr, told netip.Addr) netip.Addr {
	for _, ip := range ips {
		if ip.Is4() == told.Is4() {
			return ip
		}
	}
	return ips[0]
}

// nameOf is the host that a member advertises, "" if that is an address: then memberlist tells the same.
func nameOf(t Tags) string {
	host, _, err := net.SplitHostPort(t.GRPCAddr)
	if err != nil {
		return ""
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	return host
}

// resolve returns the addresses of a host, at least one; a literal address is its own.
func resolve(ctx context.Context, host string, lookup LookupFunc) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("host %q has no address", host)
	}
	ips = slices.Clone(ips[:min(len(ips), MaxAddrsPerSeed)])
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return ips, nil
}

// lookupIP asks the operating system.
func lookupIP(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}
