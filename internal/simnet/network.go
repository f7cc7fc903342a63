package simnet

import (
	"fmt"
	"math/rand"
	"net"
	"slices"
	"sync"
	"time"
)

// Limits and defaults of the simulated network.
const (
	// DefaultLatency is the one-way delay between two hosts of a new network.
	DefaultLatency = 200 * time.Microsecond
	// LoopbackLatency is the one-way delay of a host to itself. It is above zero so that a busy exchange in virtual
	// time moves the clock.
	LoopbackLatency = 10 * time.Microsecond
	// ConnectTimeout ends a dial that nobody answers, like Linux with its default of six repeated SYNs.
	ConnectTimeout = 127 * time.Second
	// SynRetransmit is what a lost connection request costs.
	SynRetransmit = time.Second
	// SegmentRetransmit is what a lost piece of a stream costs.
	SegmentRetransmit = 200 * time.Millisecond
	// StreamBufferBytes is how much one direction of a stream holds before its writer blocks.
	StreamBufferBytes = 256 << 10
	// AcceptBacklog is how many unaccepted connections a listener holds; further dials wait for room.
	AcceptBacklog = 128
	// PacketQueueLen is how many datagrams wait at a receiver, those under way included; further ones are dropped.
	PacketQueueLen = 1024
	// MaxDatagramBytes is the largest datagram, as for UDP over IPv4.
	MaxDatagramBytes = 65507
	// MaxHosts bounds the hosts of one network.
	MaxHosts = 60000
	// maxRetransmits bounds the losses in a row of one piece of a stream, so that a loss of 1 still ends.
	maxRetransmits = 6

	firstEphemeralPort = 32768
	lastPort           = 65535
)

// Stats counts what happened on the wire since the network was made.
type Stats struct {
	// PacketsSent counts datagrams given to the network.
	PacketsSent uint64
	// PacketsLost counts those swallowed by loss or a cut link.
	PacketsLost uint64
	// PacketsUnheard counts those for an address where nobody listens.
	PacketsUnheard uint64
	// PacketsOverflowed counts those dropped because the receiver's queue was full.
	PacketsOverflowed uint64
	// Dials counts stream connections established.
	Dials uint64
	// DialsRefused counts dials answered with a refusal.
	DialsRefused uint64
}

// link is one direction between two hosts, by host name.
type link struct{ from, to string }

// Network is a set of hosts and the links between them. All methods are safe for concurrent use.
// mu guards the topology and is never held while a stream's lock is taken, so a stream may ask about its links.
type Network struct {
	mu       sync.RWMutex
	hosts    map[string]*Host
	byIP     map[string]*Host
	cut      map[link]bool
	deaf     map[link]bool // for datagrams only
	refused  map[link]bool // answered by a firewall with a reset
	isolated map[string]bool
	paused   map[string]bool
	held     []heldPacket  // for paused hosts, oldest first
	changed  chan struct{} // closed and replaced when a waiting dial should look again

	condMu  sync.Mutex // guards the fields below
	rng     *rand.Rand
	latency time.Duration
	jitter  time.Duration
	links   map[link]time.Duration
	loss    float64
	dropped float64 // of datagrams, besides loss
	stats   Stats
}

// New returns an empty network with [DefaultLatency], no jitter and no loss. The network takes rng over: nobody else
// may use it afterwards. A nil rng means one seeded with 1. Inside a synctest bubble New must be called in the bubble.
func New(rng *rand.Rand) *Network {
	if rng == nil {
		rng = rand.New(rand.NewSource(1))
	}
	return &Network{
		hosts:    make(map[string]*Host),
		byIP:     make(map[string]*Host),
		cut:      make(map[link]bool),
		deaf:     make(map[link]bool),
		refused:  make(map[link]bool),
		isolated: make(map[string]bool),
		paused:   make(map[string]bool),
		changed:  make(chan struct{}),
		rng:      rng,
		latency:  DefaultLatency,
		links:    make(map[link]time.Duration),
	}
}

// Host returns the host of that name, making it (with the next address of 10.0.0.0/16) when there is none. After a
// crash it returns the dead host until [Network.Restart]. It panics beyond [MaxHosts].
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, ok := n.hosts[name]; ok {
		return h
	}
	if len(n.hosts) >= MaxHosts {
		panic(fmt.Sprintf("simnet: more than %d hosts", MaxHosts))
	}
	number := len(n.hosts) + 1
	return n.addLocked(name, net.IPv4(10, 0, byte(number>>8), byte(number)).To4())
}

// addLocked puts a fresh host at ip, replacing what had the name. n.mu is held.
func (n *Network) addLocked(name string, ip net.IP) *Host {
	h := newHost(n, name, ip)
	n.hosts[name] = h
	n.byIP[ip.String()] = h
	return h
}

// Crash kills the process on a host: its listeners and sockets are gone, its connections are reset, and dials to it are
// refused. The [Host] handle stays dead for good, so code of the "killed" process that still runs reaches nobody; new
// life begins with [Network.Restart]. For a machine that loses power call [Network.Isolate] first.
func (n *Network) Crash(name string) {
	n.mu.Lock()
	h := n.hosts[name]
	if h == nil || h.dead {
		n.mu.Unlock()
		return
	}
	h.dead = true
	listeners, sockets, conns := h.takeAllLocked()
	n.wakeDialsLocked()
	n.mu.Unlock()
	close(h.died)
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, p := range sockets {
		_ = p.Close()
	}
	for _, c := range conns {
		c.abort()
	}
}

// Restart brings a crashed host back with its old address and nothing listening, and returns the new handle. A host
// that has not crashed is returned as it is; an unknown one is a mistake of the test and panics.
func (n *Network) Restart(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.hosts[name]
	if old == nil {
		panic(fmt.Sprintf("simnet: restart of unknown host %q", name))
	}
	if !old.dead {
		return old
	}
	h := n.addLocked(name, old.ip)
	n.wakeDialsLocked()
	return h
}

