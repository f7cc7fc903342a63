package masterd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// runTerms turns terms into leader scopes: at most one runs at a time, and the
// scope of a lost term is joined before the next begins. Once a second the
// scope's belief is compared with Raft's.
func (m *Master) runTerms(ctx context.Context) error {
	var cur *runningTerm
	defer func() { cur.stop() }()
	tick := time.NewTicker(beliefInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			m.handOver(ctx, cur)
			return nil
		case t := <-m.node.Terms():
			cur.stop()
			cur = nil
			if t.Leading {
				cur = m.startTerm(ctx, t.Number)
			}
		case <-cur.ended():
			m.afterTerm(ctx, cur)
			cur = nil
		case <-tick.C:
			cur = m.compareBelief(ctx, cur)
		}
	}
}

// runningTerm is one leader scope in progress.
type runningTerm struct {
	number uint64
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

func (m *Master) startTerm(ctx context.Context, number uint64) *runningTerm {
	tctx, cancel := context.WithCancel(ctx)
	t := &runningTerm{number: number, cancel: cancel, done: make(chan struct{})}
	m.scope.Store(number)
	go func() {
		defer close(t.done)
		defer m.scope.Store(0)
		t.err = guard(m.log, "leader scope", func() error { return m.lead(tctx, number) })
	}()
	return t
}

// stop ends the scope and joins it; nil is fine.
func (t *runningTerm) stop() {
	if t == nil {
		return
	}
	t.cancel()
	<-t.done
}

// ended is closed when the scope has returned; nil (never) without a scope.
func (t *runningTerm) ended() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.done
}

// afterTerm handles a scope that returned by itself while the term went on: a
// half leader is not tolerated, so leadership is handed away. Where nobody takes
// it, or this has just been done, compareBelief tries the scope again, at its
// pace.
func (m *Master) afterTerm(ctx context.Context, t *runningTerm) {
	t.stop()
	term, leading := m.node.Belief()
	if !leading || term != t.number {
		return
	}
	if !m.setbacks.mayHandOver(time.Now()) {
		m.log.Error("leader scope ended again while its term goes on: trying it once more", "term", t.number, "err", t.err)
		return
	}
	m.log.Error("leader scope ended while its term goes on: handing leadership over", "term", t.number, "err", t.err)
	if err := m.transfer(ctx, ""); err != nil {
		m.log.Warn("could not hand leadership over: the scope is tried again soon", "term", t.number, "err", err)
	}
}

// compareBelief repairs a missed change of leadership.
func (m *Master) compareBelief(ctx context.Context, cur *runningTerm) *runningTerm {
	term, leading := m.node.Belief()
	if id, _ := m.node.Leader(); id != "" {
		m.lastLeader.Store(m.sinceStart())
	}
	switch {
	case cur == nil && leading:
		m.log.Warn("raft leads but no scope runs: starting it", "term", term)
		return m.startTerm(ctx, term)
	case cur != nil && (!leading || term != cur.number):
		m.log.Warn("scope runs for a term that raft has left: ending it", "term", cur.number, "raft_term", term)
		cur.stop()
		if leading {
			return m.startTerm(ctx, term)
		}
		return nil
	}
	return cur
}

// handOver ends the scope and, with other voters there, transfers leadership,
// although ctx has ended.
func (m *Master) handOver(ctx context.Context, cur *runningTerm) {
	if cur == nil {
		return
	}
	cur.stop()
	servers, _, err := m.node.Servers()
	if err != nil || len(servers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transferTimeout)
	defer cancel()
	if err := m.transfer(ctx, ""); err != nil {
		m.log.Warn("could not hand leadership over at stop", "err", err)
	}
}

func (m *Master) transfer(ctx context.Context, to model.MasterID) error {
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	return m.node.TransferLeadership(ctx, to)
}

// leadership is the soft state of one term. Everything in it can be rebuilt
// from the view; nothing in it is replicated.
type leadership struct {
	m    *Master
	term uint64
	log  hclog.Logger
	ctx  context.Context //nolint:containedctx // it is the term: sessions that come from outside end with it

	schedule   poke                    // wakes the scheduler
	planner    atomic.Pointer[planner] // nil while it does not run
	quarantine *quarantine

	began time.Time     // beats are spread over the time since
	clock runClock      // of silences
	dials chan struct{} // holds one for each dial-back in progress

	mu       sync.Mutex
	workers  map[model.WorkerID]*workerSeat
	drivers  map[model.AppID]*driverSeat
	fallen   departures[model.WorkerID]
	departed departures[model.AppID]
	seated   int    // workers that have got a seat, ever
	seatedAt uint64 // index of the view whose workers and drivers have seats

	sessions sync.WaitGroup // of both kinds; joined before the scope returns
	closing  bool           // no new session may start
}

