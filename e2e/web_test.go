//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	hearthmodel "github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/web"
)

// fetch reads a path of a daemon's web server.
func (n *node) fetch(t testing.TB, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	resp, err := n.of.access.get(ctx, n.HTTP, path)
	if err != nil {
		t.Fatalf("get %s of %s: %v", path, n.name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("get %s of %s: %v", path, n.name, err)
	}
	return resp.StatusCode, string(b)
}

func (n *node) page(t testing.TB, path string) string {
	t.Helper()
	status, body := n.fetch(t, path)
	if status != http.StatusOK {
		t.Fatalf("get %s of %s: status %d: %s", path, n.name, status, clip(body))
	}
	return body
}

func (n *node) json(t testing.TB, path string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(n.page(t, path)), into); err != nil {
		t.Fatalf("%s of %s: %v", path, n.name, err)
	}
}

// exported reads /metrics: the type of each family.
func (n *node) exported(t testing.TB) map[string]string {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(n.page(t, "/metrics")))
	if err != nil {
		t.Fatalf("metrics of %s: %v", n.name, err)
	}
	out := make(map[string]string)
	for name, f := range families {
		out[name] = strings.ToLower(f.GetType().String())
	}
	return out
}

// OB-01: what one command shows another does not. Here command line, JSON, page and metrics of one cluster are compared,
// field by field.
func TestOB01CommandJSONPageAndMetricsShowTheSame(t *testing.T) {
	c := newCluster(t, size{masters: 3, workers: 2, cores: 4})
	c.run(t, "submit", "--name", "sleepers & <co>", "--executors", "2", "--memory", "128m", "--", "sleep", "600").wantCode(t, 0)
	ended := c.run(t, "submit", "--wait", "--name", "done", "--completions", "1", "--memory", "64m", "--", "true").wantCode(t, 0).app(t)
	m := c.leader(t)
	var cli, api hearthmodel.ClusterView
	volatile := cmp.Options{
		cmpopts.IgnoreFields(hearthmodel.Staleness{}, "LagMilli", "AppliedIndex", "LeaderlessFor"), cmpopts.IgnoreFields(hearthmodel.ClusterView{}, "StateHash"),
		cmpopts.IgnoreFields(hearthmodel.MasterView{}, "LastIndex"),
	}
	eventually(t, settleWithin, "both executors run, and command and JSON agree in every field", func() string {
		c.via(t, m, "status", "-o", "json").wantCode(t, 0).decode(t, &cli)
		m.json(t, "/v1/cluster", &api)
		if len(cli.Apps) != 1 || cli.Apps[0].Running != 2 {
			return fmt.Sprintf("applications %+v", cli.Apps)
		}
		return cmp.Diff(cli, api, volatile)
	})
	for _, w := range api.Workers {
		showsFields(t, m.page(t, "/workers/"+string(w.ID)), w)
		var detail web.WorkerDetail
		m.json(t, "/v1/workers/"+string(w.ID), &detail)
		if diff := cmp.Diff(w, detail.Worker); diff != "" {
			t.Errorf("a worker's detail differs from the list (-list +detail):\n%s", diff)
		}
	}
	for _, id := range []hearthmodel.AppID{api.Apps[0].ID, ended} {
		var byCommand hearthmodel.AppView
		c.via(t, m, "app", string(id), "-o", "json").wantCode(t, 0).decode(t, &byCommand)
		var byAPI web.AppDetail
		m.json(t, "/v1/apps/"+string(id), &byAPI)
		if diff := cmp.Diff(byCommand, byAPI.App); diff != "" {
			t.Errorf("application %s (-command +JSON):\n%s", id, diff)
		}
		page := m.page(t, "/apps/"+string(id))
		showsFields(t, page, byCommand)
		for _, e := range byCommand.Executors {
			for _, want := range []string{fmt.Sprintf(`id="%s-%d" data-v="%s"`, e.App, e.ID, e.State), "/workers/" + string(e.Worker), fmt.Sprintf("/logs/%s/%d/stdout", e.App, e.ID)} {
				if !strings.Contains(page, want) {
					t.Errorf("the page of %s lacks %q", id, want)
				}
			}
		}
	}
	sumsAgree(t, m, api)
}

