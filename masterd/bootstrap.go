package masterd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// Times of the bootstrap (design 4).
const (
	bootstrapTick = 200 * time.Millisecond
	// promiseGiveUp is how long a refused proposer waits before it asks again,
	// with up to as much jitter.
	promiseGiveUp = 5 * time.Second
	// promiseExpiry is how long the word given to a proposer binds after it
	// has vanished from gossip.
	promiseExpiry = 30 * time.Second
	// bootstrapNotice is how often a waiting master says what it waits for.
	bootstrapNotice = 10 * time.Second
)

// bootstrap founds the cluster if this master is the one to do it, and returns
// only when ctx ends. The lowest id among exactly BootstrapExpect visible
// masters without state asks each of the others for a persisted promise; with
// all granted it bootstraps itself with the full list, and the others receive
// everything through Raft.
func (m *Master) bootstrap(ctx context.Context) error {
	tick := time.NewTicker(bootstrapTick)
	defer tick.Stop()
	var notBefore, noticed time.Time
	for !m.hasState() {
		now, news := time.Now(), m.claims.news.next()
		members, why := m.founders()
		switch {
		case why != "":
			if err := m.followCluster(); err != nil {
				m.log.Warn("could not give up a promise that binds no more", "err", err)
			}
			if now.Sub(noticed) > bootstrapNotice {
				noticed = now
				m.log.Info("waiting to bootstrap", "reason", why)
			}
		case members[0] == m.id.ID() && now.After(notBefore):
			if err := m.found(ctx, members); err != nil {
				wait := promiseGiveUp + rand.N(promiseGiveUp)
				notBefore = now.Add(wait)
				m.log.Warn("could not bootstrap: trying again", "in", wait.Round(time.Millisecond).String(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-news:
		}
	}
	<-ctx.Done()
	return nil
}

// founders returns the sorted ids of the masters that would found a cluster
// together, or why there is none to found now.
func (m *Master) founders() (ids []model.MasterID, why string) {
	for _, mb := range m.masterMembers() {
		if mb.Status != gossip.StatusAlive {
			continue
		}
		if mb.ID != string(m.id.ID()) && (mb.Tags.Bootstrapped || !mb.Tags.Cluster.IsZero()) {
			return nil, fmt.Sprintf("master %s already belongs to a cluster: its leader will add this one", mb.ID)
		}
		if mb.Tags.BootstrapExpect != m.cfg.BootstrapExpect {
			return nil, fmt.Sprintf("master %s has bootstrap_expect %d, this one %d: they must agree", mb.ID, mb.Tags.BootstrapExpect, m.cfg.BootstrapExpect)
		}
		if _, ok := m.directoryOf(model.MasterID(mb.ID)); !ok {
			return nil, fmt.Sprintf("master %s has not proved yet that it is at %s", mb.ID, mb.Tags.GRPCAddr)
		}
		ids = append(ids, model.MasterID(mb.ID))
	}
	if len(ids) != m.cfg.BootstrapExpect {
		return nil, fmt.Sprintf("%d of exactly %d masters are visible", len(ids), m.cfg.BootstrapExpect)
	}
	slices.Sort(ids)
	return ids, ""
}

// followCluster gives up a promise that binds no more for a cluster that other
// masters have founded meanwhile: Raft connections of any other cluster than
// the promised one are refused, so this master could not be added to it.
func (m *Master) followCluster() error {
	p := m.id.Promised()
	if p == nil {
		return nil
	}
	var found gossip.Member
	void := p.From == m.id.ID() // and it has founded nothing
	for _, mb := range m.masterMembers() {
		c := mb.Tags.Cluster
		if mb.Status != gossip.StatusAlive || c.IsZero() || c.ID == p.Cluster.ID {
			continue
		}
		found = mb
		void = void || mb.ID == string(p.From) // it belongs to another one itself
	}
	if found.ID == "" || (!void && !m.promiseExpired(*p)) {
		return nil
	}
	c := found.Tags.Cluster
	m.log.Warn("giving up a promise for a cluster that exists", "promised", p.Cluster.ID, "cluster", c.ID)
	return m.id.Promise(promise{From: model.MasterID(found.ID), Cluster: c})
}

// found asks for the promises and bootstraps. Its own promise, with the
// cluster's identity, is persisted first and kept over retries, so that one
// proposer never names two clusters.
func (m *Master) found(ctx context.Context, members []model.MasterID) error {
	own := promise{From: m.id.ID(), Cluster: newCluster(), Members: members}
	if p := m.id.Promised(); p != nil {
		if p.From != own.From && !m.promiseExpired(*p) {
			return fmt.Errorf("this master has promised itself to %s", p.From)
		}
		if p.From == own.From {
			own.Cluster = p.Cluster
		}
	}
	if err := m.id.Promise(own); err != nil {
		return err
	}
	var servers []raftnode.Server
	for _, id := range members {
		addr, ok := m.resolveRaft(id)
		if !ok {
			return fmt.Errorf("no Raft address of master %s", id)
		}
		servers = append(servers, raftnode.Server{ID: id, Addr: addr, Voter: true})
		if id == m.id.ID() {
			continue
		}
		if err := m.askPromise(ctx, id, own); err != nil {
			return err
		}
	}
	m.log.Info("founding the cluster", "cluster", own.Cluster.ID, "masters", len(members))
	return m.node.Bootstrap(servers) //nolint:contextcheck // a local write that must not stop half-way
}

func (m *Master) askPromise(ctx context.Context, id model.MasterID, own promise) error {
	conn, err := m.conns.get(m.grpcAddrOf(id))
	if err != nil {
		return fmt.Errorf("ask master %s for its promise: %w", id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	reply, err := rpc.PeerClient(conn).Promise(ctx, rpc.PromiseRequest{
		From: own.From, Cluster: own.Cluster, Expect: m.cfg.BootstrapExpect, Members: own.Members,
	})
	if err != nil {
		return fmt.Errorf("ask master %s for its promise: %w", id, err)
	}
	if !reply.Granted {
		return fmt.Errorf("master %s refused its promise: %s", id, reply.Reason)
	}
	return nil
}

// grantPromise decides on another master's request. What it grants is on disk
// before the answer leaves.
func (m *Master) grantPromise(req rpc.PromiseRequest) (rpc.PromiseReply, error) {
	refuse := func(format string, args ...any) (rpc.PromiseReply, error) {
		return rpc.PromiseReply{Reason: fmt.Sprintf(format, args...)}, nil
	}
	if m.hasState() || !m.id.Settled().IsZero() {
		return refuse("it already belongs to cluster %s", m.id.Current())
	}
	if req.Expect != m.cfg.BootstrapExpect {
		return refuse("it has bootstrap_expect %d, not %d", m.cfg.BootstrapExpect, req.Expect)
	}
	if req.Cluster.IsZero() || len(req.Members) != req.Expect || !slices.IsSorted(req.Members) ||
		!slices.Contains(req.Members, m.id.ID()) || req.Members[0] != req.From {
		return refuse("the list must hold exactly %d sorted masters, this one among them, and begin with the proposer", req.Expect)
	}
	seen, why := m.founders()
	if why != "" {
		return refuse("it cannot see the same masters yet: %s", why)
	}
	if !slices.Equal(seen, req.Members) {
		return refuse("it sees other masters: %v", seen)
	}
	if p := m.id.Promised(); p != nil && p.From != req.From && !m.promiseExpired(*p) {
		return refuse("it has promised itself to %s", p.From)
	}
	m.promiseSeen.Store(m.sinceStart()) // founders has just seen it
	if err := m.id.Promise(promise{From: req.From, Cluster: req.Cluster, Members: req.Members}); err != nil {
		return rpc.PromiseReply{}, err
	}
	return rpc.PromiseReply{Granted: true}, nil
}

// promiseExpired reports whether a promise no longer binds: its proposer has
// been gone from gossip for promiseExpiry. A cluster that this proposer alone
// believes in can never act, because every founder must have promised.
func (m *Master) promiseExpired(p promise) bool {
	for _, mb := range m.masterMembers() {
		if mb.ID == string(p.From) && mb.Status == gossip.StatusAlive {
			m.promiseSeen.Store(m.sinceStart())
			return false
		}
	}
	gone := time.Duration(m.sinceStart()-m.promiseSeen.Load()) * time.Millisecond
	return gone > promiseExpiry
}

// hasState reports whether this master ever belonged to a cluster. A store
// that cannot be read counts as having state: it must not found a cluster.
func (m *Master) hasState() bool {
	has, err := m.node.HasState()
	if err != nil {
		m.log.Error("could not read the raft stores", "err", err)
		return true
	}
	return has
}
