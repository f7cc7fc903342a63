//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// control runs a command of `hearth worker` on the data directory of one of the
// cluster's workers.
func (c *cluster) control(t testing.TB, w *node, verb string, more ...string) result {
	t.Helper()
	args := append([]string{"worker", verb, "--data-dir", c.dataDir(w)}, more...)
	return startBinary(t, c.binary, nil, "", args...).wait(t)
}

// workerStatus is what `hearth worker status -o json` says.
type workerStatus struct {
	ID          string `json:"id"`
	Incarnation uint64 `json:"incarnation"`
	Cluster     string `json:"cluster_id"`
	Foreign     string `json:"foreign_cluster_id"`
	Process     struct {
		PID int `json:"pid"`
	} `json:"process"`
	Heritage struct {
		Adopted int `json:"adopted"`
		Ended   int `json:"ended_while_away"`
	} `json:"heritage"`
}

func (c *cluster) workerStatus(t testing.TB, w *node, code int) (s workerStatus) {
	t.Helper()
	c.control(t, w, "status", "-o", "json").wantCode(t, code).decode(t, &s)
	return s
}

// copyBinary makes a binary of the cluster's own, which a test may replace.
func copyBinary(t *testing.T, to string) {
	t.Helper()
	in, err := os.Open(hearthBinary)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// PR-06: a worker that is killed takes everything along; one that is restarted
// by plan takes nothing. One of the processes is a driver.
func TestPR06ChildrenEndWithAKilledWorkerAndOutliveARestartedOne(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "hearth")
	copyBinary(t, binary)
	c := newClusterOf(t, binary, size{workers: 1, cores: 8})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	driver := c.run(t, slices.Concat([]string{"submit", "--name", "driver"}, c.access.passOn(), []string{"--", binary, "run", "sleep 600", ":::", "1"})...).wantCode(t, 0).app(t)
	c.awaitRunning(t, app, 4)
	c.awaitRunning(t, driver, 1)
	w := c.workers[0]
	eventually(t, settleWithin, "the driver's own executor runs", func() string {
		for _, a := range c.status(t).Apps {
			if a.ID != app && a.ID != driver && a.Running == 1 {
				return ""
			}
		}
		return "it does not"
	})
	c.sameState(t)
	before := c.status(t)
	processes := func() map[int]string {
		out := map[int]string{}
		for _, p := range processesOf(w.ID) {
			out[p.pid] = p.cmdline
		}
		return out
	}
	was, had := c.workerStatus(t, w, 0), processes()

	copyBinary(t, binary) // another version at the same path
	r := c.control(t, w, "restart").wantCode(t, 0)
	t.Logf("restarted in %s: %s", r.took.Round(time.Millisecond), strings.TrimSpace(r.stdout))
	now := c.workerStatus(t, w, 0)
	if now.Incarnation != was.Incarnation+1 || now.Process.PID != was.Process.PID || now.Heritage.Adopted != 6 || now.Heritage.Ended != 0 {
		t.Errorf("the worker is %+v, was %+v", now, was)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", now.Process.PID)); err != nil || exe != binary {
		t.Errorf("process %d runs %q, %v; want the new file at %s", now.Process.PID, exe, err, binary)
	}
	if diff := cmp.Diff(had, processes()); diff != "" {
		t.Errorf("its processes have changed (-before +after):\n%s", diff)
	}
	after := c.status(t)
	for i, a := range after.Apps {
		if a.ID != before.Apps[i].ID || a.State != before.Apps[i].State || a.Live != before.Apps[i].Live || a.Failures != 0 {
			t.Errorf("application %+v, was %+v", a, before.Apps[i])
		}
	}

	w.proc.kill9(t)
	took := eventually(t, 5*time.Second, "the killed worker's processes are gone", func() string { return list(processesOf(w.ID)) })
	t.Logf("the killed worker's processes were gone after %s", took.Round(time.Millisecond))
	c.restart(t, w)
}

// PR-10: stopping an application that ran before the worker was restarted ends
// its processes, and none is called KILLED while it lives.
func TestPR10KillingReachesExecutorsOfBeforeTheRestart(t *testing.T) {
	skipLong(t)
	for name, restart := range map[string]func(t *testing.T, c *cluster, w *node) *node{
		"restart": func(t *testing.T, c *cluster, w *node) *node {
			c.control(t, w, "restart").wantCode(t, 0)
			return w
		},
		"stop --keep and start": func(t *testing.T, c *cluster, w *node) *node {
			c.control(t, w, "stop", "--keep").wantCode(t, 0)
			w.proc.awaitEnd(t, goneWithin)
			return c.restart(t, w)
		},
		"restart, killed while it hands over": func(t *testing.T, c *cluster, w *node) *node {
			cmd := startBinary(t, c.binary, nil, "", "worker", "restart", "--data-dir", c.dataDir(w))
			eventually(t, settleWithin, "the worker is RESTARTING", func() string {
				if v, _ := worker(c.status(t), w.ID); v.State == model.WorkerAlive && v.Incarnation == 1 {
					return "it is ALIVE"
				}
				return ""
			})
			w.proc.kill9(t)
			back := c.restart(t, w)
			cmd.wait(t)
			return back
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, size{workers: 1, cores: 20})
			var apps []model.AppID
			pids := map[string]int{}
			for range 2 {
				app := c.run(t, "submit", "--executors", "10", "--memory", "64m", "--", "sh", "-c", "setsid sleep 600 & wait").wantCode(t, 0).app(t)
				apps = append(apps, app)
			}
			for _, app := range apps {
				for _, e := range live(c.awaitRunning(t, app, 10)) {
					pids[fmt.Sprint(app, "/", e.ID)] = e.PID
				}
			}
			w := restart(t, c, c.workers[0])
			for _, app := range apps {
				c.run(t, "kill", string(app)).wantCode(t, 0)
			}
			killed := time.Now()
			eventually(t, 15*time.Second, "no process remains", func() string {
				for _, app := range apps {
					for _, e := range c.describe(t, app).Executors {
						pid := pids[fmt.Sprint(app, "/", e.ID)]
						if e.State == model.ExecutorKilled && pid != 0 && !zombie(pid) {
							t.Fatalf("executor %d of %s is KILLED while its process %d lives", e.ID, app, pid)
						}
					}
				}
				return list(processesOf(w.ID))
			})
			t.Logf("all were gone %s after the kill", time.Since(killed).Round(time.Millisecond))
		})
	}
}

