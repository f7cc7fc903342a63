package raftnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// Limits of the fast failover.
const (
	// failoverRounds is how often a standby tries per lost leader.
	failoverRounds = 3
	// maxAsked bounds the voters that are asked at once.
	maxAsked = 64
	// refusedFor and answeredFor are how long the outcome of the two dials is
	// remembered: they also bound how often anybody can make a master dial.
	refusedFor  = 5 * time.Millisecond
	answeredFor = 20 * time.Millisecond
	// dyingFirst and dyingLast are the first and the last pause before another
	// look at a process that the kernel is closing; each is twice the one
	// before.
	dyingFirst = time.Millisecond
	dyingLast  = 8 * time.Millisecond
	// reachInterval is how often a standby looks after its connections to the
	// other voters.
	reachInterval = 2 * time.Second
	// disagreedInterval is how often it is written that the others disagree.
	disagreedInterval = time.Minute
	// silentInterval is the same for a leader that is silent to this one alone.
	silentInterval = 10 * time.Second
)

// Failover is what a standby needs to find out, within milliseconds, that the
// leader's process is dead (design 6, ADR 0016).
type Failover struct {
	// Peers asks the other voters.
	Peers PeerAsker
	// Ports returns the present "host:port" of a master's Raft and gRPC
	// listeners. It must not block.
	Ports func(model.MasterID) (raft, grpc string, ok bool)
	// Dial opens a plain TCP connection, also where the ports speak TLS.
	Dial DialFunc
}

// PeerAsker asks another master what it makes of the leader's silence. It
// blocks no longer than ctx, which ends within a fraction of the election
// time-out, so it needs a connection that is open already.
type PeerAsker interface {
	AskLeaderGone(ctx context.Context, peer model.MasterID, q LeaderGone) (LeaderGoneReply, error)
}

// LeaderGone is the question of one voter to another whether the leader's
// process is dead or, if Silent, whether the leader has fallen silent.
type LeaderGone struct {
	From    model.MasterID
	Cluster model.ClusterIdentity
	Leader  model.MasterID // who is taken for dead
	Term    uint64         // the term it led
	Last    LogEnd         // of From
	Silent  bool
}

// LeaderGoneReply answers it.
type LeaderGoneReply struct {
	ID     model.MasterID // who answers
	Gone   bool
	Reason string // why not
	Last   LogEnd // of ID
	Begun  bool   // ID has begun an election since, or voted in one
}

// LogEnd is the newest entry of a log: who has the newest of all is elected by
// everybody.
type LogEnd struct{ Index, Term uint64 }

// newer reports whether a log with this end wins against another.
func (e LogEnd) newer(than LogEnd) bool {
	return e.Term > than.Term || e.Term == than.Term && e.Index > than.Index
}

// failoverTimes are the times of the fast failover. Those of the preset lan are
// the smallest; a preset for longer ways has longer ones in proportion.
type failoverTimes struct {
	ask    time.Duration // one question or dial, answer included, on a machine that is out of breath
	step   time.Duration // between the first in line and the second
	grace  time.Duration // for further answers once a majority agrees
	again  time.Duration // after which, without a leader or an election, the next round begins
	settle time.Duration // for an election that has begun: it takes four writes to disk
}

func failoverTimesOf(preset string) failoverTimes {
	timeout, _ := timeoutOf(preset) // validated
	lan, _ := timeoutOf(PresetLAN)
	scaled := func(d time.Duration) time.Duration { return max(d, time.Duration(int64(d)*int64(timeout)/int64(lan))) }
	return failoverTimes{
		ask:    scaled(100 * time.Millisecond),
		step:   scaled(15 * time.Millisecond),
		grace:  scaled(5 * time.Millisecond),
		again:  scaled(40 * time.Millisecond),
		settle: scaled(200 * time.Millisecond),
	}
}

// failover watches the leader's connections and its silence. One goroutine
// decides; it and what it starts end with closing.
type failover struct {
	n     *Node
	log   hclog.Logger
	deps  Failover
	times failoverTimes

	followed followed
	ports    *portProbe
	silence  silence
	wake     chan struct{} // capacity 1: look whether the leader is gone
	hush     chan struct{} // capacity 1: the leader is silent
	moved    chan struct{} // capacity 1: leader, term or state has changed
	tasks    sync.WaitGroup

	mu       sync.Mutex
	reaching map[model.MasterID]bool // voters that are being reached
	spent    suspect                 // all rounds were used on it and it was not seen since
	warned   time.Time               // when a disagreement was last written
	noted    time.Time               // the same for silence

	ctx    func() (context.Context, context.CancelFunc) // ends with closing
	cancel context.CancelFunc
}

