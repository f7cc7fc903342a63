package raftnode

import (
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// Server is a member of the Raft configuration.
type Server struct {
	ID    model.MasterID
	Addr  string // the advertised Raft address it had when it was added
	Voter bool   // set by Servers; Bootstrap takes every server as a voter
}

// Identity tells which cluster this master belongs to and judges others. Both
// methods are called from many goroutines and must not block.
type Identity interface {
	// Current is the identity sent in the handshake; zero before the node has
	// joined a cluster.
	Current() model.ClusterIdentity
	// Check returns why a peer may not talk to this node, or nil. It is asked
	// at both ends of each new connection.
	Check(peer model.ClusterIdentity, peerID model.MasterID) error
}

// Deps are what a replica works with. FSM, Stream, Identity and Logger are
// required. The node owns FSM and Stream from Open on; Close closes Stream.
type Deps struct {
	FSM      *fsm.FSM
	Stream   StreamLayer
	Identity Identity
	// Resolve returns the present Raft address of a member, as gossip knows
	// it; without an answer the address in the Raft configuration is used.
	// Called for each message to a peer: it must not block.
	Resolve func(model.MasterID) (addr string, ok bool)
	// OnApplied is called on the apply thread after each entry, in order, with
	// the entry's index and what it changed (empty, not nil, if nothing). It
	// must not block: everything waits for it. After a restore (at start, or
	// from a leader's snapshot) it is called with the restored index and nil
	// changes, which means that everything may have changed. It may be called
	// before Open returns.
	OnApplied func(index uint64, changes []fsm.Change)
	// OnLeader is called after each change of what Leader or Belief answer, on
	// the library's own thread: it must not block, and should ask them, since
	// more may have changed by then.
	OnLeader func()
	// Failover lets a standby replace a leader whose process is dead within
	// milliseconds; nil: only after the election time-out.
	Failover *Failover
	// Wall is the machine's wall clock, stamped on commands for people to read
	// and on nothing that is measured; nil: time.Now.
	Wall func() time.Time
	// Disk is called before each write to the log and stable store with what
	// it is for; an error of it is the store's. Tests make a disk slow,
	// hanging or broken with it; nil: nothing.
	Disk func(what string) error
	// Observer is told of commits, snapshots and take-overs, for metrics.
	Observer Observer
	Logger   hclog.Logger
}

func (d Deps) withDefaults() Deps {
	if d.Resolve == nil {
		d.Resolve = func(model.MasterID) (string, bool) { return "", false }
	}
	if d.OnApplied == nil {
		d.OnApplied = func(uint64, []fsm.Change) {}
	}
	if d.OnLeader == nil {
		d.OnLeader = func() {}
	}
	if d.Wall == nil {
		d.Wall = time.Now
	}
	if d.Disk == nil {
		d.Disk = func(string) error { return nil }
	}
	return d
}

func (d Deps) validate() error {
	if f := d.Failover; f != nil && (f.Peers == nil || f.Ports == nil || f.Dial == nil) {
		return errors.New("raft node: the fast failover needs peers, ports and a dialer")
	}
	if d.FSM == nil || d.Stream == nil || d.Identity == nil || d.Logger == nil {
		return errors.New("raft node: the state machine, the stream layer, the identity and the logger are required")
	}
	return nil
}
