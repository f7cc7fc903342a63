//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// ownDriver is a driver in the test's own process with one executor.
type ownDriver struct {
	*driver.Driver
	events chan driver.Event
}

func (c *cluster) ownDriver(t *testing.T, name string) *ownDriver {
	t.Helper()
	d := &ownDriver{events: make(chan driver.Event, 1024)}
	var err error
	d.Driver, err = driver.New(driver.Config{
		Client:   c.client,
		Spec:     model.AppSpec{Name: name, CoresMax: 1, Executors: 1, Profile: model.Profile{Cores: 1, MemoryMiB: 256}},
		Observer: func(e driver.Event) { d.events <- e },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return d
}

// next waits for an event of a kind.
func (d *ownDriver) next(t *testing.T, kind driver.EventKind, within time.Duration) driver.Event {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		select {
		case e := <-d.events:
			if e.Kind == kind {
				return e
			}
		case <-deadline.C:
			t.Fatalf("no event %s within %s", kind, within)
		}
	}
}

// PR-03: the worker's beats are blocked, because its agent stands still, while
// the link between executor and driver works.
func TestPR03AnExecutorWhoseWorkerIsCalledDeadIsStoppedAndRefusedLater(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1})
	d := c.ownDriver(t, "link")
	ready := d.next(t, driver.EventExecutorReady, settleWithin)
	v := c.awaitRunning(t, d.App(), 1)
	process := openProc(t, running(v)[0].PID)
	env, secret := belongings(t, process.pid, t.TempDir())

	w := c.workers[0]
	w.stop(t)
	eventually(t, settleWithin, "the leader calls the worker dead", func() string {
		if now, _ := worker(c.status(t), w.ID); now.State != model.WorkerDead {
			return "it is " + string(now.State)
		}
		return ""
	})
	dead := time.Now()
	if e := d.next(t, driver.EventExecutorEnded, 5*time.Second); e.Executor != ready.Executor {
		t.Errorf("executor %d has ended, want %d", e.Executor, ready.Executor)
	}
	process.awaitEnd(t, 15*time.Second-time.Since(dead))
	t.Logf("its process was gone %s after the leader called the worker dead", time.Since(dead).Round(time.Millisecond))

	late := exec.Command(hearthBinary, "executor")
	late.Env, late.Dir = append(env, "HEARTH_SECRET_FILE="+secret), t.TempDir()
	var stderr bytes.Buffer
	late.Stderr = &stderr
	if err := late.Run(); err == nil || !strings.Contains(stderr.String(), "not wanted") {
		t.Errorf("a late registration of the same executor: %v:\n%s", err, &stderr)
	}
	w.cont(t)
}

// belongings copies the environment and the secret of an executor's process.
func belongings(t *testing.T, pid int, dir string) (env []string, secret string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	for kv := range strings.SplitSeq(strings.TrimRight(string(text), "\x00"), "\x00") {
		if path, ok := strings.CutPrefix(kv, "HEARTH_SECRET_FILE="); ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			secret = filepath.Join(dir, "secret")
			if err := os.WriteFile(secret, data, 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		env = append(env, kv)
	}
	return env, secret
}

// PR-05: the worker is well and says that the process lives; only the driver
// hears nothing of it.
func TestPR05AnExecutorThatStandsStillIsSuspectAndNotReplaced(t *testing.T) {
	skipLong(t)
	const still = 20 * time.Second
	c := newCluster(t, size{workers: 2})
	d := c.ownDriver(t, "pause")
	d.next(t, driver.EventExecutorReady, settleWithin)
	process := openProc(t, running(c.awaitRunning(t, d.App(), 1))[0].PID)
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin+still)
	defer cancel()
	process.signal(t, syscall.SIGSTOP)
	resume := time.NewTimer(still)
	defer resume.Stop()
	if _, err := d.Submit(ctx, driver.Task{Argv: []string{"echo", "done"}}); err != nil {
		t.Fatal(err)
	}
	d.next(t, driver.EventExecutorSuspect, still)
	if got := d.Executors(ctx); len(got) != 1 || got[0].State != driver.ExecutorSuspect {
		t.Errorf("executors %+v, want one that is suspect", got)
	}
	<-resume.C
	process.signal(t, syscall.SIGCONT)
	d.next(t, driver.EventExecutorBack, settleWithin)
	select {
	case r := <-d.Results():
		if r.Outcome != model.TaskDone || r.Reruns != 0 {
			t.Errorf("result %+v, want the task done at its first attempt", r)
		}
	case <-ctx.Done():
		t.Fatal("the task has no result")
	}
	v := c.describe(t, d.App())
	if len(v.Executors) != 1 || !process.alive() {
		t.Errorf("the application has had %d executors, want the one: %+v", len(v.Executors), v.Executors)
	}
}