// showsFields wants every field of a view in its page's list of all fields, with the value that the JSON has.
func showsFields(t *testing.T, page string, view any) {
	t.Helper()
	v := reflect.ValueOf(view)
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "executors" && v.Field(i).Kind() == reflect.Slice {
			continue // a table of its own
		}
		data, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`<dt>` + name + `</dt><dd>(.*?)</dd>`).FindStringSubmatch(page)
		if m == nil {
			t.Errorf("the page lacks the field %s", name)
			continue
		}
		shown := html.UnescapeString(m[1])
		var text string
		if json.Unmarshal(data, &text) == nil {
			data = []byte(text)
		}
		if len(data) > 0 && shown != string(data) {
			t.Errorf("the page shows %q for %s, the JSON %q", shown, name, data)
		}
	}
}

// sumsAgree compares metrics with the view.
func sumsAgree(t *testing.T, m *node, v hearthmodel.ClusterView) {
	t.Helper()
	metrics := m.page(t, "/metrics")
	cores, used, memory := 0, 0, int64(0)
	states := make(map[hearthmodel.WorkerState]int)
	for _, w := range v.Workers {
		cores, used, memory = cores+w.Cores, used+w.CoresUsed, memory+w.MemoryMiB
		states[w.State]++
	}
	want := []string{
		fmt.Sprintf("hearth_cores %d\n", cores), fmt.Sprintf("hearth_cores_used %d\n", used), fmt.Sprintf("hearth_memory_bytes %s\n", float(memory<<20)),
		fmt.Sprintf("hearth_apps{state=\"RUNNING\"} %d\n", len(v.Apps)), "hearth_executors{state=\"RUNNING\"} 2\n", "hearth_apps{state=\"FINISHED\"} 1\n",
	}
	for _, state := range hearthmodel.WorkerStates() {
		want = append(want, fmt.Sprintf("hearth_workers{state=%q} %d\n", state, states[state]))
	}
	for _, x := range v.Masters {
		want = append(want, fmt.Sprintf("hearth_peer_voter{master=%q} 1\n", x.ID))
	}
	for _, line := range want {
		if !strings.Contains(metrics, line) {
			t.Errorf("metrics lack %q", line)
		}
	}
}

// float writes a number as Prometheus does.
func float(n int64) string { return fmt.Sprintf("%g", float64(n)) }

// Docs and daemons name the same metrics, with the same types.
func TestEveryDocumentedMetricIsExportedByARealDaemon(t *testing.T) {
	c := newCluster(t, size{masters: 3, workers: 1})
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2]
	}
	check := func(n *node, worker bool) {
		have := n.exported(t)
		for name, kind := range have {
			if strings.HasPrefix(name, "hearth_") && documented[name] != kind {
				t.Errorf("%s exports %s as %s; the docs have %q", n.name, name, kind, documented[name])
			}
		}
		both := regexp.MustCompile(`^hearth_(build|rpc|tls)_`)
		for name := range documented {
			if own := strings.HasPrefix(name, "hearth_worker_"); (own == worker || both.MatchString(name)) && have[name] == "" {
				t.Errorf("%s does not export %s", n.name, name)
			}
		}
		for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "process_cpu_seconds_total"} {
			if have[name] == "" {
				t.Errorf("%s does not export %s", n.name, name)
			}
		}
	}
	for _, m := range c.masters {
		check(m, false)
	}
	check(c.workers[0], true)
}

