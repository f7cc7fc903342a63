package masterd

import (
	"context"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

func isRestartOK(d model.WorkerDown) bool { return d.RestartOK != nil }

// restarts asks for RESTARTING and waits for the answer.
func (w *scriptedWorker) restarts(window time.Duration) {
	w.t.Helper()
	w.send(model.WorkerUp{Restart: &model.WorkerRestart{WindowMilli: window.Milliseconds()}})
	w.next("word that RESTARTING is committed", isRestartOK)
}

// The ports of a restarting worker are refused, and nobody concludes anything
// until its time is up; then it is dead at once.
func TestARestartingWorkerIsLeftAloneUntilItsTimeIsUp(t *testing.T) {
	t.Parallel()
	const window = 3 * time.Second
	m, ctx := startTimed(t, time.Second, 200*time.Millisecond)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	ref := launched(ctx, t, m, w, sleeper("one"))
	w.restarts(window)
	began := time.Now()
	w.die()
	rec := workerOf(t, m, w.id)
	if rec.State != model.WorkerRestarting {
		t.Fatalf("it is %s, want RESTARTING", rec.State)
	}
	if v := workerViews(m.fsm.View()); len(v) != 1 || v[0].RestartLeft < 1 || v[0].RestartLeft > window.Milliseconds() {
		t.Errorf("views %+v, want one with the time that is left of %s", v, window)
	}
	dead := inState(t, m, w.id, model.WorkerDead)
	if took := time.Since(began); dead.StateTick < rec.RestartUntil || took > window+10*time.Second {
		t.Errorf("dead at %d, %s after it went; want not before %d and soon after", dead.StateTick, took, rec.RestartUntil)
	}
	if got := executorState(t, m, ref); got != model.ExecutorLost {
		t.Errorf("its executor is %s, want LOST", got)
	}
}

func TestARestartedWorkerKeepsItsExecutors(t *testing.T) {
	t.Parallel()
	m, ctx := startTimed(t, time.Second, 200*time.Millisecond)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	ref := launched(ctx, t, m, w, sleeper("one"))
	w.restarts(time.Minute)
	w.disconnect()
	w.inc, w.seq = w.inc+1, 0
	w.hello(m, running(ref))
	w.next("welcome", isWelcome)
	rec := inState(t, m, w.id, model.WorkerAlive)
	if rec.Incarnation != 2 || rec.RestartUntil != 0 {
		t.Errorf("got worker %+v, want it in incarnation 2 without a restart", rec)
	}
	if got := executorState(t, m, ref); got != model.ExecutorRunning {
		t.Errorf("its executor is %s, want it RUNNING", got)
	}
}

// A worker that said that it restarts and is there all the same, on the session
// on which it said so, is ALIVE again when its time is up.
func TestAWorkerThatDoesNotRestartAfterAllIsAliveAgain(t *testing.T) {
	t.Parallel()
	m, _ := startTimed(t, time.Second, 200*time.Millisecond)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	w.restarts(500 * time.Millisecond)
	inState(t, m, w.id, model.WorkerAlive)
}

func TestARestartBeyondTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	m, _ := startTimed(t, time.Minute, time.Second)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	w.send(model.WorkerUp{Restart: &model.WorkerRestart{WindowMilli: model.MaxRestartMilli + 1}})
	for d := range w.down {
		if d.RestartOK != nil {
			t.Error("a restart beyond the limit was agreed to")
		}
	}
	if state := workerOf(t, m, w.id).State; state == model.WorkerRestarting {
		t.Errorf("it is %s", state)
	}
}

// The end of a restart is replicated: the next leader neither shortens it nor
// forgets it.
func TestARestartOutlivesTheLeaderThatAgreedToIt(t *testing.T) {
	t.Parallel()
	ms := startCluster(t, 3)
	old := leaderOf(ms)
	w := newScriptedWorker(t, "worker-a")
	w.hello(old)
	w.next("welcome", isWelcome)
	const window = 4 * time.Second
	w.restarts(window)
	rec := workerOf(t, old, w.id)
	w.die()
	old.stop(t)
	var next *testMaster
	eventually(t, "the next leader", func() error {
		if next = leaderOf(ms); next == nil || next == old {
			return context.DeadlineExceeded
		}
		return nil
	})
	dead := inState(t, next, w.id, model.WorkerDead)
	if dead.StateTick < rec.RestartUntil {
		t.Errorf("dead at %d, want not before %d", dead.StateTick, rec.RestartUntil)
	}
}
