package masterd

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/web"
)

// metrics are this master's, in a registry of its own: tests run several masters
// in one process.
type metrics struct {
	reg      *prometheus.Registry
	board    *web.Board
	rpc      *web.RPC
	activity *web.Activity
}

func newMetrics(m *Master) *metrics {
	reg := web.NewRegistry("master", m.cfg.Version)
	x := &metrics{
		reg: reg, rpc: web.NewRPC(reg), activity: web.NewActivity(reg),
		board: web.NewBoard(func() (web.Snapshot, error) { return pageSource{m}.Snapshot() }),
	}
	web.RegisterCluster(reg, x.board, m.nodeFigures, m.log)
	validity := m.deps.Certificate
	if validity == nil {
		validity = func() (from, until time.Time) { return time.Time{}, time.Time{} }
	}
	web.RegisterCertificate(reg, validity)
	return x
}

// handler answers scrapes.
func (x *metrics) handler() http.Handler { return web.MetricsHandler(x.reg) }

// raft is told what the replica does.
func (x *metrics) raft() raftnode.Observer {
	return raftnode.Observer{Committed: x.activity.Committed, Snapshot: x.activity.Snapshot, TookOver: x.activity.TookOver}
}

// nodeFigures are what metrics show of this process.
func (m *Master) nodeFigures() web.Node {
	s := m.node.Stats()
	n := web.Node{
		Ready: m.unready() == "", Term: s.Term, LastIndex: s.LastIndex, CommitIndex: s.CommitIndex,
		AppliedIndex: s.AppliedIndex, SnapshotIndex: s.SnapshotIndex, Silence: s.LastContact.Seconds(),
		Gossip: make(map[web.GossipKey]int),
	}
	switch s.State {
	case "Leader":
		n.RaftState, n.Silence = "leader", 0
	case "Candidate":
		n.RaftState = "candidate"
	case "Follower":
		n.RaftState = "follower"
	default:
		n.RaftState = "shutdown"
	}
	if _, leads := m.Leading(); leads {
		n.Leading = true
		n.QueuedCommands, n.QueuedBytes = m.node.Queued()
		n.WorkerSessions, n.DriverSessions = m.Sessions()
	}
	for _, mb := range m.goss.Members() {
		n.Gossip[web.GossipKey{Role: string(mb.Role), Status: string(mb.Status)}]++
	}
	return n
}

// countLeaders counts changes of who leads, until ctx ends.
func (m *Master) countLeaders(ctx context.Context) error {
	var before model.MasterID
	var own uint64 // the last term counted as won
	for {
		changed := m.leader.next()
		id, _ := m.node.Leader()
		if id != before {
			term, leads := m.node.Belief()
			m.metrics.activity.LeaderChanged(id == m.id.ID() && leads && term != own)
			if leads {
				own = term
			}
			before = id
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