// SE-08: prefetchers and crawlers follow every link, on every daemon.
func TestSE08ACrawlerThatGetsEveryLinkChangesNothing(t *testing.T) {
	c := newCluster(t, size{masters: 3, workers: 2})
	app := c.run(t, "submit", "--name", "target", "--executors", "2", "--memory", "64m", "--", "sleep", "600").wantCode(t, 0).app(t)
	eventually(t, settleWithin, "the executors run", func() string {
		var v hearthmodel.AppView
		c.run(t, "app", string(app), "-o", "json").wantCode(t, 0).decode(t, &v)
		if v.Running != 2 {
			return fmt.Sprintf("%d run", v.Running)
		}
		return ""
	})
	hash := func() string {
		v, err := c.leader(t).view()
		if err != nil {
			t.Fatal(err)
		}
		return v.StateHash
	}
	before, seen := hash(), 0
	links := regexp.MustCompile(`(?:href|src|action|data-follow)="(/[^"]*|\?[^"]*)"`)
	for _, n := range c.nodes() {
		visited, todo := map[string]bool{}, []string{"/"}
		for len(todo) > 0 && len(visited) < 300 {
			path := todo[0]
			todo = todo[1:]
			if visited[path] {
				continue
			}
			visited[path] = true
			status, body := n.fetch(t, path)
			if status >= 500 && status != http.StatusServiceUnavailable {
				t.Errorf("%s: GET %s: status %d", n.name, path, status)
			}
			for _, m := range links.FindAllStringSubmatch(body, -1) {
				next := html.UnescapeString(m[1])
				if base, _, _ := strings.Cut(path, "?"); strings.HasPrefix(next, "?") {
					next = base + next
				}
				todo = append(todo, next)
			}
		}
		seen += len(visited)
	}
	if after := hash(); after != before {
		t.Errorf("the state changed from %s to %s under a crawler", before, after)
	}
	if seen < 40 {
		t.Errorf("the crawler found %d pages only", seen)
	}
	t.Logf("%d pages of %d daemons", seen, len(c.nodes()))
}

// Output is shown through any master, and the worker's own page has it too.
func TestThePagesShowOutputThroughAnyMaster(t *testing.T) {
	c := newCluster(t, size{masters: 3, workers: 1})
	app := c.run(t, "submit", "--executors", "1", "--memory", "64m", "--", "sh", "-c", "echo '<b>out</b>'; echo err >&2; sleep 600").wantCode(t, 0).app(t)
	for _, m := range c.masters {
		eventually(t, settleWithin, "the page has the output", func() string {
			status, body := m.fetch(t, fmt.Sprintf("/logs/%s/0/stdout", app))
			if status != http.StatusOK || !strings.Contains(body, "&lt;b&gt;out&lt;/b&gt;") {
				return fmt.Sprintf("status %d: %s", status, clip(body))
			}
			return ""
		})
		if status, body := m.fetch(t, fmt.Sprintf("/logs/%s/0/stderr/raw", app)); status != http.StatusOK || !strings.HasSuffix(body, "err\n") {
			t.Errorf("%s: stderr: status %d: %q", m.name, status, clip(body))
		}
	}
	eventually(t, settleWithin, "the worker's own page shows it", func() string {
		page := c.workers[0].page(t, "/")
		for _, want := range []string{c.workers[0].ID, string(app) + "/0", "RUNNING", "with the leader at"} {
			if !strings.Contains(page, want) {
				return fmt.Sprintf("it lacks %q", want)
			}
		}
		return ""
	})
}

// Each line that a daemon writes with log.format = json is one object, from its start to its end, faults included.
func TestEveryLineOfADaemonWithAJSONLogIsAnObject(t *testing.T) {
	dir := t.TempDir()
	master := startHearth(t, nil, "", "master", "--data-dir", dir+"/m", "--log-format", "json", "--log-level", "trace",
		"--grpc-port", "0", "--raft-port", "0", "--serf-port", "0", "--http-port", "0")
	var where struct {
		GRPC string `json:"grpc"`
	}
	eventually(t, settleWithin, "the master is ready", func() string {
		data, err := os.ReadFile(dir + "/m/ready.json")
		if err != nil {
			return err.Error()
		}
		if err := json.Unmarshal(data, &where); err != nil {
			return err.Error()
		}
		return ""
	})
	hearth(t, "submit", "--masters", where.GRPC, "--detach", "--executors", "1", "--", "true").wantCode(t, 0)
	clash := startHearth(t, nil, "", "master", "--data-dir", dir+"/m", "--log-format", "json").wait(t)
	if err := master.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, out := range []string{master.wait(t).stderr, clash.stderr} {
		for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil || v["@level"] == nil || v["@message"] == nil {
				t.Errorf("not an entry: %s", clip(line))
			}
			lines++
		}
	}
	if clash.code == 0 || lines < 20 {
		t.Errorf("code %d, %d lines", clash.code, lines)
	}
	t.Logf("%d lines", lines)
}
