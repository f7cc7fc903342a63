package masterd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
)

// identityTick is how often the gossip tags and the identity file are compared
// with the state, besides on events.
const identityTick = 5 * time.Second

// gossipLeaveTimeout bounds the goodbye of a master that stops.
const gossipLeaveTimeout = 3 * time.Second

// keyringFile keeps the keys of gossip as they were exchanged.
const keyringFile = "gossip-keyring.json"

func (m *Master) openGossip() (err error) {
	m.goss, err = gossip.New(gossip.Config{
		NodeID:        string(m.id.ID()),
		BindHost:      m.cfg.Bind,
		BindPort:      m.cfg.SerfPort,
		AdvertiseHost: m.cfg.Advertise,
		Tags:          m.tags(),
		Join:          m.cfg.Join,
		Keys:          m.deps.GossipKeys,
		KeyringFile:   filepath.Join(m.cfg.DataDir, keyringFile),
		Transport:     m.deps.Network,
		Logger:        m.log.Named("gossip"),
	})
	if err != nil {
		return err
	}
	if err := m.goss.Start(); err != nil {
		return err
	}
	m.refreshDirectory()
	return nil
}

// runGossip gossips until ctx ends and then says goodbye, so that the others do
// not take a master that was stopped for one that failed. It stays a member.
func (m *Master) runGossip(ctx context.Context) error {
	if err := m.goss.Run(ctx); err != nil {
		return err
	}
	if !slices.ContainsFunc(m.goss.Members(), func(mb gossip.Member) bool {
		return mb.ID != string(m.id.ID()) && mb.Status == gossip.StatusAlive
	}) {
		return nil // nobody to tell
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gossipLeaveTimeout)
	defer cancel()
	if err := m.goss.Leave(ctx); err != nil {
		m.log.Warn("could not say goodbye in gossip", "err", err)
	}
	return nil
}

// refreshDirectory copies what gossip says of the masters' addresses, as far as
// it is proved, to where the transport reads it for each message, without a
// lock. An address that is in the master's record needs no proof.
func (m *Master) refreshDirectory() {
	dir := make(map[model.MasterID]place)
	view := m.fsm.View()
	for _, mb := range m.masterMembers() {
		claim := claimOf(mb)
		_, proved := m.claims.of(claim)
		rec, ok := view.Master(claim.id)
		if proved || claim.id == m.id.ID() || ok && rec.GRPCAddr == claim.grpc && rec.RaftAddr == claim.raft {
			dir[claim.id] = claim
		}
	}
	m.directory.Store(&dir)
}

// directoryOf returns where gossip says that a master is, if that is proved.
func (m *Master) directoryOf(id model.MasterID) (place, bool) {
	dir := m.directory.Load()
	if dir == nil {
		return place{}, false
	}
	p, ok := (*dir)[id]
	return p, ok
}

// tags is what this master says of itself in gossip.
func (m *Master) tags() gossip.Tags {
	settled := m.id.Settled()
	return gossip.Tags{
		Role:            gossip.RoleMaster,
		ID:              string(m.id.ID()),
		Cluster:         settled,
		GRPCAddr:        m.GRPCAddr(),
		RaftAddr:        m.RaftAddr(),
		HTTPAddr:        m.HTTPAddr(),
		BootstrapExpect: m.cfg.BootstrapExpect,
		Bootstrapped:    !settled.IsZero() || m.hasState(),
		Version:         m.cfg.Version,
	}
}

// watchGossip drains membership events: they only wake those who compare.
func (m *Master) watchGossip(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, ok := <-m.goss.Events():
			if !ok {
				return nil
			}
			m.refreshDirectory()
			m.claims.poke()
			m.log.Debug("gossip event", "kind", string(ev.Kind), "member", ev.Member.ID, "role", string(ev.Member.Role))
			if l := m.leading.Load(); l != nil {
				l.schedule.wake()
			}
		}
	}
}

// keepIdentity settles the identity once the state names the cluster, and
// keeps the gossip tags true.
func (m *Master) keepIdentity(ctx context.Context) error {
	wake, unwatch := m.hub.watchAny()
	defer unwatch()
	tick := time.NewTicker(identityTick)
	defer tick.Stop()
	var told gossip.Tags
	warned := false
	for {
		if c := m.fsm.View().Cluster(); !c.IsZero() {
			if err := m.id.Settle(c); err != nil {
				return fmt.Errorf("settle identity: %w", err)
			}
			m.markReadyIfLed()
			warned = warned || m.warnSeeds()
		}
		m.refreshDirectory()
		if want := m.tags(); want != told {
			if err := m.goss.SetTags(want); err != nil {
				m.log.Warn("could not update gossip tags", "err", err)
			} else {
				told = want
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}

// warnSeeds says once that this master was configured with other settings than
// those in force: they seed a new cluster only.
func (m *Master) warnSeeds() bool {
	if now := m.fsm.View().Settings(); !m.cfg.Seeds.Equal(model.DefaultSettings()) && !m.cfg.Seeds.Equal(now) {
		m.log.Warn("the cluster {} block differs from the settings in force, which stay: change them with `hearth settings set`",
			"configured", fmt.Sprintf("%+v", m.cfg.Seeds), "in_force", fmt.Sprintf("%+v", now))
	}
	return true
}

// Ready is closed once this master has served as a member of a cluster with a
// leader for the first time.
func (m *Master) Ready() <-chan struct{} { return m.ready }

func (m *Master) markReady() { m.onceRd.Do(func() { close(m.ready) }) }

func (m *Master) markReadyIfLed() {
	if id, _ := m.node.Leader(); id != "" {
		m.markReady()
	}
}

// masterMembers lists the masters that gossip knows, this one included.
func (m *Master) masterMembers() []gossip.Member {
	var out []gossip.Member
	for _, mb := range m.goss.Members() {
		if mb.Role == gossip.RoleMaster {
			out = append(out, mb)
		}
	}
	return out
}

// resolveRaft returns the present Raft address of a master: what it has proved
// itself first, then the replicated table. It never blocks.
func (m *Master) resolveRaft(id model.MasterID) (string, bool) {
	if p, ok := m.directoryOf(id); ok && p.raft != "" {
		return p.raft, true
	}
	if rec, ok := m.fsm.View().Master(id); ok && rec.RaftAddr != "" {
		return rec.RaftAddr, true
	}
	return "", false
}

// grpcAddrOf returns the gRPC address of a master, "" if unknown.
func (m *Master) grpcAddrOf(id model.MasterID) string {
	if id == m.id.ID() {
		return m.GRPCAddr()
	}
	if p, ok := m.directoryOf(id); ok && p.grpc != "" {
		return p.grpc
	}
	if rec, ok := m.fsm.View().Master(id); ok {
		return rec.GRPCAddr
	}
	return ""
}

// masterAddrs lists the gRPC addresses of all masters in the state.
func (m *Master) masterAddrs() []string {
	var out []string
	m.fsm.View().Masters(func(rec *model.Master) bool {
		if !rec.Removed {
			out = append(out, rec.GRPCAddr)
		}
		return true
	})
	return out
}

// serfAddrs lists the gossip addresses of all masters in the state.
func (m *Master) serfAddrs() []string {
	var out []string
	m.fsm.View().Masters(func(rec *model.Master) bool {
		if !rec.Removed && rec.SerfAddr != "" {
			out = append(out, rec.SerfAddr)
		}
		return true
	})
	return out
}
