package web

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/hearthd/hearth/rpc"
)

// maxScrapes is how many scrapes are answered at the same time.
const maxScrapes = 4

// Buckets of durations in seconds. Few, because each is a series for each method.
var (
	fastBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1} //nolint:gochecknoglobals // a constant
	slowBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30}               //nolint:gochecknoglobals // a constant
)

// NewRegistry makes the registry of one daemon, with what every Go process can say about itself. Nothing is registered
// globally: several daemons may live in one process.
func NewRegistry(daemon, build string) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hearth_build_info", Help: "1; the labels say which daemon and build this is.",
			ConstLabels: prometheus.Labels{"daemon": daemon, "version": build},
		}, func() float64 { return 1 }),
	)
	return reg
}

// MetricsHandler answers scrapes of a registry.
func MetricsHandler(reg *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Registry: nil})
}

// RegisterCertificate exports until when the own certificate is valid.
func RegisterCertificate(reg *prometheus.Registry, validity func() (from, until time.Time)) {
	stamp := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.Unix())
	}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hearth_tls_certificate_not_before_timestamp_seconds", Help: "Since when the own certificate is valid; 0 without TLS.",
		}, func() float64 { from, _ := validity(); return stamp(from) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "hearth_tls_certificate_not_after_timestamp_seconds", Help: "Until when the own certificate is valid; 0 without TLS.",
		}, func() float64 { _, until := validity(); return stamp(until) }),
	)
}

// RPC counts the calls that a gRPC server answers: rate, errors, duration.
type RPC struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewRPC makes and registers the counters.
func NewRPC(reg *prometheus.Registry) *RPC {
	r := &RPC{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "hearth_rpc_served_total", Help: "gRPC calls answered, sessions that have ended included.",
		}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "hearth_rpc_served_seconds", Help: "How long gRPC calls took, without sessions and other streams.", Buckets: fastBuckets,
		}, []string{"method"}),
	}
	reg.MustRegister(r.calls, r.seconds)
	// The families exist before the first call.
	r.calls.WithLabelValues("Cluster/Status", "OK")
	r.seconds.WithLabelValues("Cluster/Status")
	return r
}

// Observe counts one call. It fits rpc.ServerConfig.Observe.
func (r *RPC) Observe(c rpc.Served) {
	r.calls.WithLabelValues(c.Method, c.Code).Inc()
	if !c.Stream {
		r.seconds.WithLabelValues(c.Method).Observe(c.Took.Seconds())
	}
}

// Activity counts what a master does.
type Activity struct {
	commitSeconds   prometheus.Histogram
	commands        *prometheus.CounterVec
	passSeconds     prometheus.Histogram
	placements      *prometheus.CounterVec
	snapshotSeconds prometheus.Histogram
	snapshots       *prometheus.CounterVec
	snapshotBytes   prometheus.Gauge
	leaderChanges   prometheus.Counter
	elections       prometheus.Counter
	takeovers       *prometheus.CounterVec
}

// NewActivity makes and registers the counters. Each label value exists from the start, so that no series appears late.
func NewActivity(reg *prometheus.Registry) *Activity {
	counter := func(name, help string, label string, values ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		for _, v := range values {
			c.WithLabelValues(v)
		}
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	a := &Activity{
		commitSeconds: histogram("hearth_commit_seconds", "From handing an entry to Raft until it is committed by a majority and applied here.", fastBuckets),
		commands:      counter("hearth_commands_total", "Commands that this master proposed, by what became of their entry.", "outcome", outcomeOK, outcomeFailed),
		passSeconds:   histogram("hearth_scheduler_pass_seconds", "How long one plan of the scheduler took, without committing it.", fastBuckets),
		placements:    counter("hearth_scheduler_placements_total", "Placements this leader committed, by the verdict of the state.", "outcome", outcomeAccepted, outcomeRefused),
		snapshotSeconds: histogram("hearth_snapshot_seconds", "How long a snapshot took to write.",
			slowBuckets),
		snapshots: counter("hearth_snapshots_total", "Snapshots of the state that were written, or not.", "outcome", outcomeOK, outcomeFailed),
		takeovers: counter("hearth_failover_takeovers_total", "Elections this master began because a leader was gone, by what it knew.", "evidence", "refused", "silent"),
		snapshotBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "hearth_snapshot_bytes", Help: "Size of the last snapshot this process wrote; 0 before the first.",
		}),
		leaderChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hearth_leader_changes_total", Help: "How often this master saw another leader than before, or none.",
		}),
		elections: prometheus.NewCounter(prometheus.CounterOpts{Name: "hearth_elections_won_total", Help: "Elections this master has won."}),
	}
	reg.MustRegister(a.snapshotBytes, a.leaderChanges, a.elections)
	return a
}

// Values of the label "outcome".
const (
	outcomeOK       = "ok"
	outcomeFailed   = "failed"
	outcomeAccepted = "accepted"
	outcomeRefused  = "refused"
)

// Committed counts an entry with its commands.
func (a *Activity) Committed(commands int, took time.Duration, err error) {
	if err != nil {
		a.commands.WithLabelValues(outcomeFailed).Add(float64(commands))
		return
	}
	a.commands.WithLabelValues(outcomeOK).Add(float64(commands))
	a.commitSeconds.Observe(took.Seconds())
}

// Snapshot counts a snapshot.
func (a *Activity) Snapshot(bytes int64, took time.Duration, err error) {
	if err != nil {
		a.snapshots.WithLabelValues(outcomeFailed).Inc()
		return
	}
	a.snapshots.WithLabelValues(outcomeOK).Inc()
	a.snapshotSeconds.Observe(took.Seconds())
	a.snapshotBytes.Set(float64(bytes))
}

// TookOver counts an election that was begun because a leader was gone.
func (a *Activity) TookOver(silent bool) {
	if silent {
		a.takeovers.WithLabelValues("silent").Inc()
		return
	}
	a.takeovers.WithLabelValues("refused").Inc()
}

// Planned counts a pass of the scheduler.
func (a *Activity) Planned(took time.Duration) { a.passSeconds.Observe(took.Seconds()) }

// Placed counts the verdicts on a plan.
func (a *Activity) Placed(accepted, refused int) {
	a.placements.WithLabelValues(outcomeAccepted).Add(float64(accepted))
	a.placements.WithLabelValues(outcomeRefused).Add(float64(refused))
}

// LeaderChanged counts a change of who leads; own says that this master was elected.
func (a *Activity) LeaderChanged(own bool) {
	a.leaderChanges.Inc()
	if own {
		a.elections.Inc()
	}
}
