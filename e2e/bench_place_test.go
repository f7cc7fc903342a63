//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/hearthd/hearth/bench"
)

// TestBenchPlaceRunsWithoutItsPeers runs every step of the benchmark with few
// placements: what it measures here says nothing, that it works does.
func TestBenchPlaceRunsWithoutItsPeers(t *testing.T) {
	cmd := exec.Command(hearthBinary, "bench", "place", "-o", "json", "--dir", t.TempDir(), "--pairs", "1", "--single", "3", "--saturated", "130", "--check")
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Fatalf("a run without peers that is checked ended with code %d, %v:\n%s", code, err, stderr.String())
	}
	var r bench.Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	measured := map[string]bool{}
	for _, f := range r.Figures {
		measured[f.Name] = f.Median > 0
	}
	for _, name := range []string{"B1 acknowledged, p50", "B1 placed and ordered at its worker, p50", "B2 1 executor each", "B2 64 apps x 64"} {
		if !measured[name] {
			t.Errorf("no figure of %q in:\n%s", name, out)
		}
	}
	missing := 0
	for _, c := range r.Claims {
		if strings.HasPrefix(c.Missing, "peer missing") && !c.Met {
			missing++
		}
	}
	if missing == 0 {
		t.Errorf("no claim fails for want of its peer:\n%s", out)
	}
}

func TestBenchPlaceRefusesAFileSystemInMemory(t *testing.T) {
	out, err := exec.Command(hearthBinary, "bench", "place", "--dir", "/dev/shm").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--dir") {
		t.Errorf("got %v:\n%s", err, out)
	}
}
