package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// serfEventBuffer is the room between serf and the goroutine that drains it. It exceeds serf's own buffer of 1,024, so
// that serf can end even when nobody drains any more.
const serfEventBuffer = 2048

// ErrMemberAlive is returned for the removal of a member that is there.
var ErrMemberAlive = errors.New("member is alive")

// ErrNoMember is returned for an id that nobody has.
var ErrNoMember = errors.New("no such member")

// Gossip is this node's part in the pool. Life: [New], [Gossip.Start], [Gossip.Run], perhaps [Gossip.Leave], and
// [Gossip.Close]. All methods are safe for concurrent use; those that need the network fail with [ErrStopped] unless
// Start succeeded and Close was not called.
type Gossip struct {
	cfg       Config
	admission *admission
	names     *names
	queue     *eventQueue
	events    chan Event
	pumped    chan struct{} // closed to end the pump

	drains sync.WaitGroup
	deaf   chan string // peers without datagrams, for watchDatagrams

	tagsMu sync.Mutex // serialises SetTags, which serf does not

	keysMu sync.Mutex          // one question or order about keys at a time
	ring   *memberlist.Keyring // nil without encryption; set by Start

	seedMu sync.Mutex
	seeds  []string      // Config.Join and what AddSeeds brought
	more   chan struct{} // capacity 1: seeds were added

	mu     sync.Mutex // guards the life of what follows
	wire   *wire
	serf   *serf.Serf
	closed bool
}

// New checks the configuration. It opens nothing.
func New(cfg Config) (*Gossip, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure gossip: %w", err)
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.New(rand.NewSource(time.Now().UnixNano()))
	}
	if cfg.Transport == nil {
		cfg.Transport = &osTransport{}
	}
	if cfg.Lookup == nil {
		cfg.Lookup = lookupIP
	}
	cfg.Tags = cfg.tags()
	g := &Gossip{
		cfg:       cfg,
		admission: newAdmission(cfg.Tags, cfg.Logger),
		names:     newNames(cfg.Logger, cfg.Lookup),
		seeds:     slices.Clone(cfg.Join),
		more:      make(chan struct{}, 1),
		queue:     newEventQueue(),
		events:    make(chan Event),
		pumped:    make(chan struct{}),
		deaf:      make(chan string, maxDatagramSigns),
	}
	return g, nil
}

// Start binds the port and begins to gossip; from then on other nodes may join this one. Events are collected at once.
func (g *Gossip) Start() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrStopped
	}
	if g.serf != nil {
		return errors.New("gossip was started before")
	}
	w, err := openWire(g.cfg.Transport, g.cfg.bindAddr(), g.names)
	if err != nil {
		return err
	}
	// serf asks this, too, but leaves a goroutine behind when its start fails.
	if _, _, err := w.FinalAdvertiseAddr(g.cfg.AdvertiseHost, g.cfg.AdvertisePort); err != nil {
		return errors.Join(err, w.Shutdown())
	}
	if err := w.unnamed(); err != nil {
		g.cfg.Logger.Warn("the own advertised name does not resolve here; only others have to know it", "node", g.cfg.NodeID,
			"name", g.cfg.AdvertiseHost, "setting", "network.advertise", "err", err)
	}
	raw := make(chan serf.Event, serfEventBuffer)
	conf, err := g.cfg.serfConfig(w, g.admission, raw, g.noteLostDatagrams)
	if err != nil {
		return errors.Join(err, w.Shutdown())
	}
	s, err := serf.Create(conf)
	if err != nil {
		return errors.Join(fmt.Errorf("start gossip of %s: %w", g.cfg.NodeID, err), w.Shutdown())
	}
	g.wire, g.serf, g.ring = w, s, conf.MemberlistConfig.Keyring
	g.drains.Add(4)
	go func() {
		defer g.drains.Done()
		g.drain(raw)
	}()
	go func() {
		defer g.drains.Done()
		g.queue.pump(g.events, g.pumped)
	}()
	go func() {
		defer g.drains.Done()
		g.watchDatagrams(s, g.advertised(w), g.pumped)
	}()
	go func() {
		defer g.drains.Done()
		g.watchNames(w.ctx, s)
	}()
	g.cfg.Logger.Info("gossip started", "node", g.cfg.NodeID, "bind", w.listener.Addr().String(),
		"advertise", g.advertised(w), "encrypted", len(g.cfg.Keys) > 0)
	return nil
}

// Run keeps in touch with the seeds and blocks until ctx ends (it returns nil, and gossip goes on until Close) or gossip
// has stopped by itself ([ErrStopped]). Seeds that cannot be reached are never a reason to return. Call it once.
func (g *Gossip) Run(ctx context.Context) error {
	asked := ctx // whoever ends it may close g at once: that is no failure
	s, err := g.running()
	if err != nil {
		if asked.Err() != nil {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		g.joinLoop(ctx)
	}()
	defer func() {
		cancel()
		<-joined // at most one exchange of StreamTimeout
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-s.ShutdownCh():
		if asked.Err() != nil {
			return nil
		}
		return ErrStopped
	}
}

// Events gives the news about members, this node included. It may be read as slowly as one likes: unread news of a
// member is replaced by later news of the same one. It is closed by Close.
func (g *Gossip) Events() <-chan Event { return g.events }

// LostEvents counts the events dropped because more than [MaxPendingMembers] members had unread news.
func (g *Gossip) LostEvents() uint64 { return g.queue.lost() }

// Members returns all known members, this node included, also failed and left ones, sorted by id. Members that this
// node would refuse now (one of the two has found its cluster since they met) are left out; no event tells of that.
func (g *Gossip) Members() []Member {
	s, err := g.running()
	if err != nil {
		return nil
	}
	raw := s.Members()
	members := make([]Member, 0, len(raw))
	for _, r := range raw {
		if m, ok := g.known(r); ok {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.ID, b.ID) })
	return members
}

