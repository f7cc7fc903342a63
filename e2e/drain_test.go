//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// awaitWorkerState waits until the cluster says that a worker is in a state.
func (c *cluster) awaitWorkerState(t testing.TB, id string, want model.WorkerState) model.WorkerView {
	t.Helper()
	var w model.WorkerView
	eventually(t, settleWithin, fmt.Sprintf("worker %s is %s", id, want), func() string {
		var ok bool
		if w, ok = worker(c.status(t), id); !ok || w.State != want {
			return string(w.State)
		}
		return ""
	})
	return w
}

// UX-08 on real processes: a worker is drained while it is busy, stopped, started
// with resources that a script finds and with labels, and put into service again.
func TestUX08ABusyWorkerIsDrainedReplacedBeforeLossAndPutIntoServiceAgain(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2, cores: 4})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 4)
	w, other := c.workers[0], c.workers[1]
	if len(on(v, w.ID)) == 0 {
		t.Fatalf("nothing runs on %s", w.ID)
	}
	cmd := c.start(t, "drain", w.ID, "--reason", "new memory", "--wait", "--timeout", "60s")
	eventually(t, settleWithin, "all four executors run on the other worker", func() string {
		v = c.describe(t, app)
		alive := 0
		for _, e := range v.Executors {
			if e.State == model.ExecutorRunning || e.State == model.ExecutorDecommissioning {
				alive++
			}
		}
		if alive < 4 {
			t.Fatalf("%d executors are left of 4: one was lost before it was replaced", alive)
		}
		if n := len(on(v, other.ID)); n != 4 || len(running(v)) != 4 {
			return fmt.Sprintf("%d are there, %d run", n, len(running(v)))
		}
		return ""
	})
	r := cmd.wait(t).wantCode(t, 0)
	if !strings.Contains(r.stdout, "DRAINED") || !strings.Contains(r.stdout, "new memory") {
		t.Errorf("drain --wait says:\n%s", r.stdout)
	}
	if v.Failures != 0 {
		t.Errorf("%d failures are counted", v.Failures)
	}

	// It stays out of service when it is started again, with another offer.
	w.proc.signal(t, syscall.SIGTERM)
	w.proc.awaitEnd(t, 20*time.Second)
	script := filepath.Join(t.TempDir(), "gpus")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho '{\"name\": \"gpu\", \"addresses\": [\"0\", \"1\"]}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.workerArgs = []string{"--discovery", "gpu=" + script, "--label", "disk=ssd"}
	w = c.restart(t, w)
	if x := c.awaitWorkerState(t, w.ID, model.WorkerDrained); x.CoresFree != 0 || len(x.Resources["gpu"]) != 2 || x.Labels["disk"] != "ssd" || x.Drain == nil || x.Drain.Reason != "new memory" {
		t.Errorf("the worker came back as %+v", x)
	}
	c.run(t, "undrain", w.ID).wantCode(t, 0)
	if x := c.awaitWorkerState(t, w.ID, model.WorkerAlive); x.CoresFree != 4 {
		t.Errorf("%d cores can be placed on, want 4", x.CoresFree)
	}

	// What needs the script's resource or the label goes there.
	gpu := c.run(t, "submit", "--executors", "2", "--resource", "gpu=1", "--", "sh", "-c", `cat "$HEARTH_RESOURCES_FILE"; sleep 600`).wantCode(t, 0).app(t)
	v = c.awaitRunning(t, gpu, 2)
	given := map[string]bool{}
	for _, e := range on(v, w.ID) {
		for _, a := range e.Resources["gpu"] {
			given[a] = true
		}
	}
	if !given["0"] || !given["1"] {
		t.Errorf("addresses %v were given on %s, want both", given, w.ID)
	}
	eventually(t, settleWithin, "the process has its resources file", func() string {
		out := c.run(t, "logs", "--stdout", string(gpu)+"/0").wantCode(t, 0).stdout
		if want := `[{"id":{"componentName":"spark.executor","resourceName":"gpu"},"addresses":["0"]}]`; !strings.Contains(out, want) {
			return out
		}
		return ""
	})
	ssd := c.run(t, "submit", "--require", "disk=ssd", "--", "sleep", "600").wantCode(t, 0).app(t)
	if v = c.awaitRunning(t, ssd, 1); len(on(v, w.ID)) != 1 {
		t.Errorf("what requires the label runs elsewhere: %+v", v.Executors)
	}
	none := c.run(t, "submit", "--require", "disk=hdd", "--detach", "--", "sleep", "600").wantCode(t, 0).app(t)

	// The worker takes itself out of service; with a deadline what cannot move ends.
	c.control(t, w, "decommission", "--deadline", "3s", "--reason", "power").wantCode(t, 0)
	x := c.awaitWorkerState(t, w.ID, model.WorkerDrained)
	if x.Drain == nil || x.Drain.Reason != "power" || x.Drain.By != w.ID {
		t.Errorf("drain %+v, want one of its own", x.Drain)
	}
	if v = c.describe(t, gpu); len(running(v)) != 0 || v.Failures != 0 {
		t.Errorf("%d run and %d failures are counted; want none", len(running(v)), v.Failures)
	}
	if v = c.describe(t, none); v.State != model.AppWaiting {
		t.Errorf("what requires a label that no worker has is %s", v.State)
	}
	for _, id := range []model.AppID{app, gpu, ssd, none} {
		c.run(t, "kill", string(id)).wantCode(t, 0)
	}
}
