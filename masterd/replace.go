package masterd

import (
	"context"
	"fmt"
	"slices"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

// commitMarks is how many ticks ago the commit index was that a new master must
// have reached to count as caught up: what masters know of each other is up to
// two seconds old.
const commitMarks = 3

// members is what the leader knows of the masters at one moment.
type members struct {
	servers []raftnode.Server
	alive   map[model.MasterID]bool   // by gossip; the leader is
	removed map[model.MasterID]string // Raft addresses of masters that were taken out
	caught  map[model.MasterID]bool   // their logs hold what was committed a few seconds ago
}

// predecessor returns the voter whose place a non-voter takes: a dead one with
// the same Raft address. A master whose data directory was lost comes back like
// that, with a new id on its old address. The handshake of Raft's connections
// proves that it is there and the dead one is not, once its log has grown.
func (ms members) predecessor(s raftnode.Server) (old raftnode.Server, ok bool) {
	for _, v := range ms.servers {
		if v.Voter && v.ID != s.ID && v.Addr == s.Addr && !ms.alive[v.ID] {
			return v, true
		}
	}
	return raftnode.Server{}, false
}

// inherits says whether a non-voter stands where a master was that is no member
// any more: the second half of a replacement.
func (ms members) inherits(s raftnode.Server) bool {
	for _, addr := range ms.removed {
		if addr == s.Addr {
			return true
		}
	}
	return false
}

// mayLose says whether the voters that live are a majority of those that are
// left without a dead one.
func (ms members) mayLose() bool {
	voters, living := 0, 0
	for _, s := range ms.servers {
		if s.Voter {
			voters++
			if ms.alive[s.ID] {
				living++
			}
		}
	}
	return living > (voters-1)/2
}

// swap is one step of a replacement: a dead voter goes, a new master gets its
// vote. At most one of the two is set for a step that was begun by another
// leader.
type swap struct {
	out model.MasterID // "" = it is gone already
	in  raftnode.Server
}

// nextSwap returns what to replace now, one at a time, what was begun first.
//
// The old voter goes before the new one gets a vote (ADR 0020). Either order
// bears the same number of failures, but this one needs at each step only voters
// that were needed before; in the other one the new master is needed from the
// moment it gets its vote, and if it then does not answer, there is no quorum
// left that could take it out again.
func (ms members) nextSwap() (s swap, ok bool) {
	for _, in := range ms.servers {
		if in.Voter || !ms.alive[in.ID] || !ms.caught[in.ID] {
			continue
		}
		if old, found := ms.predecessor(in); found {
			if !ok && ms.mayLose() {
				s, ok = swap{out: old.ID, in: in}, true
			}
		} else if ms.inherits(in) {
			return swap{in: in}, true
		}
	}
	return s, ok
}

// replaceWiped lets new masters take the place of those that they stand for:
// one out, one in.
func (m *Master) replaceWiped(ctx context.Context, ms members) error {
	s, ok := ms.nextSwap()
	if !ok {
		return nil
	}
	if s.out != "" {
		m.log.Warn("a master has lost its data and came back under a new id: replacing it", "old", string(s.out), "new", string(s.in.ID), "raft", s.in.Addr)
		if err := m.propose(ctx, removeMasterCommand(s.out)); err != nil {
			return fmt.Errorf("replace master %s by %s: %w", s.out, s.in.ID, err)
		}
		if err := m.node.RemoveServer(ctx, s.out); err != nil {
			return fmt.Errorf("replace master %s by %s: %w", s.out, s.in.ID, err)
		}
	}
	if err := m.node.AddVoter(ctx, s.in.ID, s.in.Addr); err != nil {
		return fmt.Errorf("give a vote to master %s, which stands where one was lost: %w", s.in.ID, err)
	}
	return nil
}

// membersNow joins Raft's configuration, gossip and the table of masters.
// committed is the commit index of a few seconds ago.
func (m *Master) membersNow(committed uint64) (members, error) {
	servers, _, err := m.node.Servers()
	if err != nil {
		return members{}, fmt.Errorf("read the raft configuration: %w", err)
	}
	ms := members{
		servers: servers,
		alive:   map[model.MasterID]bool{m.id.ID(): true},
		removed: make(map[model.MasterID]string),
		caught:  make(map[model.MasterID]bool),
	}
	for _, mb := range m.masterMembers() {
		if mb.Status == gossip.StatusAlive {
			ms.alive[model.MasterID(mb.ID)] = true
		}
	}
	m.fsm.View().Masters(func(rec *model.Master) bool {
		if rec.Removed && rec.RaftAddr != "" {
			ms.removed[rec.ID] = rec.RaftAddr
		}
		return true
	})
	for _, h := range m.node.Health() {
		ms.caught[h.ID] = h.Healthy && h.LastIndex >= committed
	}
	return ms, nil
}

// marks remembers the last few values of an index, one for each tick.
type marks []uint64

// push adds a value and returns the oldest that is kept.
func (k *marks) push(v uint64) uint64 {
	*k = append(*k, v)
	if len(*k) > commitMarks {
		*k = slices.Delete(*k, 0, 1)
	}
	return (*k)[0]
}
