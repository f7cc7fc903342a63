package raftnode

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// LeaderGone answers another voter's question whether the leader's process is
// dead, or the leader silent. This node agrees only if it has lost the same
// leader of the same term, knows of none since, and its own dials of both ports
// were refused too, or it has itself not heard the leader for the election
// time-out; the question contributes nothing. One that has begun an election meanwhile agrees
// as well, so that the others see who goes first. It blocks while it looks a few times at ports that
// the kernel may be closing, or for what its own silence lacks, and no longer than ctx. A question that is agreed to makes this node ask
// its own.
func (n *Node) LeaderGone(ctx context.Context, q LeaderGone) LeaderGoneReply {
	reply := LeaderGoneReply{ID: n.cfg.ID}
	if err := n.agree(ctx, q); err != nil {
		reply.Reason = err.Error()
		return reply
	}
	at := n.standing()
	// A candidate by the library's own timer asks for pre-votes first, which
	// fail as long as anybody follows the silent leader: it has not begun.
	reply.Begun = at.term > q.Term || !q.Silent && at.state != raft.Follower
	reply.Gone, reply.Last = true, n.logEnd()
	poke(n.failover.wake)
	return reply
}

// agree returns why this node does not find the leader gone, or nil.
func (n *Node) agree(ctx context.Context, q LeaderGone) error {
	if n.failover == nil {
		return fmt.Errorf("%w: fast failover is not set up", model.ErrUnavailable)
	}
	if !n.calls.enter() {
		return fmt.Errorf("%w: this master is stopping", model.ErrUnavailable)
	}
	defer n.calls.leave()
	if ours := n.identity.Current(); ours.IsZero() || q.Cluster != ours {
		return fmt.Errorf("%w: the question is of another cluster or epoch", model.ErrForeignCluster)
	}
	who := n.failover.followed.get()
	if who != (suspect{q.Leader, q.Term}) || q.Leader == "" {
		return fmt.Errorf("%w: this master follows another leader, or in another term", model.ErrRefused)
	}
	if err := n.mayAgree(q, who); err != nil {
		return err
	}
	f := n.failover
	if q.Silent {
		if err := f.findSilent(ctx); err != nil {
			return err
		}
		return n.mayAgree(q, who)
	}
	// The asker may be quicker to notice than this node by a moment.
	if !f.refuses(ctx, who) && (!f.awaitUnlinked(ctx, who.leader, dyingLast) || !f.refuses(ctx, who)) {
		return fmt.Errorf("%w: the leader's ports do not both refuse this master", model.ErrRefused)
	}
	if !f.awaitUnlinked(ctx, who.leader, f.times.ask) {
		return fmt.Errorf("%w: the leader has a connection to this master", model.ErrRefused)
	}
	return n.mayAgree(q, who) // it may have heard from a leader meanwhile
}

// mayAgree judges everything that costs nothing.
func (n *Node) mayAgree(q LeaderGone, who suspect) error {
	voters, err := n.voters()
	if err != nil {
		return err
	}
	if q.From == n.cfg.ID || q.From == q.Leader || !slices.Contains(voters, q.From) || !slices.Contains(voters, n.cfg.ID) {
		return fmt.Errorf("%w: it takes two voters", model.ErrRefused)
	}
	at := n.standing()
	if at.state == raft.Leader || !at.lost(who) {
		return fmt.Errorf("%w: this master is in term %d with the leader %q", model.ErrRefused, at.term, at.leader)
	}
	return nil
}

// mayTimeOut returns why this node must not begin an election that nobody can
// refuse, although it stood there when it decided to, or nil.
func (n *Node) mayTimeOut(then standing) error {
	now := n.standing()
	if now.state != raft.Follower || now != then {
		return fmt.Errorf("%w: this master is a %s in term %d with the leader %q by now", model.ErrRefused, now.state, now.term, now.leader)
	}
	return n.hasVote()
}

// obeys returns why this node does not begin an election on a peer's word, or
// nil: only the leader it follows may hand leadership over.
func (n *Node) obeys(sender raft.ServerID) error {
	now := n.standing()
	if now.state != raft.Follower || now.leader == "" || now.leader != model.MasterID(sender) {
		return fmt.Errorf("%w: this master is a %s in term %d with the leader %q", model.ErrRefused, now.state, now.term, now.leader)
	}
	return n.hasVote()
}

// hasVote returns an error unless this node is a voter by the newest membership
// and, where one is known, by the newest that is committed.
func (n *Node) hasVote() error {
	voters, err := n.voters()
	if err != nil {
		return err
	}
	if !slices.Contains(voters, n.cfg.ID) {
		return fmt.Errorf("%w: this master has no vote", model.ErrRefused)
	}
	committed := n.state.members.Load()
	if committed == nil {
		return nil
	}
	if !slices.Contains(votersOf(*committed), n.cfg.ID) {
		return fmt.Errorf("%w: this master has no vote in the committed membership", model.ErrRefused)
	}
	return nil
}

// voters returns the voters of the newest membership.
func (n *Node) voters() ([]model.MasterID, error) {
	future := n.raft.GetConfiguration()
	if err := future.Error(); err != nil {
		return nil, fmt.Errorf("read raft members: %w", err)
	}
	return votersOf(future.Configuration()), nil
}

func votersOf(c raft.Configuration) []model.MasterID {
	var out []model.MasterID
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			out = append(out, model.MasterID(s.ID))
		}
	}
	return out
}

// logEnd returns the newest entry of this node's log, or of its snapshot.
func (n *Node) logEnd() LogEnd {
	raw := n.raft.Stats()
	number := func(key string) uint64 {
		v, _ := strconv.ParseUint(raw[key], 10, 64) // the library writes numbers
		return v
	}
	log := LogEnd{Index: number("last_log_index"), Term: number("last_log_term")}
	snapshot := LogEnd{Index: number("last_snapshot_index"), Term: number("last_snapshot_term")}
	if log.Index >= snapshot.Index { // as the library compares
		return log
	}
	return snapshot
}
