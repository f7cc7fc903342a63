//go:build linux

package workerd

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/web"
	"github.com/hearthd/hearth/workerd/keeper"
)

// scrapeTimeout bounds how long a scrape waits for the agent.
const scrapeTimeout = 2 * time.Second

// Outcomes of launches and of ends.
const (
	launchStarted = "started"
	launchFailed  = "failed"
	launchOutage  = "outage"

	endClean  = "clean"
	endFailed = "failed"
	endSignal = "signal"
)

// metrics are this worker's, in a registry of its own. The zero pointer counts
// nothing.
type metrics struct {
	reg      *prometheus.Registry
	rpc      *web.RPC
	launches *prometheus.CounterVec
	seconds  prometheus.Histogram
	ends     *prometheus.CounterVec
	sessions prometheus.Counter
	keepers  prometheus.Counter
	removed  prometheus.Counter
	freed    prometheus.Counter
	work     *prometheus.GaugeVec
}

func newMetrics(build string, validity func() (from, until time.Time)) *metrics {
	reg := web.NewRegistry("worker", build)
	m := &metrics{
		reg: reg, rpc: web.NewRPC(reg),
		launches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hearth_worker_launches_total", Help: "Launches of executors: started, failed by themselves, or not possible for a cause of the worker's.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "hearth_worker_launch_seconds", Help: "From taking up a launch until the process has started.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hearth_worker_ends_total", Help: "Processes of executors that have ended: with exit code 0, another one, or by a signal.",
		}, []string{"outcome"}),
		sessions: prometheus.NewCounter(prometheus.CounterOpts{Name: "hearth_worker_sessions_total", Help: "Sessions with a leader that this worker has opened."}),
		keepers:  prometheus.NewCounter(prometheus.CounterOpts{Name: "hearth_worker_keeper_deaths_total", Help: "Keepers of this worker's processes that have died."}),
		removed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "hearth_worker_work_removed_total", Help: "Directories of ended applications that were removed."}),
		freed:    prometheus.NewCounter(prometheus.CounterOpts{Name: "hearth_worker_work_freed_bytes_total", Help: "Disk that their removal has freed, where the work directory has a budget."}),
		work: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "hearth_worker_work_bytes", Help: "Disk that directories of applications take, by whether they are over, as of the last clean-up; 0 without a budget.",
		}, []string{"of"}),
	}
	for _, outcome := range []string{launchStarted, launchFailed, launchOutage} {
		m.launches.WithLabelValues(outcome)
	}
	for _, outcome := range []string{endClean, endFailed, endSignal} {
		m.ends.WithLabelValues(outcome)
	}
	m.cleaned(kept{})
	reg.MustRegister(m.launches, m.seconds, m.ends, m.sessions, m.keepers, m.removed, m.freed, m.work)
	if validity == nil {
		validity = func() (from, until time.Time) { return time.Time{}, time.Time{} }
	}
	web.RegisterCertificate(reg, validity)
	return m
}

func (m *metrics) launched(took time.Duration) {
	if m != nil {
		m.launches.WithLabelValues(launchStarted).Inc()
		m.seconds.Observe(took.Seconds())
	}
}

func (m *metrics) launchFailed(outage bool) {
	switch {
	case m == nil:
	case outage:
		m.launches.WithLabelValues(launchOutage).Inc()
	default:
		m.launches.WithLabelValues(launchFailed).Inc()
	}
}

func (m *metrics) ended(exit keeper.Exit) {
	switch {
	case m == nil:
	case exit.Signal != 0:
		m.ends.WithLabelValues(endSignal).Inc()
	case exit.Code != 0:
		m.ends.WithLabelValues(endFailed).Inc()
	default:
		m.ends.WithLabelValues(endClean).Inc()
	}
}

func (m *metrics) welcomed() {
	if m != nil {
		m.sessions.Inc()
	}
}

