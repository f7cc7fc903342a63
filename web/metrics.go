package web

import (
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hearthd/hearth/model"
)

// Node is what a master's process knows of itself beyond the replicated state. What only a leader has is zero elsewhere.
type Node struct {
	RaftState     string // follower, candidate, leader, shutdown
	Leading       bool   // its leader scope is ready
	Ready         bool   // as /readyz
	Term          uint64
	LastIndex     uint64
	CommitIndex   uint64
	AppliedIndex  uint64
	SnapshotIndex uint64
	// Silence is how long the leader has not been heard, in seconds; 0 on the leader.
	Silence float64

	QueuedCommands, QueuedBytes    int
	WorkerSessions, DriverSessions int
	// Gossip counts members by role and status.
	Gossip map[GossipKey]int
}

// GossipKey is a role and a status of gossip.
type GossipKey struct{ Role, Status string }

// Labels whose values are lists of our own; each value is exported even when nothing has it, so that no series comes late
// or stays behind.
var (
	raftStates     = []string{"follower", "candidate", "leader", "shutdown"}                                                                //nolint:gochecknoglobals // a constant
	gossipRoles    = []string{"master", "worker"}                                                                                           //nolint:gochecknoglobals // a constant
	gossipStatuses = []string{"alive", "leaving", "left", "failed"}                                                                         //nolint:gochecknoglobals // a constant
	alarmKinds     = []model.AlarmKind{model.AlarmStoreStalled, model.AlarmMasterStuck, model.AlarmStatesDiffer, model.AlarmNameUnresolved} //nolint:gochecknoglobals // a constant
	causes         = []model.Cause{model.CauseClean, model.CauseApp, model.CauseStart, model.CauseInfra, model.CauseKill}                   //nolint:gochecknoglobals // a constant
)

// gauge is one family whose values are computed at the scrape.
type gauge struct {
	desc *prometheus.Desc
	emit func(s *Snapshot, n Node, set func(value float64, labels ...string))
}

// collector computes gauges at each scrape from the snapshot that pages and JSON show, and from the node. It holds no
// values: nothing in it grows, and nothing is left over from another term.
type collector struct {
	log    hclog.Logger
	board  *Board
	node   func() Node
	gauges []gauge
}

// RegisterCluster exports the gauges of a master.
func RegisterCluster(reg *prometheus.Registry, board *Board, node func() Node, log hclog.Logger) {
	reg.MustRegister(&collector{log: log, board: board, node: node, gauges: append(nodeGauges(), clusterGauges()...)})
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range c.gauges {
		ch <- g.desc
	}
}

// Collect implements prometheus.Collector. Without a snapshot the scrape fails as a whole, rather than half of it.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	snap, err := c.board.Snapshot()
	if err != nil {
		c.log.Debug("metrics without a view", "err", err)
		ch <- prometheus.NewInvalidMetric(c.gauges[0].desc, err)
		return
	}
	n := c.node()
	for _, g := range c.gauges {
		g.emit(snap, n, func(value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
		})
	}
}

func family(name, help string, labels []string, emit func(s *Snapshot, n Node, set func(value float64, labels ...string))) gauge {
	return gauge{desc: prometheus.NewDesc(name, help, labels, nil), emit: emit}
}

