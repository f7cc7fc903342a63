package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// Node is one replica. Its methods are safe for concurrent use; those that take
// a context block no longer than it lasts.
type Node struct {
	cfg    Config
	log    hclog.Logger
	wall   func() time.Time
	raft   *raft.Raft
	fsm    *fsm.FSM
	stores *stores
	ahead  *aheadLog
	trans  *transport
	state  *adapter
	terms  *termBook

	identity Identity
	failover *failover // nil without Deps.Failover

	queue    *proposalQueue
	calls    *calls
	transfer *transferCheck
	watch    *watch
	pilot    pilotSlot
	observer Observer

	failed    chan error
	failMu    sync.Mutex
	failErr   error
	closing   chan struct{} // no new work
	done      chan struct{} // the library has stopped
	tasks     sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Open opens the stores below cfg.DataDir, restores the newest snapshot and
// starts the replica. The log after the snapshot is applied once a leader is
// known. On an error nothing is left open but deps.Stream.
func Open(cfg Config, deps Deps) (*Node, error) {
	cfg, deps = cfg.withDefaults(), deps.withDefaults()
	if err := errors.Join(cfg.validate(), deps.validate()); err != nil {
		return nil, err
	}
	log := newQuietLog(deps.Logger.Named("raft"))
	st, err := openStores(cfg, log)
	if err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, log: log, wall: deps.Wall, fsm: deps.FSM, stores: st, identity: deps.Identity,
		terms: newTermBook(), queue: newProposalQueue(), calls: newCalls(), observer: deps.Observer,
		failed: make(chan error, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	n.transfer = &transferCheck{fail: n.fail}
	n.state = &adapter{fsm: deps.FSM, onApplied: deps.OnApplied, fail: n.fail, snapshots: st.snapshots, observer: deps.Observer}
	if err := n.state.readConfigIndex(); err != nil {
		return nil, errors.Join(err, st.close())
	}
	n.watch = newWatch(deps.Disk, func() bool { return n.raft.State() == raft.Leader }, n.fail)
	library := new(atomic.Pointer[raft.Raft]) // nil until it has started
	n.ahead = newAheadLog(watchedLog{st.log, n.watch}, isLeader(library), hasOthers(library, cfg.ID), n.refused)
	n.trans = newTransport(newHelloStream(deps.Stream, cfg.ID, deps.Identity, log), deps.Resolve, n.ahead.written, log)
	n.state.committed = n.trans.news.committed
	err = guard("start raft in "+cfg.DataDir, func() error {
		n.raft, err = raft.NewRaft(libraryConfig(cfg, log), n.state,
			n.ahead, &voteStore{StableStore: watchedStable{st.stable, n.watch}}, st.snapshots, n.trans)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, n.trans.Close(), st.close())
	}
	library.Store(n.raft)
	obeys := n.obeys
	n.trans.obeys.Store(&obeys)
	n.raft.RegisterObserver(raft.NewObserver(nil, false, n.terms.observe))
	n.raft.RegisterObserver(raft.NewObserver(nil, false, leaderFilter(deps.OnLeader)))
	if term, leading := n.Belief(); leading {
		n.terms.record(term, true) // won before the observer was there
	}
	if deps.Failover != nil {
		n.failover = newFailover(n, *deps.Failover)
		n.tasks.Go(func() { n.failover.run(n.closing) })
	}
	n.tasks.Go(n.collect)
	n.tasks.Go(func() { n.terms.run(n.done) })
	n.tasks.Go(func() { n.watch.run(n.done) })
	return n, nil
}

// isLeader reports whether the library, once it has started, leads.
func isLeader(library *atomic.Pointer[raft.Raft]) func() bool {
	return func() bool {
		r := library.Load()
		return r != nil && r.State() == raft.Leader
	}
}

// hasOthers reports whether the newest membership has a voter besides self.
func hasOthers(library *atomic.Pointer[raft.Raft], self model.MasterID) func() bool {
	return func() bool {
		r := library.Load()
		return r != nil && slices.ContainsFunc(r.GetConfiguration().Configuration().Servers, func(s raft.Server) bool {
			return s.Suffrage == raft.Voter && s.ID != raft.ServerID(self)
		})
	}
}

// refused has a leader whose disk is full step down although it has nothing
// else to write: the library does so when it cannot store an entry.
func (n *Node) refused() {
	if !n.calls.enter() {
		return
	}
	defer n.calls.leave()
	_ = n.raft.Barrier(0).Error() // what matters is that it was asked for
}

func libraryConfig(cfg Config, log hclog.Logger) *raft.Config {
	timeout, _ := timeoutOf(cfg.Preset) // validated
	c := raft.DefaultConfig()
	c.ProtocolVersion = protocolVersion
	c.LocalID = raft.ServerID(cfg.ID)
	c.HeartbeatTimeout = timeout
	c.ElectionTimeout = timeout
	c.LeaderLeaseTimeout = timeout * stepDownPercent / 100
	c.CommitTimeout = commitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	// A removed master idles and says so; it must not stop by itself, nor
	// upset elections (HA-16), which pre-vote and the check of membership see
	// to.
	c.ShutdownOnRemove = false
	c.SnapshotInterval = cfg.SnapshotInterval
	c.SnapshotThreshold = cfg.SnapshotThreshold
	c.TrailingLogs = cfg.TrailingLogs
	c.NoLegacyTelemetry = true
	c.Logger = log
	return c
}

// HasState reports whether this replica was ever bootstrapped or joined to a
// cluster: it has a term, a log or a snapshot.
func (n *Node) HasState() (bool, error) {
	has, err := raft.HasExistingState(n.stores.log, n.stores.stable, n.stores.snapshots)
	if err != nil {
		return false, fmt.Errorf("look for raft state: %w", err)
	}
	return has, nil
}

// Bootstrap makes this replica the first of a cluster with these voters. On a
// replica that has state it does nothing and returns nil.
func (n *Node) Bootstrap(servers []Server) error {
	var configuration raft.Configuration
	for _, s := range servers {
		configuration.Servers = append(configuration.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(s.ID), Address: routeTo(s.ID, s.Addr),
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), transportTimeout)
	defer cancel()
	return n.await(ctx, "bootstrap raft", func() error {
		err := n.raft.BootstrapCluster(configuration).Error()
		if errors.Is(err, raft.ErrCantBootstrap) {
			return nil
		}
		return err
	})
}

// Barrier returns when everything committed before the call is applied here.
// It fails with [model.ErrNotLeader] on a standby.
func (n *Node) Barrier(ctx context.Context) error {
	return n.await(ctx, "raft barrier", func() error { return n.raft.Barrier(0).Error() })
}

// VerifyLeader returns nil if a quorum took this node for its leader during
// the call; what is applied by then is the newest state. It commits an empty
// entry. The library's own check is content with answers to heartbeats that
// were sent before it was asked: a leader that stood still meanwhile finds such
// answers when it wakes, and others may have committed since (HA-38).
func (n *Node) VerifyLeader(ctx context.Context) error {
	return n.await(ctx, "verify leadership", func() error { return n.raft.Barrier(0).Error() })
}

// Snapshot writes a snapshot now; without anything new it does nothing.
func (n *Node) Snapshot(ctx context.Context) error {
	return n.await(ctx, "raft snapshot", func() error {
		err := n.raft.Snapshot().Error()
		if errors.Is(err, raft.ErrNothingNewToSnapshot) {
			return nil
		}
		return err
	})
}

// Terms delivers each gain of leadership as {N, true} and each loss as
// {N, false}. A slow reader sees only the latest change: a loss it missed shows
// as another number. There is one channel, for one reader; it is closed by
// Close.
func (n *Node) Terms() <-chan Term { return n.terms.out }

// Failed delivers at most one error, after which the replica must be closed: an
// entry could not be applied, a store is broken, or, if it is [ErrStuck], the
// library is and the replica can be opened again. By then it has fallen silent.
func (n *Node) Failed() <-chan error { return n.failed }

// Stall returns the call to the log or stable store that has not returned for
// 10 s, if there is one. It is news of a standby: a leader has failed by then.
func (n *Node) Stall() (Stall, bool) { return n.watch.stalled() }

// fail notes the first fatal error. It never blocks.
func (n *Node) fail(err error) {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	select {
	case <-n.closing:
		return // stores refuse calls once they are closed
	default:
	}
	if n.failErr != nil {
		return
	}
	n.failErr = err
	n.failed <- err
	// The heartbeats of a leader that can do nothing more would keep the
	// others from electing one that can.
	n.tasks.Go(func() {
		if err := n.trans.Close(); err != nil {
			n.log.Warn("closing the connections of a failed replica", "err", err)
		}
	})
}

func (n *Node) failure() error {
	n.failMu.Lock()
	defer n.failMu.Unlock()
	return n.failErr
}

// closeLimit bounds how long the library may take to stop.
const closeLimit = 15 * time.Second

// Close stops the replica and closes stores and connections. It does not hand
// leadership over: call TransferLeadership before. Calls under way end first,
// within drainLimit. Calling it again returns the first outcome.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	n.pilot.stop()
	n.calls.close()
	n.queue.close()
	drained := n.calls.wait(drainLimit)
	n.failMu.Lock()
	close(n.closing)
	n.failMu.Unlock()

	stopped := n.raft.Shutdown()
	transErr := n.trans.Close()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = stopped.Error() // always nil
		n.ahead.close()
	}()
	timer := time.NewTimer(closeLimit)
	defer timer.Stop()
	select {
	case <-finished:
	case <-timer.C:
		go func() { // no use to anybody who ends the process now
			<-finished
			_ = n.stores.close()
		}()
		close(n.done)
		n.tasks.Wait()
		return errors.Join(transErr, fmt.Errorf("close raft: %w: it has not stopped within %s", model.ErrUnavailable, closeLimit))
	}
	if !drained && !n.calls.wait(drainLimit) {
		n.log.Warn("raft left calls unanswered")
	}
	close(n.done)
	n.tasks.Wait()
	if err := errors.Join(transErr, n.stores.close()); err != nil {
		return fmt.Errorf("close raft: %w", err)
	}
	return nil
}