// known translates a member unless it is none of ours.
func (g *Gossip) known(raw serf.Member) (Member, bool) {
	m, err := member(raw)
	if err != nil {
		return Member{}, false
	}
	_, err = g.admission.admits(m.Tags)
	return m, err == nil && !g.admission.turnedAway(m.ID)
}

// SetTags changes what this node tells about itself. It blocks until the news was passed on, at most [BroadcastTimeout];
// if nobody could be told by then, they learn it at the next sync of states.
func (g *Gossip) SetTags(tags Tags) error {
	if tags.ID == "" {
		tags.ID = g.cfg.NodeID
	}
	if tags.ID != g.cfg.NodeID {
		return fmt.Errorf("set tags of %s: they carry the id %q", g.cfg.NodeID, tags.ID)
	}
	encoded, err := encodeTags(tags)
	if err != nil {
		return fmt.Errorf("set tags of %s: %w", g.cfg.NodeID, err)
	}
	g.tagsMu.Lock()
	defer g.tagsMu.Unlock()
	s, err := g.running()
	if err != nil {
		return err
	}
	g.admission.setLocal(tags)
	if err := s.SetTags(encoded); err != nil {
		// The size was checked above, so this is the wait that timed out; the tags are in force.
		g.cfg.Logger.Debug("gossip tags not yet passed on", "node", g.cfg.NodeID, "err", err)
	}
	return nil
}

// Leave says goodbye, so that the others see this node left instead of failed. It blocks until they had time to hear it,
// or ctx ends; the farewell then goes on by itself for a few seconds. Close follows.
func (g *Gossip) Leave(ctx context.Context) error {
	s, err := g.running()
	if err != nil {
		return err
	}
	left := make(chan error, 1)
	go func() { left <- s.Leave() }()
	select {
	case err := <-left:
		if err != nil {
			return fmt.Errorf("leave gossip as %s: %w", g.cfg.NodeID, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leave gossip as %s: %w", g.cfg.NodeID, ctx.Err())
	}
}

// ForceRemove makes the whole pool forget a failed or left member. It blocks until the order was passed on, at most
// [BroadcastTimeout]. A member that is there gives [ErrMemberAlive]: it would only object.
func (g *Gossip) ForceRemove(id string) error {
	s, err := g.running()
	if err != nil {
		return err
	}
	members := s.Members()
	i := slices.IndexFunc(members, func(m serf.Member) bool { return m.Name == id })
	switch {
	case i < 0:
		return fmt.Errorf("remove %q from gossip: %w", id, ErrNoMember)
	case members[i].Status == serf.StatusAlive || members[i].Status == serf.StatusLeaving:
		return fmt.Errorf("remove %q from gossip: %w", id, ErrMemberAlive)
	}
	if err := s.RemoveFailedNodePrune(id); err != nil {
		return fmt.Errorf("remove %q from gossip: %w", id, err)
	}
	return nil
}

// LocalAddr returns the bound "ip:port", empty before Start.
func (g *Gossip) LocalAddr() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wire == nil {
		return ""
	}
	return g.wire.listener.Addr().String()
}

// AdvertiseAddr returns the "host:port" that others are told, empty before Start. A name stays a name.
func (g *Gossip) AdvertiseAddr() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wire == nil {
		return ""
	}
	return g.advertised(g.wire)
}

func (g *Gossip) advertised(w *wire) string {
	at := w.advertisedAddr()
	if _, err := netip.ParseAddr(g.cfg.AdvertiseHost); err == nil || g.cfg.AdvertiseHost == "" {
		return at.String()
	}
	return net.JoinHostPort(g.cfg.AdvertiseHost, strconv.Itoa(int(at.Port())))
}

// Unresolved lists the members whose advertised names mean nothing on this node.
func (g *Gossip) Unresolved() []Unresolved { return g.names.unresolved() }

// Close stops at once and closes Events; without a Leave before, others see this node fail. Calling it again does
// nothing. The libraries' own timers may run on for a few seconds, without a network.
func (g *Gossip) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	if g.serf == nil {
		close(g.events)
		return nil
	}
	err := g.serf.Shutdown()
	close(g.pumped)
	g.drains.Wait()
	if err != nil {
		return fmt.Errorf("stop gossip of %s: %w", g.cfg.NodeID, err)
	}
	return nil
}

// running returns serf while there is one.
func (g *Gossip) running() (*serf.Serf, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.serf == nil || g.closed {
		return nil, ErrStopped
	}
	return g.serf, nil
}

// drain empties serf's channel without ever waiting for our own reader.
func (g *Gossip) drain(raw <-chan serf.Event) {
	for {
		select {
		case ev := <-raw:
			if me, ok := ev.(serf.MemberEvent); ok {
				g.collect(me)
			}
		case <-g.pumped:
			return
		}
	}
}

// collect queues and logs the news of one serf event.
func (g *Gossip) collect(ev serf.MemberEvent) {
	kind, ok := eventKind(ev.Type)
	if !ok {
		return
	}
	for _, raw := range ev.Members {
		m, ok := g.known(raw)
		if !ok {
			continue
		}
		g.queue.put(Event{Kind: kind, Member: m})
		g.names.poke()
		log := g.cfg.Logger.Info
		if kind == MemberUpdated || m.ID == g.cfg.NodeID {
			log = g.cfg.Logger.Debug
		}
		log("gossip member "+string(kind), "node", g.cfg.NodeID, "member", m.ID, "role", string(m.Role), "addr", m.SerfAddr)
	}
}
