//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// on are the live executors of an application on one worker.
func on(v model.AppView, worker string) []model.ExecutorView {
	var out []model.ExecutorView
	for _, e := range live(v) {
		if string(e.Worker) == worker {
			out = append(out, e)
		}
	}
	return out
}

// processesOf lists everything that a worker has started.
func processesOf(worker string) []found {
	return scan(map[string]bool{"HEARTH_WORKER_ID=" + worker: true})
}

// Design 7: a worker whose ports are refused is dead, and what it ran is
// replaced in the same pass; its keeper leaves nothing behind.
func TestExecutorsOfAKilledWorkerAreReplacedAndNothingOfItIsLeft(t *testing.T) {
	c := newCluster(t, size{workers: 3, cores: 4})
	app := c.run(t, "submit", "--executors", "6", "--", "sh", "-c", "sleep 600 & setsid sleep 600 & wait").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 6)
	victim := c.workers[0]
	lost := on(v, victim.ID)
	if len(lost) == 0 {
		t.Fatalf("nothing runs on %s", victim.ID)
	}
	victim.proc.kill9(t)
	killed := time.Now()
	gone := eventually(t, 15*time.Second, "the dead worker's processes are gone", func() string { return list(processesOf(victim.ID)) })
	t.Logf("the dead worker's processes were gone after %s", gone.Round(time.Millisecond))
	eventually(t, settleWithin, "replacements have processes", func() string {
		v = c.describe(t, app)
		placed := 0
		for _, e := range live(v) {
			if string(e.Worker) != victim.ID && e.PID != 0 {
				placed++
			}
		}
		if placed != 6 {
			return fmt.Sprintf("%d of 6 elsewhere", placed)
		}
		return ""
	})
	t.Logf("%d executors were replaced after %s", len(lost), time.Since(killed).Round(time.Millisecond))
	for _, old := range lost {
		for _, e := range v.Executors {
			if e.ID == old.ID && e.State != model.ExecutorLost {
				t.Errorf("executor %d of the dead worker is %s, want LOST", e.ID, e.State)
			}
		}
	}
	if v.Failures != 0 {
		t.Errorf("%d failures are counted against the application, want none: its worker died", v.Failures)
	}

	w, _ := worker(c.status(t), victim.ID)
	back := c.restart(t, victim)
	if back.ID != victim.ID {
		t.Fatalf("the worker came back as %s, want %s", back.ID, victim.ID)
	}
	eventually(t, settleWithin, "the worker is ALIVE again", func() string {
		now, _ := worker(c.status(t), back.ID)
		if now.State != model.WorkerAlive || now.Incarnation <= w.Incarnation {
			return fmt.Sprintf("it is %s in incarnation %d, was in %d", now.State, now.Incarnation, w.Incarnation)
		}
		return ""
	})
	// It must be able to take work, and only what it was given.
	more := c.run(t, "submit", "--executors", "6", "--", "sleep", "600").wantCode(t, 0).app(t)
	v = c.awaitRunning(t, more, 6)
	if len(on(v, back.ID)) == 0 {
		t.Errorf("the worker that came back got nothing")
	}
	for _, p := range processesOf(back.ID) {
		if p.app == string(app) {
			t.Errorf("an executor of the former incarnation lives: %s", p)
		}
	}
}