// lead is the leader scope of one term (design 6). It returns when the term's
// context ends or a part fails; by then nothing it started runs any more.
func (m *Master) lead(ctx context.Context, term uint64) (err error) {
	log := m.log.With("term", term)
	began := time.Now()
	log.Info("elected: entering leader scope", "after", since(m.node.LeaderSince(), began))
	defer func() { log.Info("left leader scope", "err", err) }()

	if err := m.settle(ctx, term); err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	l := &leadership{
		m: m, term: term, log: log, ctx: gctx, began: began,
		schedule:   newPoke(),
		quarantine: newQuarantine(),
		workers:    make(map[model.WorkerID]*workerSeat),
		drivers:    make(map[model.AppID]*driverSeat),
		fallen:     make(departures[model.WorkerID]),
		departed:   make(departures[model.AppID]),
		dials:      make(chan struct{}, maxDialBacks),
	}
	settled := time.Now()
	l.rebuild(m.fsm.View())   //nolint:contextcheck // pursuits end with the scope
	workers := len(l.workers) // sessions change it from setLeading on
	for name, loop := range map[string]func(context.Context) error{
		"scheduler":   l.runScheduler,
		"liveness":    l.runLiveness,
		"deadlines":   l.runDeadlines,
		"drains":      l.runDrains,
		"membership":  l.runMembership,
		"quarantine":  l.runQuarantine,
		"autopilot":   m.runAutopilot,
		"first token": l.runFirstToken,
	} {
		group.Go(func() error { return l.runLoop(gctx, name, loop) })
	}
	m.setLeading(l)
	m.markReady()
	log.Info("leading", "workers", workers, "index", m.fsm.View().Index(),
		"settled_in", since(began, settled), "ready_in", since(began, time.Now()))

	<-gctx.Done()
	m.setLeading(nil)
	err = group.Wait()
	l.closeSessions()
	return err
}

// settle makes the replica fit to lead: everything committed is applied, the
// cluster is named, this master's addresses are in the table.
func (m *Master) settle(ctx context.Context, term uint64) error {
	bctx, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	if err := m.deps.seams.setUpTerm(bctx, term); err != nil {
		return fmt.Errorf("set up the term: %w", err)
	}
	if err := m.node.Barrier(bctx); err != nil {
		return fmt.Errorf("barrier at the start of the term: %w", err)
	}
	if m.fsm.View().Cluster().IsZero() {
		cluster := m.id.Current()
		if cluster.IsZero() {
			cluster = newCluster()
		}
		if err := m.propose(bctx, initClusterCommand(cluster, m.cfg.Seeds)); err != nil {
			return fmt.Errorf("name the cluster: %w", err)
		}
	}
	return m.registerMaster(bctx, m.record())
}

// since is the time between two moments as it is logged.
func since(from, to time.Time) string {
	if from.IsZero() {
		return "unknown"
	}
	return to.Sub(from).Round(10 * time.Microsecond).String()
}

// closeSessions refuses new sessions and waits for the present ones, whose
// contexts have ended.
func (l *leadership) closeSessions() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.sessions.Wait()
}

// enter counts a session in, or reports that the scope is ending. The session
// calls the returned function when it has ended.
func (l *leadership) enter() (leave func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		return nil, false
	}
	l.sessions.Add(1)
	return l.sessions.Done, true
}

// propose commits a command of the master itself; a rejection is an error.
func (m *Master) propose(ctx context.Context, cmd *replogv1.Command) error {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	res, err := m.node.Propose(ctx, cmd)
	if err != nil {
		return err
	}
	return res.Err()
}

// registerMaster writes a master's addresses into the table if they changed.
func (m *Master) registerMaster(ctx context.Context, rec model.Master) error {
	if old, ok := m.fsm.View().Master(rec.ID); ok {
		rec.ChangeIndex = old.ChangeIndex
		if *old == rec {
			return nil
		}
	}
	if err := m.propose(ctx, registerMasterCommand(rec)); err != nil {
		return fmt.Errorf("register master %s: %w", rec.ID, err)
	}
	return nil
}

// isRejected reports whether err is the FSM's refusal for one of the reasons.
func isRejected(err error, reasons ...model.Rejection) bool {
	var rej *model.RejectedError
	return errors.As(err, &rej) && slices.Contains(reasons, rej.Reason)
}
