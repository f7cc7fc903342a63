package raftnode

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"

	"github.com/hearthd/hearth/model"
)

// Defaults and limits of the autopilot.
const (
	DefaultMinQuorum           = 3
	DefaultServerStabilization = 10 * time.Second
	DefaultDeadServerGrace     = 15 * time.Second

	pilotUpdateInterval    = time.Second
	pilotReconcileInterval = 5 * time.Second
	// pilotStatsTimeout bounds asking one peer for its figures.
	pilotStatsTimeout = time.Second
	// pilotRemoveTimeout bounds the removal of one server.
	pilotRemoveTimeout = 10 * time.Second
	// pilotMaxTrailing is how many entries a healthy server may be behind.
	pilotMaxTrailing = 1000
	// pilotMinContact is the least silence that counts as unhealthy.
	pilotMinContact = time.Second
	// pilotHeardFor is how long a master whose figures show a working Raft is not
	// taken for dead, whatever gossip says of it.
	pilotHeardFor = 3 * time.Second
	// pilotStopLimit bounds joining the autopilot.
	pilotStopLimit = 10 * time.Second
)

// KnownServer is a master as gossip sees it.
type KnownServer struct {
	ID      model.MasterID
	Addr    string // present Raft address
	Alive   bool   // by gossip; one whose PeerStats show a working Raft lives all the same
	Version string
	// NoVote keeps a non-voter from being promoted: it takes the place of
	// another one, which the caller sees to.
	NoVote bool
}

// AutopilotDeps are what the leader's care for voters works with. KnownServers
// and PeerStats are required; both may be called from many goroutines.
type AutopilotDeps struct {
	// KnownServers lists the masters gossip knows. A member missing from it
	// counts as not alive. It must not block.
	KnownServers func() []KnownServer
	// PeerStats asks another master for its Stats; lastContact is since it has
	// heard the leader.
	PeerStats func(ctx context.Context, id model.MasterID, addr string) (lastIndex, lastTerm uint64, lastContact time.Duration, err error)
	// MinQuorum is the number of voters below which no dead one is removed
	// (HA-18); 0 means DefaultMinQuorum.
	MinQuorum int
	// ServerStabilization is how long a non-voter must be healthy before it
	// gets a vote; 0 means DefaultServerStabilization.
	ServerStabilization time.Duration
	// DeadServerGrace is how long a member must be not alive without a break
	// before it is removed; 0 means DefaultDeadServerGrace.
	DeadServerGrace time.Duration
	Logger          hclog.Logger // nil: the node's own
}

// ServerHealth is the autopilot's opinion of one member.
type ServerHealth struct {
	Server
	Alive       bool
	Healthy     bool
	StableSince time.Time // of the present opinion
	LastIndex   uint64
	LastTerm    uint64
	LastContact time.Duration
	Version     string
}

// StartAutopilot lets the leader give votes to non-voters that have been
// healthy for a while and remove members that have been dead for a while, one
// voter at a time, never below the floor and never one whose removal would
// leave the living without a majority. It runs until stop, which joins it, or
// until ctx ends; call it when leadership is gained and stop when it is lost.
func (n *Node) StartAutopilot(ctx context.Context, deps AutopilotDeps) (stop func()) {
	setDefault(&deps.MinQuorum, DefaultMinQuorum)
	setDefault(&deps.ServerStabilization, DefaultServerStabilization)
	setDefault(&deps.DeadServerGrace, DefaultDeadServerGrace)
	if deps.Logger == nil {
		deps.Logger = n.log
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pilot{n: n, deps: deps, deadSince: make(map[model.MasterID]time.Time), heard: make(map[model.MasterID]figures)}
	p.within = func(limit time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, limit)
	}
	p.auto = autopilot.New(n.raft, p, autopilot.WithLogger(deps.Logger), autopilot.WithPromoter(p),
		autopilot.WithUpdateInterval(pilotUpdateInterval), autopilot.WithReconcileInterval(pilotReconcileInterval))
	stop = sync.OnceFunc(func() {
		defer n.pilot.clear(p)
		stopped := p.auto.Stop()
		cancel()
		timer := time.NewTimer(pilotStopLimit)
		defer timer.Stop()
		select {
		case <-stopped:
			p.removals.Wait()
		case <-timer.C:
			deps.Logger.Error("autopilot has not stopped", "after", pilotStopLimit)
		}
	})
	n.pilot.replace(p, stop)
	p.auto.Start(ctx)
	return stop
}