// A worker that dies and is back before anybody noticed has lost its executors
// all the same.
func TestAWorkerRestartedAtOnceLosesItsExecutorsButNotItsName(t *testing.T) {
	c := newCluster(t, size{workers: 1, cores: 4})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	victim := c.workers[0]
	victim.proc.kill9(t)
	back := c.restart(t, victim)
	if back.ID != victim.ID {
		t.Fatalf("the worker came back as %s, want %s", back.ID, victim.ID)
	}
	took := eventually(t, settleWithin, "new executors run", func() string {
		v := c.describe(t, app)
		for _, e := range live(v) {
			if _, old := before[e.ID]; old {
				return fmt.Sprintf("executor %d is %s", e.ID, e.State)
			}
		}
		if n := len(running(v)); n != 2 {
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	t.Logf("new executors ran %s after the restart", took.Round(time.Millisecond))
	for id, pid := range before {
		if !zombie(pid) {
			t.Errorf("process %d of executor %d lives", pid, id)
		}
	}
}

// Design 9: SIGTERM to a worker ends its executors and commits LEFT.
func TestAWorkerThatIsToldToStopLeavesAtOnce(t *testing.T) {
	c := newCluster(t, size{workers: 2, cores: 4})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 4)
	leaver := c.workers[0]
	if len(on(v, leaver.ID)) == 0 {
		t.Fatalf("nothing runs on %s", leaver.ID)
	}
	leaver.proc.signal(t, syscall.SIGTERM)
	told := time.Now()
	leaver.proc.awaitEnd(t, 20*time.Second)
	t.Logf("the worker ended %s after SIGTERM", time.Since(told).Round(time.Millisecond))
	if left := processesOf(leaver.ID); len(left) > 0 {
		t.Errorf("it left processes behind:\n%s", list(left))
	}
	eventually(t, settleWithin, "the worker is LEFT", func() string {
		w, ok := worker(c.status(t), leaver.ID)
		if ok && w.State != model.WorkerLeft {
			return string(w.State)
		}
		return ""
	})
	eventually(t, settleWithin, "all four executors run on the other worker", func() string {
		v = c.describe(t, app)
		if n := len(on(v, c.workers[1].ID)); n != 4 || len(running(v)) != 4 {
			return fmt.Sprintf("%d are there, %d run", n, len(running(v)))
		}
		return ""
	})
	t.Logf("all executors ran elsewhere %s after SIGTERM", time.Since(told).Round(time.Millisecond))
}

// While a worker is stopping it must not be offered the replacements of its own
// executors again and again.
func TestAStoppingWorkerWhoseExecutorsLingerIsNotFloodedWithReplacements(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 1, cores: 8})
	stubborn := c.run(t, "submit", "--", "sh", "-c", `trap "" TERM; while :; do sleep 0.2; done`).wantCode(t, 0).app(t)
	meek := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	c.awaitRunning(t, stubborn, 1)
	c.awaitRunning(t, meek, 2)
	leaver := c.workers[0]
	leaver.proc.signal(t, syscall.SIGTERM)
	t.Logf("the worker ended %s after SIGTERM", leaver.proc.awaitEnd(t, 30*time.Second).Round(time.Millisecond))
	eventually(t, settleWithin, "the worker is LEFT", func() string {
		w, ok := worker(c.status(t), leaver.ID)
		if ok && w.State != model.WorkerLeft {
			return string(w.State)
		}
		return ""
	})
	v := c.describe(t, meek)
	if n := len(v.Executors); n > 6 {
		t.Errorf("2 executors were replaced by %d on a worker that was stopping", n-2)
	}
}

// A worker that hangs is first not given new work, then dead; its executors
// are replaced, and when it wakes up it ends the old ones.
func TestAPausedWorkerIsDeclaredDeadAndEndsItsOldExecutorsWhenItWakes(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2, cores: 4})
	app := c.run(t, "submit", "--executors", "4", "--", "sleep", "600").wantCode(t, 0).app(t)
	v := c.awaitRunning(t, app, 4)
	sleeper := c.workers[0]
	old := on(v, sleeper.ID)
	sleeper.stop(t)
	paused := time.Now()
	eventually(t, 30*time.Second, "all four executors run on the other worker", func() string {
		v = c.describe(t, app)
		if n := len(on(v, c.workers[1].ID)); n != 4 || len(running(v)) != 4 {
			return fmt.Sprintf("%d are there, %d run", n, len(running(v)))
		}
		return ""
	})
	t.Logf("executors were replaced %s after the pause", time.Since(paused).Round(time.Millisecond))
	sleeper.cont(t)
	took := eventually(t, 30*time.Second, "the old executors are gone", func() string {
		for _, e := range old {
			if !zombie(e.PID) {
				return fmt.Sprintf("process %d of executor %d lives", e.PID, e.ID)
			}
		}
		return ""
	})
	t.Logf("the old executors were gone %s after it woke up", took.Round(time.Millisecond))
	eventually(t, settleWithin, "the worker is ALIVE", func() string {
		w, _ := worker(c.status(t), sleeper.ID)
		if w.State != model.WorkerAlive {
			return string(w.State)
		}
		return ""
	})
	c.awaitRunning(t, app, 4)
}