// Without a leader the worker cannot tell anybody; it says so and changes
// nothing, unless it is forced.
func TestAWorkerIsNotRestartedWithoutALeaderUnlessForced(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	w := c.workers[0]
	for _, m := range c.masters {
		m.stop(t)
	}
	eventually(t, settleWithin, "the worker has no session", func() string {
		if r := c.control(t, w, "status"); r.code != 3 {
			return r.stdout
		}
		return ""
	})
	c.control(t, w, "restart").wantCode(t, 3).wantStderr(t, "--force")
	if now := c.workerStatus(t, w, 3); now.Incarnation != 1 {
		t.Errorf("a refused restart has changed the worker: %+v", now)
	}
	c.control(t, w, "restart", "--force").wantCode(t, 0)
	now := c.workerStatus(t, w, 3)
	if now.Incarnation != 2 || now.Heritage.Adopted != 2 {
		t.Errorf("after a forced restart the worker is %+v", now)
	}
	for _, m := range c.masters {
		m.cont(t)
	}
	eventually(t, settleWithin, "the worker has a session", func() string {
		if r := c.control(t, w, "status"); r.code != 0 {
			return r.stderr
		}
		return ""
	})
	for id, pid := range before {
		if zombie(pid) {
			t.Errorf("process %d of executor %d is gone", pid, id)
		}
	}
}

// `worker stop` is SIGTERM with a wait. A driver that heeds that with exit code 0 is finished.
func TestWorkerStopReturnsWhenTheWorkerHasLeft(t *testing.T) {
	c := newCluster(t, size{workers: 2})
	polite := strings.TrimSpace(c.run(t, "driver", "submit", "--memory", "64m", "--", "sh", "-c", `trap "exit 0" TERM; echo ready; while sleep 0.1; do :; done`).wantCode(t, 0).stdout)
	eventually(t, settleWithin, "the driver has set its trap", func() string {
		if out := c.run(t, "driver", "logs", "--stdout", polite).stdout; out != "ready\n" {
			return fmt.Sprintf("it wrote %q", out)
		}
		return ""
	})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, app, 4)
	w := c.workers[0]
	if c.driver(t, polite).Worker != model.WorkerID(w.ID) {
		w = c.workers[1]
	}
	c.control(t, w, "stop").wantCode(t, 0)
	if v := c.driver(t, polite); v.State != model.DriverFinished || v.ExitCode != 0 || v.Attempt != 1 {
		t.Errorf("the driver is %s with code %d after attempt %d (%s), want FINISHED, 0 and 1", v.State, v.ExitCode, v.Attempt, v.Reason)
	}
	if w.proc.alive() {
		t.Error("the process is there when the command has returned")
	}
	if left := processesOf(w.ID); len(left) > 0 {
		t.Errorf("processes are left:\n%s", list(left))
	}
	c.awaitWorker(t, w, model.WorkerLeft)
	c.control(t, w, "stop").wantCode(t, 1).wantStderr(t, "no worker runs")
}

// A worker whose successor does not come back is given up with its window, by
// leader and keeper alike.
func TestPR06AWorkerThatDoesNotComeBackIsReplacedAndItsKeeperEndsItsExecutors(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, app, 4)
	w := c.workers[0]
	began := time.Now()
	c.control(t, w, "stop", "--keep", "--window", "10s").wantCode(t, 0)
	c.awaitWorker(t, w, model.WorkerRestarting)
	c.sameState(t)
	steady(t, 6*time.Second, "nothing is held against it", func() string {
		if v, _ := worker(c.status(t), w.ID); v.State != model.WorkerRestarting {
			return string(v.State)
		}
		if n := len(processesOf(w.ID)); n == 0 {
			return "its executors are gone"
		}
		return ""
	})
	eventually(t, settleWithin, "its executors are replaced", func() string {
		if n := len(on(c.describe(t, app), c.workers[1].ID)); n != 4 {
			return fmt.Sprintf("%d of 4 elsewhere", n)
		}
		return ""
	})
	if took := time.Since(began); took < 9*time.Second {
		t.Errorf("they were replaced after %s, the window is 10 s", took)
	}
	eventually(t, settleWithin, "its processes are gone", func() string { return list(processesOf(w.ID)) })
	c.restart(t, w)
}

// SIGTERM while the worker hands over must not be lost.
func TestAWorkerThatIsToldToStopWhileItRestartsStops(t *testing.T) {
	c := newCluster(t, size{workers: 1})
	app := c.run(t, "submit", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, app, 1)
	w := c.workers[0]
	cmd := startBinary(t, c.binary, nil, "", "worker", "restart", "--data-dir", c.dataDir(w), "--window", "5s")
	w.proc.signal(t, syscall.SIGTERM)
	cmd.wait(t)
	w.proc.awaitEnd(t, settleWithin)
	eventually(t, settleWithin, "its processes are gone", func() string { return list(processesOf(w.ID)) })
	c.restart(t, w)
}
