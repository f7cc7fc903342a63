//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// PR-23: where too few files may be open a daemon does not start, and says what to do.
func TestPR23ADaemonDoesNotStartWithTooFewOpenFiles(t *testing.T) {
	for _, verb := range []string{"master", "worker"} {
		line := fmt.Sprintf("ulimit -n 4000 && exec %q %s --data-dir %q", hearthBinary, verb, t.TempDir())
		startIn(t, t.TempDir(), "sh", "-c", line).wait(t).wantCode(t, 2).wantStderr(t, "4000 open files", "ulimit -n 4096")
	}
}

// UX-04: with the address of one master, any of them, everything works over its one port, and the answers name the leader.
func TestUX04AnyMasterServesEveryVerbOverOnePort(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	leader := c.leader(t)
	for _, m := range c.masters {
		app := c.via(t, m, "submit", "--", "sh", "-c", "echo through; sleep 600").wantCode(t, 0).app(t)
		c.awaitRunning(t, app, 1)
		var status model.ClusterView
		c.via(t, m, "status", "-o", "json").wantCode(t, 0).decode(t, &status)
		if got := string(status.Staleness.Leader); got != leader.ID {
			t.Errorf("%s says that %q leads, want %s", m.name, got, leader.ID)
		}
		for _, args := range [][]string{{"app", string(app)}, {"apps"}, {"workers"}, {"logs", string(app) + "/0"}, {"kill", string(app)}} {
			c.via(t, m, args...).wantCode(t, 0)
		}
		c.via(t, m, "wait", string(app)).wantCode(t, 130)
	}
}

// UX-01: the code comes within two seconds after the end of the work, and nothing that waits is called complete.
func TestUX01SubmitReturnsTheCodeOfTheWorkSoonAfterItsEnd(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1, cores: 4})
	for code, script := range map[int]string{0: "exit 0", 3: "exit 3"} {
		ended := filepath.Join(t.TempDir(), "ended")
		r := c.run(t, "submit", "--wait", "--restart", "never", "--", "sh", "-c", "sleep 1; touch "+ended+"; "+script).wantCode(t, code)
		info, err := os.Stat(ended)
		if err != nil {
			t.Fatal(err)
		}
		if late := time.Since(info.ModTime()); late > 2*time.Second {
			t.Errorf("code %d came %s after the end of the work, want at most 2 s", code, late)
		}
		if strings.Contains(r.stderr, "complete") {
			t.Errorf("stderr speaks of completion: %s", r.stderr)
		}
	}
	big := c.run(t, "submit", "--detach", "--cores", "64", "--", "true").wantCode(t, 0).app(t)
	if v := c.describe(t, big); v.State != model.AppWaiting {
		t.Errorf("what cannot be placed is %s, want WAITING", v.State)
	}
	c.run(t, "submit", "--wait", "--timeout", "1s", "--cores", "64", "--", "true").wantCode(t, 124)
	c.run(t, "kill", string(big)).wantCode(t, 0)
}

// UX-07: with no worker at all submit says why it waits within three seconds and again, with the time, after ten more, and
// gives up when it was told to.
func TestUX07SubmitSaysWhyItWaitsAndForHowLong(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1, cores: 1})
	c.workers[0].stop(t)
	defer c.workers[0].cont(t)
	c.awaitWorker(t, c.workers[0], model.WorkerDead)
	r := c.run(t, "submit", "--timeout", "14s", "--", "true").wantCode(t, 124)
	if r.took > 16*time.Second {
		t.Errorf("submit gave up after %s, want 14 s", r.took)
	}
	r.wantStderr(t, "WAITING for 2s", "WAITING for 12s")
}

// PR-19: what stopping means is said in one line, and is what happens.
func TestPR19StopAndKeepSayInOneLineWhatTheyDoToExecutors(t *testing.T) {
	for verb, says := range map[string]string{"stop": "executors", "restart": "executors"} {
		out := hearth(t, "worker", verb, "--help").wantCode(t, 0).stdout
		found := false
		for line := range strings.Lines(out) {
			found = found || strings.Contains(line, says)
		}
		if !found {
			t.Errorf("worker %s --help does not say what becomes of executors:\n%s", verb, out)
		}
	}
	out := hearth(t, "worker", "stop", "--help").wantCode(t, 0).stdout
	keep := ""
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--keep") && !strings.Contains(line, "hearth worker") {
			keep = line
		}
	}
	if !strings.Contains(keep, "executors") {
		t.Errorf("--keep does not say that executors run on: %q", keep)
	}
}