// cleaned takes note of a clean-up.
func (m *metrics) cleaned(k kept) {
	if m != nil {
		m.removed.Add(float64(k.removed))
		m.freed.Add(float64(max(k.freed, 0)))
		m.work.WithLabelValues("live").Set(float64(max(k.live, 0)))
		m.work.WithLabelValues("ended").Set(float64(max(k.ended, 0)))
	}
}

func (m *metrics) keeperDied() {
	if m != nil {
		m.keepers.Inc()
	}
}

// figures are what the agent knows at one moment.
type figures struct {
	executors         map[model.ExecutorState]int
	session, stopping bool
	cores             int
	memoryMiB         int64
	term              uint64
	journalBytes      int64
	journalRecords    int
	reports           int
	keeper            bool
	handing           bool
}

func (a *agent) figures(ctx context.Context) (f figures, err error) {
	err = a.do(ctx, func() {
		journalBytes, journalRecords, _ := a.journal.log.Size()
		f = figures{
			executors: make(map[model.ExecutorState]int), session: a.up != nil, stopping: a.stop.begun, handing: a.hand != nil,
			cores: a.offer.Cores, memoryMiB: a.offer.MemoryMiB, term: a.fence.term,
			journalBytes: journalBytes, journalRecords: journalRecords, reports: len(a.reports.pending), keeper: a.keepers.get() != nil,
		}
		for _, r := range a.table.inventory() {
			f.executors[r.State]++
		}
	})
	return f, err
}

// agentGauges computes gauges at each scrape from what the agent knows.
type agentGauges struct {
	log   hclog.Logger
	agent *agent

	executors, session, stopping, restarting, cores, memory, term, bytes, records, reports, keeper *prometheus.Desc
}

func (m *metrics) watch(log hclog.Logger, a *agent) {
	single := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	m.reg.MustRegister(&agentGauges{
		log: log, agent: a,
		executors:  prometheus.NewDesc("hearth_worker_executors", "Executors of this worker by state; ended ones until the leader has acknowledged it.", []string{"state"}, nil),
		session:    single("hearth_worker_session", "1 while a session with the leader is open."),
		stopping:   single("hearth_worker_stopping", "1 while the worker stops."),
		restarting: single("hearth_worker_restarting", "1 while a planned restart is under way."),
		cores:      single("hearth_worker_cores", "Cores offered."),
		memory:     single("hearth_worker_memory_bytes", "Memory offered."),
		term:       single("hearth_worker_fence_term", "Term of the newest leader whose orders were obeyed."),
		bytes:      single("hearth_worker_journal_bytes", "Size of the journal."),
		records:    single("hearth_worker_journal_records", "Records in the journal."),
		reports:    single("hearth_worker_reports_pending", "Reports that the leader has not acknowledged."),
		keeper:     single("hearth_worker_keeper_connected", "1 while the keeper of the processes is connected."),
	})
}

// Describe implements prometheus.Collector.
func (g *agentGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.executors, g.session, g.stopping, g.restarting, g.cores, g.memory, g.term, g.bytes, g.records, g.reports, g.keeper} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *agentGauges) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	f, err := g.agent.figures(ctx)
	if err != nil {
		g.log.Debug("metrics without the agent", "err", err)
		ch <- prometheus.NewInvalidMetric(g.executors, err)
		return
	}
	for _, state := range model.ExecutorStates() {
		ch <- prometheus.MustNewConstMetric(g.executors, prometheus.GaugeValue, float64(f.executors[state]), string(state))
	}
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	for desc, value := range map[*prometheus.Desc]float64{
		g.session: flag(f.session), g.stopping: flag(f.stopping), g.restarting: flag(f.handing), g.cores: float64(f.cores),
		g.memory: float64(f.memoryMiB) * (1 << 20), g.term: float64(f.term), g.bytes: float64(f.journalBytes),
		g.records: float64(f.journalRecords), g.reports: float64(f.reports), g.keeper: flag(f.keeper),
	} {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
}

// handler answers scrapes.
func (m *metrics) handler() http.Handler { return web.MetricsHandler(m.reg) }
