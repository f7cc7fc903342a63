//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// churnVariable makes the churn as long as the field report's: 72 hours at a thousand executors each.
const churnVariable = "HEARTH_E2E_CHURN_FULL"

const (
	churnUsual   = 1000
	churnWhole   = 72 * 1000
	churnAtOnce  = 50
	churnSettles = 90 * time.Second
)

// held is what the daemons of a cluster hold, by a name for the process and the thing.
func (c *cluster) held(t testing.TB) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for _, p := range scan(c.markers) {
		if p.app != "" { // an executor
			continue
		}
		list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.pid), "fd"))
		if err != nil {
			t.Fatalf("count the open files of %s: %v", p, err)
		}
		out[fmt.Sprintf("open files of process %d", p.pid)] = len(list)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for _, n := range c.nodes() {
		families, err := parser.TextToMetricFamilies(strings.NewReader(n.page(t, "/metrics")))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families["go_goroutines"].GetMetric() {
			out["goroutines of "+n.name] = int(m.GetGauge().GetValue())
		}
	}
	return out
}

// churn runs a number of executors of a program that ends at once, each in a process of its own.
func (c *cluster) churn(t testing.TB, n int) {
	t.Helper()
	c.run(t, "submit", "--wait", "--executors", strconv.Itoa(churnAtOnce), "--completions", strconv.Itoa(n), "--memory", "16m", "--", "true").wantCode(t, 0)
}

// TestPR23ExecutorsThatComeAndGoLeaveNoOpenFileAndNoGoroutine: after the churn masters, workers and keepers hold what they
// held before, 5 % or two more or less.
func TestPR23ExecutorsThatComeAndGoLeaveNoOpenFileAndNoGoroutine(t *testing.T) {
	skipLong(t)
	executors := churnUsual
	if os.Getenv(churnVariable) != "" {
		executors = churnWhole
	}
	c := newCluster(t, size{workers: 2, cores: churnAtOnce})
	c.churn(t, 2*churnAtOnce) // what is opened once is open now
	before := c.held(t)
	if len(before) < 2*len(c.nodes()) {
		t.Fatalf("too little is seen of the daemons: %v", before)
	}
	for left := executors; left > 0; left -= 1000 {
		c.churn(t, min(left, 1000))
	}
	took := eventually(t, churnSettles, "daemons hold what they held before", func() string {
		after := c.held(t)
		var wrong []string
		for what, n := range before {
			if slack := max(2, n/20); after[what] < n-slack || after[what] > n+slack {
				wrong = append(wrong, fmt.Sprintf("%s: %d, were %d", what, after[what], n))
			}
		}
		for what, n := range after {
			if _, known := before[what]; !known {
				wrong = append(wrong, fmt.Sprintf("%s: %d, was not there", what, n))
			}
		}
		return strings.Join(wrong, "; ")
	})
	t.Logf("after %d executors and %s daemons held %v, before %v", executors, took.Round(time.Millisecond), c.held(t), before)
}
