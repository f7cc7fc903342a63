//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// driver describes a driver in cluster mode.
func (c *cluster) driver(t testing.TB, id string) model.DriverView {
	t.Helper()
	var v model.DriverView
	c.run(t, "driver", "status", id, "-o", "json").wantCode(t, 0).decode(t, &v)
	return v
}

// runs waits until a driver's attempt runs, and returns it.
func (c *cluster) runs(t testing.TB, id string, attempt int) model.ExecutorView {
	t.Helper()
	var found model.ExecutorView
	eventually(t, settleWithin, fmt.Sprintf("attempt %d of %s runs", attempt, id), func() string {
		v := c.driver(t, id)
		for _, e := range v.Attempts {
			if int(e.ID) == attempt && e.State == model.ExecutorRunning {
				found = e
				return ""
			}
		}
		return fmt.Sprintf("it is %s with attempt %d (%s)", v.State, v.Attempt, v.Reason)
	})
	return found
}

// Cluster mode: any program, with the exit code of its work.
func TestDriversInClusterModeExitWithTheCodeOfTheirWork(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1, cores: 4})
	job := filepath.Join(t.TempDir(), "job.py")
	if err := os.WriteFile(job, []byte("import os, sys\nprint(os.environ['HEARTH_DRIVER_ID'], 'HEARTH_APP_ID' in os.environ)\nsys.exit(5)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wait := func(args ...string) []string {
		return append([]string{"driver", "submit", "--wait", "--memory", "64m"}, args...)
	}
	t.Run("a shell's code is passed on", func(t *testing.T) {
		c.run(t, wait("--", "sh", "-c", "exit 3")...).wantCode(t, 3)
	})
	t.Run("a signal is 128 and its number", func(t *testing.T) {
		c.run(t, wait("--", "sh", "-c", "kill -9 $$")...).wantCode(t, 137)
	})
	t.Run("not placed in time is 124", func(t *testing.T) {
		c.run(t, wait("--cores", "64", "--timeout", "1s", "--", "true")...).wantCode(t, 124)
	})
	t.Run("Python", func(t *testing.T) {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("no python3 here")
		}
		r := c.run(t, wait("--file", job, "--", "python3", "job.py")...).wantCode(t, 5)
		id := strings.TrimSpace(r.stdout)
		if got := c.run(t, "driver", "logs", "--stdout", id).wantCode(t, 0).stdout; got != id+" False\n" {
			t.Errorf("it wrote %q", got)
		}
	})
	t.Run("a Go program that comes as an artifact submits work of its own", func(t *testing.T) {
		r := c.run(t, wait("--artifact", "file://"+hearthBinary+"#name=hearth", "--", "./hearth", "run", "--", "echo", "task {}", ":::", "1", "2")...).wantCode(t, 0)
		out := c.run(t, "logs", "--stdout", strings.TrimSpace(r.stdout)).wantCode(t, 0).stdout
		if !strings.Contains(out, "task 1\n") || !strings.Contains(out, "task 2\n") {
			t.Errorf("its work wrote %q", out)
		}
	})
}

// HA-30: a driver that was submitted through a standby knows all masters. When the leader and then the driver are killed,
// the next attempt is launched by the new leader and knows them too. When the worker is killed, it is launched elsewhere.
func TestHA30ADriverIsLaunchedAgainAfterTheLeaderItselfAndItsWorkerAreKilled(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{masters: 3, workers: 2, cores: 2})
	leader := c.leader(t)
	standby := c.masters[0]
	if standby == leader {
		standby = c.masters[1]
	}
	r := c.via(t, standby, "driver", "submit", "--supervise", "--memory", "64m", "--", "sh", "-c", "echo $HEARTH_MASTERS; sleep 600").wantCode(t, 0)
	id := strings.TrimSpace(r.stdout)
	first := c.runs(t, id, 1)
	leader.proc.kill9(t)
	if v := c.runs(t, id, 1); v.PID != first.PID {
		t.Errorf("the first attempt has pid %d, had %d", v.PID, first.PID)
	}
	if err := exec.Command("kill", "-9", fmt.Sprint(first.PID)).Run(); err != nil {
		t.Fatal(err)
	}
	second := c.runs(t, id, 2)
	if out := c.run(t, "driver", "logs", "--stdout", id).wantCode(t, 0).stdout; strings.Count(out, ",") != 2 {
		t.Errorf("it knows the masters %q", out)
	}
	for _, w := range c.workers {
		if model.WorkerID(w.ID) == second.Worker {
			w.proc.kill9(t)
		}
	}
	if third := c.runs(t, id, 3); third.Worker == second.Worker {
		t.Errorf("the third attempt is on %s, whose process was killed", third.Worker)
	}
	c.run(t, "driver", "kill", id).wantCode(t, 0)
	c.run(t, "driver", "wait", id).wantCode(t, 130)
}
