package masterd

import (
	"context"
	"sync"
	"time"

	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// Limits of the proofs.
const (
	claimTick = time.Second
	// maxClaims bounds the masters that are known by gossip only, and
	// maxProving how many are asked at once.
	maxClaims  = 64
	maxProving = 8
	// A master that could not prove itself is asked again after proveFirst, and
	// less and less often.
	proveFirst = 250 * time.Millisecond
	proveLast  = 15 * time.Second
)

// place is where a master is.
type place struct {
	id                        model.MasterID
	grpc, raft, http, version string
}

func placeOf(r model.Master) place {
	return place{r.ID, r.GRPCAddr, r.RaftAddr, r.HTTPAddr, r.Version}
}

// claimOf is what gossip says.
func claimOf(mb gossip.Member) place {
	return place{model.MasterID(mb.ID), mb.Tags.GRPCAddr, mb.Tags.RaftAddr, mb.Tags.HTTPAddr, mb.Tags.Version}
}

// claims turns what gossip claims about masters into what is known. Whoever has
// the gossip key can claim anything, so each claim that differs from the
// replicated record is asked about at the address it names (GO-15, ADR 0040).
// Safe for concurrent use.
type claims struct {
	m *Master

	mu      sync.Mutex
	proved  map[model.MasterID]rpc.ProveReply // the last proof of each
	tries   map[model.MasterID]*try
	running int
	full    bool // told
	work    sync.WaitGroup
	wake    chan struct{} // capacity 1; gossip has news
	news    *signal       // fired after each proof
}

// try is how proving one claim goes.
type try struct {
	claim   place
	running bool
	after   time.Time
	wait    time.Duration
	told    string // the last error in the log
}

func newClaims(m *Master) *claims {
	return &claims{
		m: m, proved: make(map[model.MasterID]rpc.ProveReply), tries: make(map[model.MasterID]*try),
		wake: make(chan struct{}, 1), news: newSignal(),
	}
}

// poke is told that gossip has news. It never blocks.
func (c *claims) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// of returns the proof of a claim, if there is one.
func (c *claims) of(claim place) (rpc.ProveReply, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.proved[claim.id]
	return p, ok && placeOf(p.Master) == claim
}

// run has claims proved until ctx ends.
func (c *claims) run(ctx context.Context) error {
	defer c.work.Wait()
	for await(ctx, c.look(ctx), c.wake, nil) != byEnd {
	}
	return nil
}

// look begins to prove what is due, and returns when to look again, after claimTick
// at the latest.
func (c *claims) look(ctx context.Context) time.Duration {
	unproved := c.unproved()
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.tries {
		if _, still := unproved[id]; !still && !c.tries[id].running {
			delete(c.tries, id)
		}
	}
	next := claimTick
	for id, claim := range unproved {
		t := c.tries[id]
		if t == nil {
			if len(c.tries) >= maxClaims {
				if !c.full {
					c.full = true
					c.m.log.Warn("gossip names too many unknown masters: the others are not looked at", "limit", maxClaims)
				}
				continue
			}
			t = &try{}
			c.tries[id] = t
		}
		if t.claim != claim && !t.running {
			t.claim, t.wait = claim, proveFirst
			if soon := now.Add(proveFirst); t.after.After(soon) {
				t.after = soon
			}
		}
		switch {
		case t.running || c.running >= maxProving: // the end of one wakes run
		case now.Before(t.after):
			next = min(next, t.after.Sub(now))
		default:
			t.running, t.after = true, now.Add(t.wait)
			t.wait = min(2*t.wait, proveLast)
			c.running++
			c.work.Go(func() { c.prove(ctx, t) })
		}
	}
	return next
}

// unproved lists the claims of living masters that neither the replicated
// record nor a proof bears out.
func (c *claims) unproved() map[model.MasterID]place {
	members := c.m.raftMembers()
	out := make(map[model.MasterID]place)
	for _, mb := range c.m.masterMembers() {
		claim := claimOf(mb)
		if mb.Status != gossip.StatusAlive || claim.raft == "" || claim.grpc == "" || claim.id == c.m.id.ID() || c.m.settled(claim, mb.SerfAddr, members) {
			continue
		}
		if _, ok := c.of(claim); !ok {
			out[claim.id] = claim
		}
	}
	return out
}

// prove asks about one claim.
func (c *claims) prove(ctx context.Context, t *try) {
	rec := model.Master{}
	if known, ok := c.m.fsm.View().Master(t.claim.id); ok {
		rec = *known
	}
	p, err := c.m.askProof(ctx, t.claim.grpc)
	if err == nil {
		err = judgeProof(t.claim, p, rec, c.m.fsm.View().Cluster())
	}
	c.mu.Lock()
	c.running--
	t.running = false
	tell := err != nil && ctx.Err() == nil && t.told != err.Error()
	if tell {
		t.told = err.Error()
	}
	if err == nil {
		c.proved[t.claim.id] = p
		for id := range c.proved { // those that gossip has forgotten, or an operator removed
			if len(c.proved) <= maxClaims {
				break
			}
			if id != t.claim.id {
				delete(c.proved, id)
			}
		}
	}
	c.mu.Unlock()
	defer c.poke()
	switch {
	case tell:
		c.m.log.Warn("gossip's word about a master is not borne out: nothing follows from it", "master", string(t.claim.id), "grpc", t.claim.grpc, "raft", t.claim.raft, "err", err)
	case err == nil:
		c.m.log.Debug("a master has proved where it is", "master", string(t.claim.id), "grpc", t.claim.grpc, "raft", t.claim.raft)
		c.m.refreshDirectory()
		c.news.fire()
	}
}

// raftMembers returns Raft's configuration by id; nil while it cannot be read.
func (m *Master) raftMembers() map[model.MasterID]raftnode.Server {
	servers, _, err := m.node.Servers()
	if err != nil {
		return nil
	}
	out := make(map[model.MasterID]raftnode.Server, len(servers))
	for _, s := range servers {
		out[s.ID] = s
	}
	return out
}

// settled says whether the replicated state knows a claim already: there is
// nothing to change and nothing to prove.
func (m *Master) settled(claim place, serf string, members map[model.MasterID]raftnode.Server) bool {
	rec, ok := m.fsm.View().Master(claim.id)
	return ok && (rec.Removed || rec.Key != "" && placeOf(*rec) == claim && rec.SerfAddr == serf && members[claim.id].Addr == claim.raft)
}