// suspect is a leader in the term it leads.
type suspect struct {
	leader model.MasterID
	term   uint64
}

// followed remembers whom this node followed last: the library forgets it with
// the first failed election.
type followed struct {
	mu   sync.Mutex
	last suspect
}

func (f *followed) set(s suspect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = s
}

func (f *followed) get() suspect {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// newFailover prepares the fast failover of a node whose library runs.
func newFailover(n *Node, deps Failover) *failover {
	ctx, cancel := context.WithCancel(context.Background())
	f := &failover{
		n: n, log: n.log, deps: deps, times: failoverTimesOf(n.cfg.Preset),
		wake: make(chan struct{}, 1), hush: make(chan struct{}, 1), moved: make(chan struct{}, 1), reaching: make(map[model.MasterID]bool),
		ctx:    func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		cancel: cancel,
	}
	timeout, _ := timeoutOf(n.cfg.Preset) // validated
	f.silence.limit = timeout
	f.ports = &portProbe{dial: deps.Dial, ports: deps.Ports, limit: f.times.ask, ctx: f.ctx, log: f.log}
	n.raft.RegisterObserver(raft.NewObserver(nil, false, f.observe))
	if at := n.standing(); at.state == raft.Follower && at.leader != "" && f.followed.get() == (suspect{}) {
		f.followed.set(suspect{at.leader, at.term}) // met before the observer was there
	}
	n.trans.stream.watchLinks(f.noteLink)
	return f
}

// observe is a filter of the library's observers, see termBook.observe.
func (f *failover) observe(o *raft.Observation) bool {
	switch data := o.Data.(type) {
	case raft.LeaderObservation:
		switch leader := model.MasterID(data.LeaderID); leader {
		case "":
		case f.n.cfg.ID:
			f.followed.set(suspect{})
		default:
			f.followed.set(suspect{leader, o.Raft.CurrentTerm()})
		}
	case raft.RaftState:
	default:
		return false
	}
	poke(f.moved)
	return false
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// noteLink is told of connections of peers. One that is opened proves that the
// peer lives, so it may be lost once more.
func (f *failover) noteLink(peer model.MasterID, opened bool) {
	who := f.followed.get()
	if peer != who.leader {
		return
	}
	if !opened {
		f.ports.doubt(peer)
		poke(f.wake)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.spent == who {
		f.spent = suspect{}
	}
}

func (f *failover) isSpent(who suspect) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spent == who
}

func (f *failover) spend(who suspect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spent = who
}

// run looks after each loss of a connection and each silence until closing is
// closed.
func (f *failover) run(closing <-chan struct{}) {
	defer f.tasks.Wait()
	defer f.cancel()
	ctx, cancel := f.ctx()
	defer cancel()
	f.tasks.Go(func() {
		select {
		case <-closing:
			cancel()
		case <-ctx.Done():
		}
	})
	tick := time.NewTicker(reachInterval)
	defer tick.Stop()
	f.tasks.Go(func() { f.listen(ctx) })
	for {
		select {
		case <-closing:
			return
		case <-f.hush:
			f.endSilence(ctx)
			continue
		case <-tick.C:
			f.reachVoters()
			continue
		case <-f.wake:
		}
		who := f.followed.get()
		f.lookAfter(ctx, who)
		f.rest(ctx, who)
	}
}

// reachVoters keeps a connection to each voter in the library's pool: standbys
// have no other use for one, and making it when a vote is asked for would cost
// several ways there and back.
func (f *failover) reachVoters() {
	at := f.n.standing()
	voters, err := f.n.voters()
	if at.state != raft.Follower || err != nil || !slices.Contains(voters, f.n.cfg.ID) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range voters {
		if id == f.n.cfg.ID || id == at.leader || f.reaching[id] {
			continue
		}
		f.reaching[id] = true
		f.tasks.Go(func() {
			f.n.trans.reach(id)
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.reaching, id)
		})
	}
}

// rest bounds what a peer costs that makes and drops connections: the same
// leader is looked after once in times.again, unless the last of its
// connections closes.
func (f *failover) rest(ctx context.Context, who suspect) {
	timer := time.NewTimer(f.times.again)
	defer timer.Stop()
	for f.followed.get() == who {
		open, changed := f.n.trans.stream.linked(who.leader)
		if open == 0 && !f.isSpent(who) {
			return
		}
		select {
		case <-changed:
		case <-f.moved:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
