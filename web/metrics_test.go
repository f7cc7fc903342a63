package web

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// masterRegistry is all that a master exports.
func masterRegistry(s *fakeSource, node func() Node) (*prometheus.Registry, *RPC, *Activity) {
	reg := NewRegistry("master", "v1")
	calls, activity := NewRPC(reg), NewActivity(reg)
	RegisterCertificate(reg, func() (from, until time.Time) { return time.Time{}, time.Time{} })
	RegisterCluster(reg, NewBoard(s.Snapshot), node, hclog.NewNullLogger())
	return reg, calls, activity
}

func follower() Node { return Node{RaftState: "follower", Term: 7, Silence: .02} }

func leader() Node {
	return Node{
		RaftState: "leader", Leading: true, Ready: true, Term: 8, QueuedCommands: 3, QueuedBytes: 300, WorkerSessions: 5, DriverSessions: 2,
		Gossip: map[GossipKey]int{{"master", "alive"}: 3},
	}
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]*dto.MetricFamily)
	for _, f := range list {
		out[f.GetName()] = f
	}
	return out
}

func series(families map[string]*dto.MetricFamily) int {
	n := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n++
			if h := m.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 2
			}
		}
	}
	return n
}

// value is that of one series; labels in the order of their names.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetValue())
		}
		if strings.Join(have, "|") != strings.Join(labels, "|") {
			continue
		}
		if m.GetCounter() != nil {
			return m.GetCounter().GetValue()
		}
		return m.GetGauge().GetValue()
	}
	t.Errorf("no series %s with %v", name, labels)
	return math.NaN()
}

// OB-02: labels by application eat the memory of a master that nobody scrapes.
func TestOB02ManyApplicationsMakeNoSeriesAndNoMemory(t *testing.T) {
	s := newFake()
	reg, calls, activity := masterRegistry(s, leader)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	methods := []string{"Cluster/RegisterApp", "Cluster/KillApp", "Cluster/Status", "Cluster/App", "Cluster/WaitApp", "WorkerSessions/Session"}
	for i := range 100_000 { // applications over a day
		for _, method := range methods {
			calls.Observe(rpc.Served{Method: method, Code: "OK", Took: time.Duration(i) * time.Microsecond, Stream: strings.HasSuffix(method, "Session")})
		}
		activity.Committed(1, time.Millisecond, nil)
		activity.Planned(time.Millisecond)
		activity.Placed(4, 0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
		t.Errorf("metrics grew by %d bytes without a scraper; the bound is 20 MiB", grown)
	}
	few := gather(t, reg)
	s.snap.Cluster.Apps = nil
	for i := range 100_000 {
		s.snap.Cluster.Apps = append(s.snap.Cluster.Apps, fakeApp(i, fmt.Sprint("app ", i), model.AppRunning, "", ""))
	}
	reg2, _, _ := masterRegistry(s, leader)
	for range 3 {
		gather(t, reg2)
	}
	many := gather(t, reg2)
	if n := series(few); n > 2000 {
		t.Errorf("%d series; the bound is 2,000", n)
	}
	if value(t, many, "hearth_apps", "RUNNING") != 100_000 {
		t.Error("not all applications are counted")
	}
	for name, f := range many {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.HasPrefix(l.GetValue(), "app-") || strings.HasPrefix(l.GetValue(), "worker-") || strings.HasPrefix(l.GetValue(), "driver-") {
					t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
	t.Logf("%d series with calls of %d methods", series(few), len(methods))
}

// OB-03: a family whose labels differ from series to series, or that comes and goes, cannot be relied on.
func TestOB03AThousandScrapesHaveTheSameFamiliesOnAllRoles(t *testing.T) {
	s := newFake()
	role := follower()
	reg, calls, activity := masterRegistry(s, func() Node { return role })
	first := gather(t, reg)
	shape := func(families map[string]*dto.MetricFamily) string {
		var b strings.Builder
		for name, f := range families {
			if !strings.HasPrefix(name, "hearth_") || strings.HasPrefix(name, "hearth_rpc_") || strings.HasPrefix(name, "hearth_peer_") {
				continue // methods and masters come with calls and members
			}
			fmt.Fprint(&b, f.GetMetric()[0].GetLabel(), " ")
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					fmt.Fprintf(&b, "%s{%s=%s}", name, l.GetName(), l.GetValue())
				}
			}
		}
		return fmt.Sprint(len(b.String()))
	}
	for i := range 1000 {
		role = []Node{follower(), leader()}[i%2]
		calls.Observe(rpc.Served{Method: "Cluster/KillApp", Code: []string{"OK", "NotFound"}[i%2], Took: time.Millisecond})
		activity.Committed(i, time.Millisecond, []error{nil, errors.New("lost")}[i%2])
		activity.Snapshot(100, time.Second, nil)
		s.change(func(snap *Snapshot) { snap.Cluster.Workers[i%3].State = model.WorkerStates()[i%5] })
		now := gather(t, reg) // fails on any inconsistency
		if len(now) != len(first) || shape(now) != shape(first) {
			t.Fatalf("scrape %d: %d families, the first had %d", i, len(now), len(first))
		}
		follows := value(t, now, "hearth_raft_state", "follower") == 1
		if follows != (i%2 == 0) {
			t.Fatalf("scrape %d: follower %t", i, follows)
		}
		if follows && value(t, now, "hearth_sessions", "worker")+value(t, now, "hearth_propose_queue_commands")+value(t, now, "hearth_master_leading") != 0 {
			t.Fatalf("scrape %d: a follower exports what a leader has", i)
		}
	}
}

// OB-01, the metrics' part: they are sums of the view that the page shows.
func TestOB01MetricsAreSumsOfTheView(t *testing.T) {
	s := newFake()
	s.snap.Drivers = append(s.snap.Drivers, fakeDriver(3, "again", model.DriverRelaunching, 1, "", ""))
	reg, _, _ := masterRegistry(s, follower)
	families := gather(t, reg)
	for _, tc := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"hearth_workers", []string{"ALIVE"}, 1},
		{"hearth_workers", []string{"UNREACHABLE"}, 1},
		{"hearth_workers", []string{"DEAD"}, 1},
		{"hearth_workers", []string{"LEFT"}, 0},
		{"hearth_apps", []string{"RUNNING"}, 1},
		{"hearth_apps", []string{"WAITING"}, 1},
		{"hearth_apps", []string{"FAILED"}, 1},
		{"hearth_drivers", []string{"RUNNING"}, 1},
		{"hearth_drivers", []string{"SUBMITTED"}, 1},
		{"hearth_drivers", []string{"RELAUNCHING"}, 1},
		{"hearth_drivers", []string{"ERROR"}, 1},
		{"hearth_drivers", []string{"FINISHED"}, 0},
		{"hearth_drivers_waiting", nil, 2},
		{"hearth_executors", []string{"RUNNING"}, 2},
		{"hearth_executors_ended", []string{"app"}, 3},
		{"hearth_cores", nil, 32},
		{"hearth_cores_used", nil, 12},
		{"hearth_memory_bytes", nil, 2 * 32768 * (1 << 20)},
		{"hearth_memory_used_bytes", nil, 2 * 6144 * (1 << 20)},
		{"hearth_alarms", []string{"MASTER_STUCK"}, 1},
		{"hearth_peer_alive", []string{"master-cccccccccccc"}, 0},
		{"hearth_peer_last_index", []string{"master-aaaaaaaaaaaa"}, 4712},
		{"hearth_leader_known", nil, 1},
	} {
		if got := value(t, families, tc.name, tc.labels...); got != tc.want {
			t.Errorf("%s%v: got %v, want %v", tc.name, tc.labels, got, tc.want)
		}
	}
	wants(t, get(t, handlerOf(s), "/"), `<p class="big">12<small> of 32 in use</small>`)
}