// Partition cuts both directions between two hosts.
func (n *Network) Partition(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{a, b}] = true
	n.cut[link{b, a}] = true
}

// Split cuts every link between hosts of different groups. Hosts that are in no group keep all their links.
func (n *Network) Split(groups ...[]string) {
	for i, left := range groups {
		for _, right := range groups[i+1:] {
			for _, a := range left {
				for _, b := range right {
					n.Partition(a, b)
				}
			}
		}
	}
}

// CutOneWay swallows what from sends to to; the other direction stays open.
func (n *Network) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[link{from, to}] = true
}

// CutDatagrams swallows the datagrams that from sends to to; streams go on.
func (n *Network) CutDatagrams(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf[link{from, to}] = true
}

// Pause holds everything from and to a host, like a machine that stands still for a while: streams stall, dials wait,
// datagrams are kept (at most [PacketQueueLen] for all paused hosts together; the newest are lost beyond). Nothing is
// lost if [Network.Resume] comes in time.
func (n *Network) Pause(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[name] = true
}

// Resume ends a pause: what was held goes on its way.
func (n *Network) Resume(name string) {
	n.healWhere(func() { delete(n.paused, name) })
	n.release()
}

// Isolate cuts a host from every other one, those added later included.
func (n *Network) Isolate(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[name] = true
}

// Heal opens every cut link and ends every isolation and pause.
func (n *Network) Heal() {
	n.healWhere(func() {
		clear(n.cut)
		clear(n.refused)
		clear(n.deaf)
		clear(n.isolated)
		clear(n.paused)
	})
	n.release()
}

// HealLink opens both directions between two hosts. An isolation of either stays.
func (n *Network) HealLink(a, b string) {
	n.healWhere(func() {
		for _, l := range []link{{a, b}, {b, a}} {
			delete(n.cut, l)
			delete(n.deaf, l)
			delete(n.refused, l)
		}
	})
}

// Rejoin ends the isolation of one host. Cut links stay cut.
func (n *Network) Rejoin(name string) {
	n.healWhere(func() { delete(n.isolated, name) })
}

// healWhere applies change under the lock and wakes everything that may have been waiting for it.
func (n *Network) healWhere(change func()) {
	n.mu.Lock()
	change()
	n.wakeDialsLocked()
	var conns []*Conn
	for _, h := range n.hosts {
		for c := range h.conns {
			conns = append(conns, c)
		}
	}
	n.mu.Unlock()
	for _, c := range conns {
		c.in.wake()
		c.out.wake()
	}
}

// SetLatency sets the one-way delay between hosts: base plus a uniform share of jitter.
func (n *Network) SetLatency(base, jitter time.Duration) {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	n.latency, n.jitter = base, jitter
}

// SetLinkLatency overrides the base delay of one direction.
func (n *Network) SetLinkLatency(from, to string, base time.Duration) {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	n.links[link{from, to}] = base
}

// SetLoss makes the network lose each packet between different hosts with probability p in 0..1. A lost datagram is
// gone; a lost piece of a stream arrives later by [SegmentRetransmit], a lost connection request by [SynRetransmit].
func (n *Network) SetLoss(p float64) {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	n.loss = min(max(p, 0), 1)
}

// SetDatagramLoss makes the network lose datagrams between different hosts with probability p in 0..1 and leaves streams
// alone, as a firewall does that knows no UDP.
func (n *Network) SetDatagramLoss(p float64) {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	n.dropped = min(max(p, 0), 1)
}

// Stats returns the counters so far.
func (n *Network) Stats() Stats {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	return n.stats
}

// Hosts returns the names of all hosts, sorted.
func (n *Network) Hosts() []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	names := make([]string, 0, len(n.hosts))
	for name := range n.hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// open says whether packets pass in one direction now.
func (n *Network) open(from, to string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.openLocked(from, to)
}

func (n *Network) openLocked(from, to string) bool {
	return from == to || n.passableLocked(from, to) && !n.paused[from] && !n.paused[to]
}

// passableLocked is openLocked but for pauses, which only delay.
func (n *Network) passableLocked(from, to string) bool {
	return from == to || !n.cut[link{from, to}] && !n.isolated[from] && !n.isolated[to]
}

// wakeDialsLocked lets every waiting dial look again. n.mu is held for writing.
func (n *Network) wakeDialsLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// delay draws the one-way delay of a packet.
func (n *Network) delay(from, to string) time.Duration {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	return n.delayLocked(from, to)
}

func (n *Network) delayLocked(from, to string) time.Duration {
	if from == to {
		return LoopbackLatency
	}
	d, ok := n.links[link{from, to}]
	if !ok {
		d = n.latency
	}
	if n.jitter > 0 {
		d += time.Duration(n.rng.Int63n(int64(n.jitter)))
	}
	return d
}

// reliableDelay draws the delay of a packet that is sent again after retransmit whenever it is lost.
func (n *Network) reliableDelay(from, to string, retransmit time.Duration) time.Duration {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	d := n.delayLocked(from, to)
	for range maxRetransmits {
		if from == to || n.loss == 0 || n.rng.Float64() >= n.loss {
			break
		}
		d += retransmit
	}
	return d
}

// lost draws whether a datagram is lost on the way.
func (n *Network) lost(from, to string) bool {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	return from != to && (n.loss > 0 && n.rng.Float64() < n.loss || n.dropped > 0 && n.rng.Float64() < n.dropped)
}

// count applies an update to the counters.
func (n *Network) count(update func(*Stats)) {
	n.condMu.Lock()
	defer n.condMu.Unlock()
	update(&n.stats)
}
