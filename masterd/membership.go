package masterd

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// minQuorum is the number of voters below which cleaning up dead masters never
// goes (HA-18).
const minQuorum = 3

// runMembership reconciles the Raft configuration and the table of masters
// with gossip, on a timer: a visible master of this cluster that Raft does not
// know is added (autopilot promotes it once it is stable and caught up), and a
// member on a new address is updated. A removal that was left half done is
// finished, and a new master takes the place of a dead one whose address it
// has. Gossip only informs: "failed" and "left" alone change nothing here, and
// who is where must be proved by the master itself (ADR 0040).
func (l *leadership) runMembership(ctx context.Context) error {
	tick := time.NewTicker(loopTick)
	defer tick.Stop()
	var commits marks
	for {
		committed := commits.push(l.m.node.CommitIndex())
		if err := l.m.reconcileMasters(ctx, committed); err != nil && ctx.Err() == nil {
			l.log.Warn("could not reconcile masters", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// reconcileMasters makes one pass; committed is the commit index of a few
// seconds ago.
func (m *Master) reconcileMasters(ctx context.Context, committed uint64) error {
	servers, _, err := m.node.Servers()
	if err != nil {
		return fmt.Errorf("read the raft configuration: %w", err)
	}
	known := make(map[model.MasterID]raftnode.Server, len(servers))
	for _, s := range servers {
		known[s.ID] = s
		// A leader may have gone between the two halves of a removal.
		if rec, ok := m.fsm.View().Master(s.ID); ok && rec.Removed && s.ID != m.id.ID() {
			m.log.Info("removing a master from raft", "master", string(s.ID))
			if err := m.node.RemoveServer(ctx, s.ID); err != nil {
				return fmt.Errorf("finish the removal of master %s: %w", s.ID, err)
			}
		}
	}
	own := m.fsm.View().Cluster()
	for _, mb := range m.masterMembers() {
		if mb.Status != gossip.StatusAlive || mb.Tags.RaftAddr == "" {
			continue
		}
		if c := mb.Tags.Cluster; !c.IsZero() && c != own {
			continue
		}
		rec, ok := m.proved(mb, known)
		if !ok {
			continue
		}
		if err := m.takeIn(ctx, rec, known); err != nil {
			return err
		}
	}
	ms, err := m.membersNow(committed)
	if err != nil {
		return err
	}
	return m.replaceWiped(ctx, ms)
}

// proved returns the record of a master as it has proved it itself, if the
// state does not have that yet.
func (m *Master) proved(mb gossip.Member, known map[model.MasterID]raftnode.Server) (model.Master, bool) {
	claim := claimOf(mb)
	if m.settled(claim, mb.SerfAddr, known) {
		return model.Master{}, false
	}
	if claim.id == m.id.ID() {
		return m.record(), true
	}
	p, ok := m.claims.of(claim)
	if !ok {
		return model.Master{}, false // it is being asked
	}
	rec := p.Master
	rec.SerfAddr = mb.SerfAddr
	return rec, true
}

// takeIn brings Raft's configuration and the table in line with a master's
// record.
func (m *Master) takeIn(ctx context.Context, rec model.Master, known map[model.MasterID]raftnode.Server) (err error) {
	s, ok := known[rec.ID]
	switch {
	case !ok:
		m.log.Info("adding a master", "master", string(rec.ID), "raft", rec.RaftAddr)
		err = m.node.AddNonvoter(ctx, rec.ID, rec.RaftAddr)
	case s.Addr != rec.RaftAddr && s.Voter:
		m.log.Info("a master has moved", "master", string(rec.ID), "from", s.Addr, "to", rec.RaftAddr)
		err = m.node.AddVoter(ctx, rec.ID, rec.RaftAddr)
	case s.Addr != rec.RaftAddr:
		err = m.node.AddNonvoter(ctx, rec.ID, rec.RaftAddr)
	}
	if err != nil {
		return fmt.Errorf("change the raft configuration for master %s: %w", rec.ID, err)
	}
	return m.registerMaster(ctx, rec)
}

// runAutopilot runs the promotion of stable masters for one term. It begins by
// asking every master for its figures, which may take a second: nothing else
// waits for that.
func (m *Master) runAutopilot(ctx context.Context) error {
	stop := m.node.StartAutopilot(ctx, raftnode.AutopilotDeps{
		KnownServers: m.knownServers,
		PeerStats:    m.peerStats,
		MinQuorum:    minQuorum,
		Logger:       m.log.Named("autopilot"),
	})
	defer stop()
	<-ctx.Done()
	return nil
}

// knownServers lists the masters for autopilot: the table, with gossip's word
// on who is alive.
func (m *Master) knownServers() []raftnode.KnownServer {
	alive := make(map[model.MasterID]gossip.Member)
	for _, mb := range m.masterMembers() {
		if mb.Status == gossip.StatusAlive {
			alive[model.MasterID(mb.ID)] = mb
		}
	}
	var out []raftnode.KnownServer
	ms, err := m.membersNow(0)
	if err != nil {
		m.log.Warn("autopilot gets no list of masters", "err", err)
		return nil
	}
	m.fsm.View().Masters(func(rec *model.Master) bool {
		if rec.Removed {
			return true
		}
		_, ok := alive[rec.ID]
		_, waits := ms.predecessor(raftnode.Server{ID: rec.ID, Addr: rec.RaftAddr})
		out = append(out, raftnode.KnownServer{ID: rec.ID, Addr: rec.RaftAddr, Alive: ok, Version: rec.Version, NoVote: waits})
		return true
	})
	return out
}

// peerStats asks one master for its replication state.
func (m *Master) peerStats(ctx context.Context, id model.MasterID, _ string) (lastIndex, lastTerm uint64, lastContact time.Duration, err error) {
	conn, err := m.conns.get(m.grpcAddrOf(id))
	if err != nil {
		return 0, 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	r, err := rpc.PeerClient(conn).PeerStats(ctx)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("ask master %s for its replication state: %w", id, err)
	}
	if r.ID != id {
		return 0, 0, 0, fmt.Errorf("ask master %s for its replication state: %w: %s answers at its address", id, model.ErrUnavailable, r.ID)
	}
	return r.LastIndex, r.LastTerm, time.Duration(r.LastContactMilli) * time.Millisecond, nil
}

// neverHeard is what a master says that has not heard a leader since its start.
const neverHeard = 24 * time.Hour

// ownStats is this master's replication state.
func (m *Master) ownStats() rpc.PeerStatsReply {
	s := m.node.Stats()
	if !s.HeardLeader {
		s.LastContact = neverHeard
	}
	return rpc.PeerStatsReply{
		ID:               m.id.ID(),
		Term:             s.Term,
		LastIndex:        s.LastIndex,
		LastTerm:         s.LastTerm,
		AppliedIndex:     s.AppliedIndex,
		LastContactMilli: s.LastContact.Milliseconds(),
	}
}
