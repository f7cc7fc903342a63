package masterd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/internal/lifecycle"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// Master is a running replica. Make it with New, then call Run once.
type Master struct {
	began time.Time // the zero of sinceStart

	cfg  Config
	deps Deps
	log  hclog.Logger

	id       *identity
	fsm      *fsm.FSM
	node     *raftnode.Node
	goss     *gossip.Gossip
	hub      *hub
	conns    *peerConns
	voters   *peerConns // kept open, see keepVotersWarm
	forwards *peerConns // the same, for calls of clients
	hash     *hashLog

	alarms  *alarmBook
	access  *access
	metrics *metrics

	grpcLis net.Listener
	raftLis net.Listener
	httpLis net.Listener
	server  *rpc.Server

	// leading is the leader scope of the present term, nil on a standby.
	leading atomic.Pointer[leadership]
	// scope is the term whose leader scope runs, its set-up included; 0 = none.
	scope    atomic.Uint64
	setbacks setbacks
	// leader is fired after each change of who leads, and of this master's own
	// readiness.
	leader *signal
	// lastLeader is when a leader was last known, by sinceStart, for
	// "leaderless for".
	lastLeader atomic.Int64
	// promiseSeen is when the proposer of the promise given was last visible
	// (by sinceStart), or when this process started.
	promiseSeen atomic.Int64

	// claims proves what gossip says of masters; directory is what is known of
	// where they are, see refreshDirectory.
	claims    *claims
	directory atomic.Pointer[map[model.MasterID]place]

	ready  chan struct{}
	onceRd sync.Once
	closeO sync.Once
	closed error
}

// step is one part of a master's set-up; undo runs in reverse if a later one
// fails, and at Close.
type step struct {
	name string
	do   func() error
	undo func() error
}

// New opens everything a master needs: data directory, listeners, stores,
// gossip. If a step fails those before it are undone. It starts no loop of its
// own; call Run.
func New(cfg Config, deps Deps) (*Master, error) {
	if deps.Wall == nil {
		deps.Wall = time.Now
	}
	m := &Master{
		began:  time.Now(),
		cfg:    cfg.withDefaults(),
		deps:   deps,
		log:    deps.Logger.Named("master"),
		hub:    newHub(),
		leader: newSignal(),
		hash:   newHashLog(),
		ready:  make(chan struct{}),
	}
	m.claims = newClaims(m)
	m.access = &access{m: m, required: m.cfg.TokensRequired, notes: newAuditBook()}
	steps := m.steps()
	for n, s := range steps {
		if err := s.do(); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			return nil, errors.Join(err, undo(steps[:n]))
		}
	}
	return m, nil
}

func undo(steps []step) error {
	var errs []error
	for _, s := range slices.Backward(steps) {
		if s.undo != nil {
			errs = append(errs, s.undo())
		}
	}
	return errors.Join(errs...)
}

func (m *Master) steps() []step {
	return []step{
		{"open data directory", m.openIdentity, func() error { return m.id.Close() }},
		{"open listeners", m.openListeners, m.closeListeners},
		{"open connections to voters", m.openVoters, m.closeVoters},
		{"open replica", m.openReplica, func() error { return m.node.Close() }},
		{"open gossip", m.openGossip, func() error { return m.goss.Close() }},
		{"open services", m.openServices, func() error { return m.conns.Close() }},
	}
}

func (m *Master) openIdentity() (err error) {
	m.id, err = openIdentity(m.cfg.DataDir)
	if err == nil {
		m.log = m.log.With("node", string(m.id.ID()))
		m.alarms = newAlarmBook(m.log, m.deps.Wall)
		m.metrics = newMetrics(m)
	}
	return err
}

func (m *Master) openListeners() (err error) {
	if m.grpcLis, err = m.listen(m.cfg.GRPCPort); err != nil {
		return err
	}
	if m.raftLis, err = m.listen(m.cfg.RaftPort); err != nil {
		return errors.Join(err, m.grpcLis.Close())
	}
	if m.httpLis, err = m.listen(m.cfg.HTTPPort); err != nil {
		return errors.Join(err, m.grpcLis.Close(), m.raftLis.Close())
	}
	return nil
}

// closeListeners closes what the servers on top may have closed already.
func (m *Master) closeListeners() error {
	for _, l := range []net.Listener{m.grpcLis, m.raftLis, m.httpLis} {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
	}
	return nil
}

func (m *Master) openReplica() (err error) {
	m.fsm = fsm.New()
	m.node, err = raftnode.Open(raftnode.Config{
		ID:                m.id.ID(),
		DataDir:           m.cfg.DataDir,
		Preset:            m.cfg.RaftPreset,
		LogStore:          m.cfg.LogStore,
		SnapshotThreshold: m.cfg.SnapshotThreshold,
		SnapshotInterval:  m.cfg.SnapshotInterval,
	}, raftnode.Deps{
		FSM:       m.fsm,
		Stream:    m.raftStream(),
		Identity:  m.id,
		Resolve:   m.resolveRaft,
		OnApplied: m.onApplied,
		OnLeader:  m.leader.fire,
		Failover:  m.failover(),
		Wall:      m.deps.Wall,
		Disk:      m.deps.Disk,
		Observer:  m.metrics.raft(),
		Logger:    m.log.Named("raft"),
	})
	return err
}

