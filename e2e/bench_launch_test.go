//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/bench"
)

// TestBenchLaunchStartsExecutorsThatRegister runs every step of the benchmark
// with few executors: what it measures here says nothing, that it works does.
func TestBenchLaunchStartsExecutorsThatRegister(t *testing.T) {
	noop := filepath.Join(t.TempDir(), "noop")
	build := exec.Command("go", "-C", "../bench/peers", "build", "-o", noop, "./noop")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the executor: %v\n%s", err, out)
	}
	cmd := exec.Command(hearthBinary, "bench", "launch", "-o", "json", "--noop", noop, "--dir", t.TempDir(), "--pairs", "1", "--executors", "20", "--single", "2")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v:\n%s", err, stderr.String())
	}
	var r bench.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	measured := map[string]bool{}
	for _, f := range r.Figures {
		measured[f.Name] = f.Median > 0
	}
	for _, name := range []string{
		"B4 submitted to registered, p50", "B4 executors registered", "spawn probe: os/exec start and wait",
		"register probe: os/exec start until registered, without Hearth",
	} {
		if !measured[name] {
			t.Errorf("no figure of %q in:\n%s", name, out)
		}
	}
}
