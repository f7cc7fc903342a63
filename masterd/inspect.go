package masterd

import (
	"context"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
)

// View is the state as this replica has applied it. It never changes.
func (m *Master) View() *fsm.View { return m.fsm.View() }

// Leading is the term in which this master acts as leader: its leader scope is
// ready. leads is false on a standby and while a scope begins or ends.
func (m *Master) Leading() (term uint64, leads bool) {
	if l := m.leading.Load(); l != nil {
		return l.term, true
	}
	return 0, false
}

// Belief is the term that Raft is in here and whether it believes to lead it.
func (m *Master) Belief() (term uint64, leads bool) { return m.node.Belief() }

// Cluster is the cluster this master belongs to for good; zero before that.
func (m *Master) Cluster() model.ClusterIdentity { return m.id.Settled() }

// Servers lists the members of the latest Raft configuration known here.
func (m *Master) Servers() ([]raftnode.Server, error) {
	servers, _, err := m.node.Servers()
	return servers, err
}

// Transfer hands leadership to a voter, "" meaning the best one. It blocks
// until that one leads, ctx ends, or five seconds have passed.
func (m *Master) Transfer(ctx context.Context, to model.MasterID) error { return m.transfer(ctx, to) }

// Sessions counts the sessions that are open with this leader; none on a
// standby.
func (m *Master) Sessions() (workers, drivers int) {
	l := m.leading.Load()
	if l == nil {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.workers {
		if s.session != nil {
			workers++
		}
	}
	for _, s := range l.drivers {
		if s.session != nil {
			drivers++
		}
	}
	return workers, drivers
}