// single is a family without labels.
func single(name, help string, value func(s *Snapshot, n Node) float64) gauge {
	return family(name, help, nil, func(s *Snapshot, n Node, set func(float64, ...string)) { set(value(s, n)) })
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// nodeGauges are about the process that answers.
func nodeGauges() []gauge {
	return []gauge{
		family("hearth_raft_state", "1 for the state that Raft is in on this master, 0 for the others.", []string{"state"},
			func(_ *Snapshot, n Node, set func(float64, ...string)) {
				for _, state := range raftStates {
					set(bit(n.RaftState == state), state)
				}
			}),
		single("hearth_master_leading", "1 on the master whose leader scope is ready.", func(_ *Snapshot, n Node) float64 { return bit(n.Leading) }),
		single("hearth_master_ready", "1 if /readyz says ready.", func(_ *Snapshot, n Node) float64 { return bit(n.Ready) }),
		single("hearth_raft_term", "Present term.", func(_ *Snapshot, n Node) float64 { return float64(n.Term) }),
		single("hearth_raft_last_index", "Newest entry in this master's log.", func(_ *Snapshot, n Node) float64 { return float64(n.LastIndex) }),
		single("hearth_raft_commit_index", "Newest entry that this master knows to be committed.", func(_ *Snapshot, n Node) float64 { return float64(n.CommitIndex) }),
		single("hearth_raft_applied_index", "Newest entry with commands that is applied on this master.", func(_ *Snapshot, n Node) float64 { return float64(n.AppliedIndex) }),
		single("hearth_raft_snapshot_index", "Entry that the newest snapshot stands at; 0 without one.", func(_ *Snapshot, n Node) float64 { return float64(n.SnapshotIndex) }),
		single("hearth_raft_leader_silence_seconds", "How long this master has not heard the leader; 0 on the leader.", func(_ *Snapshot, n Node) float64 { return n.Silence }),
		single("hearth_propose_queue_commands", "Commands that wait for a place in the log; 0 on standbys.", func(_ *Snapshot, n Node) float64 { return float64(n.QueuedCommands) }),
		single("hearth_propose_queue_bytes", "Bytes of the commands that wait.", func(_ *Snapshot, n Node) float64 { return float64(n.QueuedBytes) }),
		family("hearth_sessions", "Sessions that are open with this leader; 0 on standbys.", []string{"kind"},
			func(_ *Snapshot, n Node, set func(float64, ...string)) {
				set(float64(n.WorkerSessions), "worker")
				set(float64(n.DriverSessions), "driver")
			}),
		family("hearth_gossip_members", "Members that this master's gossip knows.", []string{"role", "status"},
			func(_ *Snapshot, n Node, set func(float64, ...string)) {
				for _, role := range gossipRoles {
					for _, status := range gossipStatuses {
						set(float64(n.Gossip[GossipKey{role, status}]), role, status)
					}
				}
			}),
	}
}

// clusterGauges are about the cluster, as this master's replica has it.
func clusterGauges() []gauge {
	return append(masterGauges(), []gauge{
		family("hearth_alarms", "Things this master has found wrong and that still are.", []string{"kind"},
			func(s *Snapshot, _ Node, set func(float64, ...string)) {
				count := make(map[model.AlarmKind]int)
				for _, a := range s.Cluster.Alarms {
					count[a.Kind]++
				}
				for _, kind := range alarmKinds {
					set(float64(count[kind]), string(kind))
				}
			}),
		family("hearth_workers", "Workers by state.", []string{"state"}, func(s *Snapshot, _ Node, set func(float64, ...string)) {
			each(set, model.WorkerStates(), s.totals().Workers)
		}),
		family("hearth_apps", "Applications by state; of the ended ones those that are kept.", []string{"state"},
			func(s *Snapshot, _ Node, set func(float64, ...string)) { each(set, model.AppStates(), s.totals().Apps) }),
		family("hearth_drivers", "Drivers in cluster mode by state; of the ended ones those that are kept.", []string{"state"},
			func(s *Snapshot, _ Node, set func(float64, ...string)) {
				each(set, model.DriverStates(), s.totals().Drivers)
			}),
		single("hearth_drivers_waiting", "Drivers in cluster mode that wait for a worker, the first time or again.", func(s *Snapshot, _ Node) float64 { return float64(s.totals().Waiting) }),
		family("hearth_executors", "Unfinished executors by state.", []string{"state"}, func(s *Snapshot, _ Node, set func(float64, ...string)) {
			for _, state := range model.ExecutorStates() {
				if !state.Terminal() {
					set(float64(s.Executors[state]), string(state))
				}
			}
		}),
		family("hearth_executors_ended", "Ended executors that are kept, by cause.", []string{"cause"},
			func(s *Snapshot, _ Node, set func(float64, ...string)) { each(set, causes, s.Causes) }),
		single("hearth_cores", "Cores that workers offer which are not gone.", func(s *Snapshot, _ Node) float64 { return float64(s.totals().Cores) }),
		single("hearth_cores_used", "Cores that unfinished executors hold there.", func(s *Snapshot, _ Node) float64 { return float64(s.totals().Used) }),
		single("hearth_memory_bytes", "Memory that workers offer which are not gone.", func(s *Snapshot, _ Node) float64 { return float64(s.totals().Memory) * (1 << 20) }),
		single("hearth_memory_used_bytes", "Memory that unfinished executors hold there.", func(s *Snapshot, _ Node) float64 { return float64(s.totals().MemUsed) * (1 << 20) }),
	}...)
}

// masterGauges are about the masters; their ids are the only ones among the labels, and there are at most nine or so.
func masterGauges() []gauge {
	masters := func(name, help string, value func(m model.MasterView) float64) gauge {
		return family(name, help, []string{"master"}, func(s *Snapshot, _ Node, set func(float64, ...string)) {
			for _, m := range s.Cluster.Masters {
				set(value(m), string(m.ID))
			}
		})
	}
	return []gauge{
		single("hearth_leader_known", "1 if this master knows a leader.", func(s *Snapshot, _ Node) float64 { return bit(s.Cluster.Staleness.Leader != "") }),
		masters("hearth_peer_alive", "1 if gossip has the master for alive.", func(m model.MasterView) float64 { return bit(m.Alive) }),
		masters("hearth_peer_healthy", "1 if the master keeps up, as far as this one can tell.", func(m model.MasterView) float64 { return bit(m.Healthy) }),
		masters("hearth_peer_voter", "1 if the master has a vote.", func(m model.MasterView) float64 { return bit(m.Voter) }),
		masters("hearth_peer_last_index", "Newest entry in the master's log; of others only the leader knows, 0 = unknown.", func(m model.MasterView) float64 { return float64(m.LastIndex) }),
	}
}

// each exports a count for each of the values.
func each[K ~string](set func(float64, ...string), values []K, count map[K]int) {
	for _, v := range values {
		set(float64(count[v]), string(v))
	}
}