// raftStream is what Raft's connections run over.
func (m *Master) raftStream() raftnode.StreamLayer {
	advertise := m.cfg.advertised(m.raftLis)
	secure := raftnode.StreamTLS{Server: m.deps.ServerTLS, Client: m.deps.ClientTLS}
	if m.deps.Network != nil {
		return raftnode.NewStream(m.raftLis, m.deps.Network.Dial, advertise, secure)
	}
	return raftnode.NewTCPStream(m.raftLis, advertise, secure)
}

func (m *Master) openServices() error {
	m.conns = newPeerConns(rpc.DialConfig{TLS: m.deps.ClientTLS, Dial: m.dial}, m.log)
	m.server = rpc.NewServer(rpc.ServerConfig{
		Listener:   m.grpcLis,
		TLS:        tlsconf.Drivers(m.deps.ServerTLS, m.access.driverSecret),
		ForwardTLS: m.deps.ClientTLS,
		Dial:       m.dial,
		Logger:     m.log.Named("rpc"),
		Leader:     leaderInfo{m},
		Peers:      m.forwards.get,
		Access:     m.access,
		Observe:    m.metrics.rpc.Observe,
	}, rpc.Services{
		Cluster:   clusterService{m},
		Workers:   sessionService{m},
		Drivers:   sessionService{m},
		Peer:      peerService{m},
		Access:    accessService{m},
		Explain:   explainService{m},
		Submitted: driversService{m},
	})
	return nil
}

// onApplied runs on the apply thread after each entry.
func (m *Master) onApplied(index uint64, changes []fsm.Change) {
	m.hash.note(m.fsm.View())
	m.hub.publish(index, changes)
}

// Run serves until ctx ends or something breaks that a master cannot live
// with. At the end of ctx it hands leadership over, stops its services and
// returns nil. It blocks.
func (m *Master) Run(ctx context.Context) error {
	g := lifecycle.New(0)
	// Parts stop in reverse: first the terms end their scope and hand
	// leadership over, then the services stop (calls that come meanwhile are
	// forwarded), gossip leaves last so that peers resolve this master until
	// then.
	g.Add("gossip", m.runGossip, nil)
	g.Add("gossip events", m.watchGossip, nil)
	g.Add("proofs", m.claims.run, nil)
	g.Add("identity", m.keepIdentity, nil)
	g.Add("bootstrap", m.bootstrap, nil)
	g.Add("hash reports", m.reportHashes, nil)
	g.Add("alarms", m.watchAlarms, nil)
	g.Add("audit", m.writeAudit, nil)
	g.Add("http", m.serveHTTP, nil)
	g.Add("count of leaders", m.countLeaders, nil)
	g.Add("grpc", m.server.Run, nil)
	g.Add("connections to voters", m.keepVotersWarm, nil)
	g.Add("terms", m.runTerms, nil)
	g.Add("faults", m.waitFault, nil)
	m.log.Info("master started",
		"grpc", m.GRPCAddr(), "raft", m.RaftAddr(), "serf", m.SerfAddr(), "http", m.HTTPAddr(),
		"cluster", m.id.Current().String())
	return errors.Join(g.Run(ctx), m.Close())
}

// waitFault ends the master when Raft or the FSM says that it must not go on.
func (m *Master) waitFault(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-m.node.Failed():
		return fmt.Errorf("replica stopped: %w", err)
	}
}

// Close frees everything New opened. It is idempotent.
func (m *Master) Close() error {
	m.closeO.Do(func() { m.closed = undo(m.steps()) })
	return m.closed
}

// ID returns the master's id.
func (m *Master) ID() model.MasterID { return m.id.ID() }

// GRPCAddr is the advertised host:port of the gRPC services.
func (m *Master) GRPCAddr() string { return m.cfg.advertised(m.grpcLis) }

// RaftAddr is the advertised host:port of the Raft listener.
func (m *Master) RaftAddr() string { return m.cfg.advertised(m.raftLis) }

// SerfAddr is the advertised host:port of the gossip listener.
func (m *Master) SerfAddr() string { return m.goss.AdvertiseAddr() }

// HTTPAddr is the advertised host:port of the HTTP listener.
func (m *Master) HTTPAddr() string { return m.cfg.advertised(m.httpLis) }

// StateHash is the hash of the replicated state and the index it stands at.
func (m *Master) StateHash() (index uint64, hash string) {
	v := m.fsm.View()
	return v.Index(), v.HashString()
}

// sinceStart is the time since this master was made, in ms, by the monotonic
// clock: what is measured must not change with the wall clock.
func (m *Master) sinceStart() int64 { return time.Since(m.began).Milliseconds() }

// record is this master's entry in the replicated table of masters.
func (m *Master) record() model.Master {
	return model.Master{
		ID:       m.id.ID(),
		GRPCAddr: m.GRPCAddr(),
		RaftAddr: m.RaftAddr(),
		SerfAddr: m.SerfAddr(),
		HTTPAddr: m.HTTPAddr(),
		Version:  m.cfg.Version,
		Key:      m.id.PublicKey(),
	}
}