// Health returns the autopilot's opinion of each member; nil while it does not
// run.
func (n *Node) Health() []ServerHealth {
	p := n.pilot.get()
	if p == nil {
		return nil
	}
	var out []ServerHealth
	for id, s := range p.auto.GetState().Servers {
		_, addr := splitRoute(s.Server.Address)
		out = append(out, ServerHealth{
			Server:  Server{ID: model.MasterID(id), Addr: addr, Voter: s.HasVotingRights()},
			Alive:   s.Server.NodeStatus == autopilot.NodeAlive,
			Healthy: s.Health.Healthy, StableSince: s.Health.StableSince,
			LastIndex: s.Stats.LastIndex, LastTerm: s.Stats.LastTerm, LastContact: s.Stats.LastContact,
			Version: s.Server.Version,
		})
	}
	return out
}

// pilotSlot holds the running autopilot; there is at most one.
type pilotSlot struct {
	mu       sync.Mutex
	running  *pilot
	stopFunc func()
}

func (s *pilotSlot) get() *pilot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *pilotSlot) replace(p *pilot, stop func()) {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.stopFunc = p, stop
}

func (s *pilotSlot) clear(p *pilot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == p {
		s.running, s.stopFunc = nil, nil
	}
}

func (s *pilotSlot) stop() {
	s.mu.Lock()
	stop := s.stopFunc
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// pilot answers the autopilot library's questions. It is also its promoter, to
// decide which dead servers may go.
type pilot struct {
	autopilot.StablePromoter
	n        *Node
	auto     *autopilot.Autopilot
	deps     AutopilotDeps
	within   func(time.Duration) (context.Context, context.CancelFunc) // ends with the autopilot
	removals sync.WaitGroup

	mu        sync.Mutex
	deadSince map[model.MasterID]time.Time
	heard     map[model.MasterID]figures
	noVote    map[raft.ServerID]bool
}

var (
	_ autopilot.ApplicationIntegration = (*pilot)(nil)
	_ autopilot.Promoter               = (*pilot)(nil)
)

// contactLimit is how long a member that works may not have heard the leader.
func (p *pilot) contactLimit() time.Duration {
	timeout, _ := timeoutOf(p.n.cfg.Preset) // validated
	return max(2*timeout, pilotMinContact)
}

// AutopilotConfig implements autopilot.ApplicationIntegration.
func (p *pilot) AutopilotConfig() *autopilot.Config {
	return &autopilot.Config{
		CleanupDeadServers:      true,
		LastContactThreshold:    p.contactLimit(),
		MaxTrailingLogs:         pilotMaxTrailing,
		MinQuorum:               uint(p.deps.MinQuorum),
		ServerStabilizationTime: p.deps.ServerStabilization,
	}
}

// NotifyState implements autopilot.ApplicationIntegration; Health reads the
// state when it is asked.
func (p *pilot) NotifyState(*autopilot.State) {}

// figures are the last ones that a master has given to this leader.
type figures struct {
	index uint64
	works time.Time // when they last showed a Raft that works; zero = never
}

// note takes new figures. A Raft works if it hears the leader and its log
// either holds what the leader's did when it was asked, or has grown since.
// Neither is enough alone: heartbeats are answered beside a log whose disk
// hangs, and a master behind a firewall has the log that it had.
func (f figures) note(now time.Time, index, leader uint64, contact, limit time.Duration) figures {
	if contact <= limit && (index >= leader || index > f.index) {
		f.works = now
	}
	f.index = index
	return f
}

// KnownServers implements autopilot.ApplicationIntegration. Members that
// gossip does not know are listed as failed, so that they too get their grace.
// Gossip alone kills nobody: whoever has its key can say that a voter failed
// (GO-15), and one whose figures show a working Raft lives (ADR 0046).
func (p *pilot) KnownServers() map[raft.ServerID]*autopilot.Server {
	out := make(map[raft.ServerID]*autopilot.Server)
	noVote := make(map[raft.ServerID]bool)
	for _, s := range p.deps.KnownServers() {
		noVote[raft.ServerID(s.ID)] = s.NoVote
		status := autopilot.NodeFailed
		if s.Alive {
			status = autopilot.NodeAlive
		}
		out[raft.ServerID(s.ID)] = pilotServer(s.ID, s.Addr, status, s.Version)
	}
	members, _, err := p.n.Servers()
	if err != nil {
		p.deps.Logger.Error("autopilot cannot list members", "err", err)
	}
	for _, m := range members {
		if _, known := out[raft.ServerID(m.ID)]; !known {
			out[raft.ServerID(m.ID)] = pilotServer(m.ID, m.Addr, autopilot.NodeFailed, "")
		}
	}
	if self := out[raft.ServerID(p.n.cfg.ID)]; self != nil {
		self.NodeStatus = autopilot.NodeAlive
		_, self.IsLeader = p.n.Belief()
	}
	p.mu.Lock()
	for id, s := range out {
		if at := p.heard[model.MasterID(id)].works; !at.IsZero() && time.Since(at) < pilotHeardFor {
			s.NodeStatus = autopilot.NodeAlive
		}
	}
	p.noVote = noVote
	p.mu.Unlock()
	p.noteDead(out)
	return out
}

// CalculatePromotionsAndDemotions implements autopilot.Promoter: all that are
// stable get a vote but those that wait for somebody's place.
func (p *pilot) CalculatePromotionsAndDemotions(c *autopilot.Config, s *autopilot.State) autopilot.RaftChanges {
	changes := p.StablePromoter.CalculatePromotionsAndDemotions(c, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	changes.Promotions = slices.DeleteFunc(changes.Promotions, func(id raft.ServerID) bool { return p.noVote[id] })
	return changes
}

func pilotServer(id model.MasterID, addr string, status autopilot.NodeStatus, version string) *autopilot.Server {
	return &autopilot.Server{
		ID: raft.ServerID(id), Name: string(id), Address: routeTo(id, addr),
		NodeStatus: status, NodeType: autopilot.NodeVoter, Version: version, RaftVersion: 3,
	}
}

// noteDead remembers since when each server has been dead without a break.
func (p *pilot) noteDead(servers map[raft.ServerID]*autopilot.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for id := range p.deadSince {
		if s := servers[raft.ServerID(id)]; s == nil || s.NodeStatus == autopilot.NodeAlive {
			delete(p.deadSince, id)
		}
	}
	for id, s := range servers {
		if _, noted := p.deadSince[model.MasterID(id)]; !noted && s.NodeStatus != autopilot.NodeAlive {
			p.deadSince[model.MasterID(id)] = now
		}
	}
}

// FetchServerStats implements autopilot.ApplicationIntegration. Those that seem
// dead are asked too.
func (p *pilot) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	ctx, cancel := context.WithTimeout(ctx, pilotStatsTimeout)
	defer cancel()
	var mu sync.Mutex
	out := make(map[raft.ServerID]*autopilot.ServerStats)
	leader := p.n.LastIndex()
	var asked sync.WaitGroup
	for id, s := range servers {
		if model.MasterID(id) == p.n.cfg.ID {
			own := p.n.Stats()
			mu.Lock()
			out[id] = &autopilot.ServerStats{LastIndex: own.LastIndex, LastTerm: own.LastTerm}
			mu.Unlock()
			continue
		}
		_, addr := splitRoute(s.Address)
		asked.Go(func() {
			index, term, contact, err := p.deps.PeerStats(ctx, model.MasterID(id), addr)
			if err != nil {
				p.deps.Logger.Debug("master gave no figures", "master", id, "err", err)
				return
			}
			p.mu.Lock()
			p.heard[model.MasterID(id)] = p.heard[model.MasterID(id)].note(time.Now(), index, leader, contact, p.contactLimit())
			p.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			out[id] = &autopilot.ServerStats{LastIndex: index, LastTerm: term, LastContact: contact}
		})
	}
	asked.Wait()
	return out
}

// FilterFailedServerRemovals implements autopilot.Promoter: the dead must have
// been dead for the grace; at most one voter goes in a round; and the floor and
// a living majority remain.
func (p *pilot) FilterFailedServerRemovals(_ *autopilot.Config, _ *autopilot.State, failed *autopilot.FailedServers) *autopilot.FailedServers {
	members, _, err := p.n.Servers()
	if err != nil {
		return &autopilot.FailedServers{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	voters, living := 0, 0
	for _, m := range members {
		if !m.Voter {
			continue
		}
		voters++
		if _, dead := p.deadSince[m.ID]; !dead {
			living++
		}
	}
	out := &autopilot.FailedServers{FailedNonVoters: p.pastGraceLocked(failed.FailedNonVoters)}
	left := voters - 1
	if left >= p.deps.MinQuorum && living > left/2 {
		if gone := p.pastGraceLocked(failed.FailedVoters); len(gone) > 0 {
			out.FailedVoters = gone[:1]
		}
	}
	return out
}

func (p *pilot) pastGraceLocked(servers []*autopilot.Server) []*autopilot.Server {
	var out []*autopilot.Server
	for _, s := range servers {
		since, dead := p.deadSince[model.MasterID(s.ID)]
		if dead && time.Since(since) >= p.deps.DeadServerGrace {
			out = append(out, s)
		}
	}
	return out
}

// RemoveFailedServer implements autopilot.ApplicationIntegration.
func (p *pilot) RemoveFailedServer(s *autopilot.Server) {
	p.removals.Go(func() {
		ctx, cancel := p.within(pilotRemoveTimeout)
		defer cancel()
		if err := p.n.RemoveServer(ctx, model.MasterID(s.ID)); err != nil {
			p.deps.Logger.Warn("dead master not removed", "master", s.ID, "err", err)
			return
		}
		p.deps.Logger.Info("dead master removed from the voters", "master", s.ID)
	})
}
