package raftnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// standing is where this node stands at one moment.
type standing struct {
	state  raft.RaftState
	term   uint64
	leader model.MasterID // "" if it knows none
}

func (n *Node) standing() standing {
	for {
		term, state := n.raft.CurrentTerm(), n.raft.State()
		_, leader := n.raft.LeaderWithID()
		if term == n.raft.CurrentTerm() && state == n.raft.State() {
			return standing{state, term, model.MasterID(leader)}
		}
	}
}

// lost reports whether a master that stands there has lost that leader, if it is
// dead: it follows it, or has followed nobody since.
func (s standing) lost(who suspect) bool {
	if s.leader == "" {
		return s.term >= who.term && s.term <= who.term+failoverRounds
	}
	return s.leader == who.leader && s.term == who.term
}

// voter is one that agrees that the leader is gone.
type voter struct {
	id   model.MasterID
	last LogEnd
}

// inLine sorts voters by who should be elected: the newest log, then the lower
// id. Everybody who got the same answers comes to the same order.
func inLine(voters []voter) {
	slices.SortFunc(voters, func(a, b voter) int {
		switch {
		case a.last.newer(b.last):
			return -1
		case b.last.newer(a.last):
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
}

// loss is that of one leader.
type loss struct {
	who    suspect
	began  time.Time
	silent bool     // nothing is known but that it is not heard
	waited bool     // once for somebody's election
	others []string // why they did not agree, in the last round
}

// evidence is what the log says of it.
func (l *loss) evidence() string {
	if l.silent {
		return "leader silent: a majority has not heard it for the election time-out; taking over"
	}
	return "leader gone: its connections are closed, its ports refuse, and a majority finds the same; taking over"
}

// lookAfter finds out whether a leader is gone, and replaces it.
func (f *failover) lookAfter(ctx context.Context, who suspect) {
	if who.leader == "" || f.isSpent(who) {
		return
	}
	l := &loss{who: who, began: time.Now()}
	for range failoverRounds {
		if f.n.raft.CurrentTerm() > who.term && f.awaitChange(ctx, who, f.times.settle) {
			return
		}
		at := f.n.standing()
		if at.state != raft.Follower || !at.lost(who) {
			return
		}
		if over := f.round(ctx, l, at); over {
			return
		}
		f.awaitChange(ctx, who, f.times.again)
		if ctx.Err() != nil {
			return
		}
	}
	f.spend(who)
}

// awaitChange waits until this node has not lost that leader any more, and no
// longer than limit.
func (f *failover) awaitChange(ctx context.Context, who suspect, limit time.Duration) (changed bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		if at := f.n.standing(); at.state != raft.Follower || !at.lost(who) {
			return true
		}
		select {
		case <-f.moved:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return true
		}
	}
}

// refuses reports whether both ports of a leader refuse this node. A dying
// process closes one thing after the other: with the last connection gone and a
// port that still answers, it looks again, a few times.
func (f *failover) refuses(ctx context.Context, who suspect) bool {
	for wait := dyingFirst; ; wait *= 2 {
		if f.ports.refused(ctx, who, f.tasks.Go) {
			return true
		}
		if open, _ := f.n.trans.stream.linked(who.leader); open > 0 || wait > dyingLast || !pause(ctx, wait) {
			return false
		}
		f.ports.doubt(who.leader)
	}
}

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitUnlinked waits until every connection of the leader is closed: those of
// a dead process are, once what it sent last was read.
func (f *failover) awaitUnlinked(ctx context.Context, leader model.MasterID, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		open, changed := f.n.trans.stream.linked(leader)
		if open == 0 {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// round makes one attempt to replace a leader whose process seems dead. over
// means that there is nothing left to do.
func (f *failover) round(ctx context.Context, l *loss, at standing) (over bool) {
	who := l.who
	if !f.refuses(ctx, who) {
		// With a connection left it was one of several that closed; without,
		// the process may be on its way out, or in.
		open, _ := f.n.trans.stream.linked(who.leader)
		return open > 0
	}
	if !f.awaitUnlinked(ctx, who.leader, f.times.again) {
		return true
	}
	return f.replace(ctx, l, at)
}

// replace has the voters agree on a loss, and begins an election when it is this
// node's turn.
func (f *failover) replace(ctx context.Context, l *loss, at standing) (over bool) {
	who := l.who
	found := time.Since(l.began)
	agreed, need, err := f.ask(ctx, l)
	if err != nil {
		f.log.Warn("cannot ask whether the leader is gone", "err", err)
		return true
	}
	if len(agreed) < need {
		f.disagree(l, len(agreed), need)
		return false
	}
	inLine(agreed)
	place := slices.IndexFunc(agreed, func(v voter) bool { return v.id == f.n.cfg.ID })
	if place > 0 {
		if f.awaitChange(ctx, who, time.Duration(place)*f.times.step) {
			return true
		}
		if !l.waited && f.anyBegun(ctx, l, agreed[:place]) {
			l.waited = true
			return f.awaitChange(ctx, who, f.times.settle)
		}
	}
	if now := f.n.standing(); now != at {
		return false // an election has failed meanwhile: ask anew
	}
	f.log.Info(l.evidence(), "leader", string(who.leader), "term", who.term, "agreed", len(agreed), "needed", need, "place_in_line", place+1,
		"found_after", found.String(), "after", time.Since(l.began).String())
	if err := f.n.trans.fire(func() error { return f.n.mayTimeOut(at) }, f.times.again); err != nil {
		f.log.Warn("could not take over", "leader", string(who.leader), "term", who.term, "err", err)
	} else {
		f.n.observer.tookOver(l.silent)
	}
	return false
}

// anyBegun asks those that stand before this node in the line whether they have
// begun: two candidates of one term would take the votes from each other, and a
// candidate with a slow disk needs longer than a step before it asks for the
// first. Who does not answer is passed over.
func (f *failover) anyBegun(ctx context.Context, l *loss, ahead []voter) bool {
	ctx, cancel := context.WithTimeout(ctx, f.times.again)
	defer cancel()
	replies := make(chan LeaderGoneReply, len(ahead))
	for _, v := range ahead {
		f.tasks.Go(func() { replies <- f.askOne(ctx, v.id, f.question(l)) })
	}
	for range ahead {
		if r := <-replies; r.Begun {
			return true
		}
	}
	return false
}

// disagree writes once a while that the leader is lost to this node alone. What
// is silent to one standby is everyday, and of interest when a failover took long.
func (f *failover) disagree(l *loss, agreed, need int) {
	last, interval := &f.warned, disagreedInterval
	if l.silent {
		last, interval = &f.noted, silentInterval
	}
	f.mu.Lock()
	quiet := !last.IsZero() && time.Since(*last) < interval
	if !quiet {
		*last = time.Now()
	}
	f.mu.Unlock()
	if quiet {
		return
	}
	if l.silent {
		f.log.Info("the leader is silent to this master, and too few others find the same yet", "leader", string(l.who.leader), "term", l.who.term,
			"agreed", agreed, "needed", need, "after", time.Since(l.began).String(), "others", strings.Join(l.others, "; "))
		return
	}
	f.log.Warn("the leader's connections are closed and its ports refuse this master, but too few others find the same in time: leaving it alone; check the firewalls between the masters",
		"leader", string(l.who.leader), "term", l.who.term, "agreed", agreed, "needed", need)
}

// ask asks every other voter and returns those that agree, this node included,
// and how many it takes. It waits until all have answered, or a little longer
// than a majority, or times.ask.
func (f *failover) ask(ctx context.Context, l *loss) (agreed []voter, need int, err error) {
	voters, err := f.n.voters()
	if err != nil {
		return nil, 0, err
	}
	if !slices.Contains(voters, f.n.cfg.ID) || len(voters) > maxAsked {
		return nil, 0, fmt.Errorf("%w: this master has no vote, or there are more than %d", model.ErrRefused, maxAsked)
	}
	need = len(voters)/2 + 1
	agreed = []voter{{f.n.cfg.ID, f.n.logEnd()}}
	ctx, cancel := context.WithTimeout(ctx, f.times.ask)
	defer cancel()
	replies := make(chan LeaderGoneReply, len(voters))
	asked := 0
	for _, id := range voters {
		if id == f.n.cfg.ID || id == l.who.leader {
			continue
		}
		asked++
		f.tasks.Go(func() { replies <- f.askOne(ctx, id, f.question(l)) })
	}
	l.others = l.others[:0]
	var grace <-chan time.Time
	for range asked {
		select {
		case r := <-replies:
			if r.Gone {
				agreed = append(agreed, voter{r.ID, r.Last})
			} else {
				l.others = append(l.others, fmt.Sprintf("%s: %s", r.ID, r.Reason))
			}
		case <-grace:
			return agreed, need, nil
		case <-ctx.Done():
			return agreed, need, nil
		}
		if len(agreed) >= need && grace == nil {
			timer := time.NewTimer(f.times.grace)
			defer timer.Stop()
			grace = timer.C
		}
	}
	return agreed, need, nil
}

func (f *failover) question(l *loss) LeaderGone {
	return LeaderGone{
		From: f.n.cfg.ID, Cluster: f.n.identity.Current(), Leader: l.who.leader, Term: l.who.term, Last: f.n.logEnd(), Silent: l.silent,
	}
}

// askOne returns what one voter says; no answer is no agreement.
func (f *failover) askOne(ctx context.Context, id model.MasterID, q LeaderGone) LeaderGoneReply {
	reply, err := f.deps.Peers.AskLeaderGone(ctx, id, q)
	switch {
	case err != nil:
		f.log.Debug("no answer whether the leader is gone", "from", string(id), "err", err)
		return LeaderGoneReply{ID: id, Reason: err.Error()}
	case reply.ID != id:
		f.log.Warn("another master answers at the address of a voter", "voter", string(id), "answered_by", string(reply.ID))
		return LeaderGoneReply{ID: id, Reason: "another master answers at its address"}
	case !reply.Gone:
		f.log.Debug("a voter does not find the leader gone", "voter", string(id), "reason", reply.Reason)
	}
	return reply
}
