package raftnode

import (
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// Stats are one replica's own figures at one moment.
type Stats struct {
	State         string // Follower, Candidate, Leader, Shutdown
	Term          uint64
	LastIndex     uint64 // newest entry in the log
	LastTerm      uint64 // the term of that entry
	CommitIndex   uint64
	AppliedIndex  uint64 // newest entry applied to the state
	SnapshotIndex uint64 // newest snapshot; 0 without one
	LastContact   time.Duration
	HeardLeader   bool // LastContact means something
}

// Stats returns the figures that masters tell each other.
func (n *Node) Stats() Stats {
	raw := n.raft.Stats()
	number := func(key string) uint64 {
		v, _ := strconv.ParseUint(raw[key], 10, 64) // the library writes numbers
		return v
	}
	s := Stats{
		State: raw["state"], Term: number("term"),
		LastIndex: max(number("last_log_index"), number("last_snapshot_index")), LastTerm: number("last_log_term"),
		CommitIndex: number("commit_index"), AppliedIndex: n.AppliedIndex(), SnapshotIndex: number("last_snapshot_index"),
	}
	if s.LastTerm == 0 {
		s.LastTerm = number("last_snapshot_term")
	}
	if at := n.LastContact(); !at.IsZero() {
		s.LastContact, s.HeardLeader = max(0, time.Since(at)), true
	}
	return s
}

// Belief returns Raft's own view of this node: its term and whether it leads.
func (n *Node) Belief() (term uint64, leading bool) {
	for {
		term, leading = n.raft.CurrentTerm(), n.raft.State() == raft.Leader
		// Both are read for one moment: a loss and a win in between would
		// pair an old term with a new state.
		if term == n.raft.CurrentTerm() {
			return term, leading
		}
	}
}

// LeaderSince returns when this node began to lead; zero if it does not.
func (n *Node) LeaderSince() time.Time {
	term, since := n.terms.current()
	if !term.Leading {
		return time.Time{}
	}
	return since
}

// Leader returns the leader this node knows and its Raft address; empty
// without one.
func (n *Node) Leader() (id model.MasterID, addr string) {
	a, i := n.raft.LeaderWithID()
	return model.MasterID(i), string(a)
}

// Term returns the present Raft term.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// AppliedIndex returns the newest entry with commands that is applied here.
func (n *Node) AppliedIndex() uint64 { return n.state.applied.Load() }

// LastIndex returns the newest entry in this node's log or snapshot.
func (n *Node) LastIndex() uint64 { return n.raft.LastIndex() }

// CommitIndex returns the newest entry that this node knows to be committed.
func (n *Node) CommitIndex() uint64 { return n.raft.CommitIndex() }

// LastContact returns when this node last heard of its leader: now on the
// leader itself, zero if never.
func (n *Node) LastContact() time.Time {
	if n.raft.State() == raft.Leader {
		return time.Now()
	}
	return n.raft.LastContact()
}

// ClusterTick returns the present cluster clock in ms: the last applied tick
// plus the time since this node applied it. Only the leader's is the
// cluster's.
func (n *Node) ClusterTick() int64 { return n.state.clock.now() }