func TestWithoutAViewAScrapeFailsAsAWhole(t *testing.T) {
	s := newFake()
	s.err = errors.New("no members")
	reg, _, _ := masterRegistry(s, follower)
	if _, err := reg.Gather(); err == nil || !strings.Contains(err.Error(), "no members") {
		t.Errorf("got %v", err)
	}
}

var documented = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (\\w+) \\| ([a-z, ]*)\\|")

// documentedMetrics reads docs/metrics.md: type and labels by name.
func documentedMetrics(t *testing.T) map[string][2]string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][2]string)
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		out[m[1]] = [2]string{m[2], strings.TrimSpace(m[3])}
	}
	return out
}

func TestEveryMetricOfAMasterIsDocumentedWithItsTypeAndLabels(t *testing.T) {
	reg, _, _ := masterRegistry(newFake(), leader)
	docs := documentedMetrics(t)
	families := gather(t, reg)
	for name, f := range families {
		if !strings.HasPrefix(name, "hearth_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		have := [2]string{strings.ToLower(f.GetType().String()), strings.Join(labels, ", ")}
		if name == "hearth_rpc_served_total" {
			have[1] = "method, code" // as people think of it
		}
		if docs[name] != have {
			t.Errorf("docs/metrics.md has %q for %s, exported is %q", docs[name], name, have)
		}
	}
	for name := range docs {
		if families[name] == nil && !strings.HasPrefix(name, "hearth_worker_") {
			t.Errorf("docs/metrics.md has %s, which no master exports", name)
		}
	}
}

func TestTheDashboardAsksForMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana/hearth.json")
	if err != nil {
		t.Fatal(err)
	}
	docs := documentedMetrics(t)
	reg, _, _ := masterRegistry(newFake(), leader)
	families := gather(t, reg)
	exprs := regexp.MustCompile(`"expr": "((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(string(text), -1)
	if len(exprs) < 15 {
		t.Fatalf("%d queries found in the dashboard", len(exprs))
	}
	for _, e := range exprs {
		names := regexp.MustCompile(`\b(?:hearth|go|process)_[a-z0-9_]+`).FindAllString(e[1], -1)
		if len(names) == 0 {
			t.Errorf("a query without a metric: %s", e[1])
		}
		labels := []string{"le"} // of histograms
		for _, name := range names {
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if cut := strings.TrimSuffix(name, suffix); docs[cut][0] == "histogram" {
					base = cut
				}
			}
			if _, there := docs[base]; !there && families[name] == nil {
				t.Errorf("the dashboard asks for %s, which is not exported: %s", name, e[1])
			}
			labels = append(labels, strings.Split(docs[base][1], ", ")...)
		}
		for _, label := range askedLabels(e[1]) {
			if !slices.Contains(labels, label) {
				t.Errorf("the dashboard asks for the label %s, which none of %v has: %s", label, names, e[1])
			}
		}
	}
}

// askedLabels are those by which a query sums up or chooses.
func askedLabels(expr string) []string {
	var out []string
	for _, by := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		out = append(out, strings.Split(by[1], ", ")...)
	}
	for _, chosen := range regexp.MustCompile(`[{,]\s*([a-z_]+)\s*[=!]`).FindAllStringSubmatch(expr, -1) {
		out = append(out, chosen[1])
	}
	return out
}
