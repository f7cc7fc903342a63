//go:build linux

package workerd

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// singleton orders a command of which there may be only one copy.
func (s *fakeSession) singleton(r model.ExecutorRef, argv ...string) {
	o := s.launch(r, argv...)
	o.Spec.Disconnect = model.DisconnectSingleton
	s.send(model.WorkerDown{Launch: o})
}

// deaf is a script that SIGTERM does not end; it says that it got one. It says so by itself: SIGKILL follows after 0.4 s, in
// which a busy machine may not have started another program.
const deaf = `trap 'echo $$ > termed' TERM; while :; do sleep 0.02; done`

// The fake leader calls a worker dead after two seconds: SIGTERM is due after one, death after 1.4.
func TestPR15ACutOffWorkerEndsSingletonsAndNothingElse(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.singleton(ref(0), "/bin/sh", "-c", deaf)
	s.singleton(ref(1), "/bin/sleep", "1000")
	s.run(ref(2), "/bin/sleep", "1000")
	stubborn := s.reported(ref(0), model.ExecutorRunning).PID
	meek := s.reported(ref(1), model.ExecutorRunning).PID
	kept := s.reported(ref(2), model.ExecutorRunning).PID

	leader.set(func() { leader.silent, leader.leads = true, false })
	cut := keeper.SinceBoot() // the last answered beat was sent before
	gone(t, meek)
	gone(t, stubborn)
	if took := keeper.SinceBoot() - cut; took > 2*time.Second {
		t.Errorf("the singletons were gone %s after the last answer, want less than the leader waits", took)
	}
	pidIn(t, filepath.Join(r.cfg.DataDir, "work", string(app1), "0", "termed"))
	if !isRunning(kept) {
		t.Error("an executor of the policy keep was ended")
	}
	leader.set(func() { leader.silent, leader.leads = false, true })
	s2 := leader.welcomed(3)
	for i := range 2 {
		if got := s2.reported(ref(i), model.ExecutorLost); got.Reason != reasonSingleton || got.Cause != model.CauseInfra {
			t.Errorf("report %+v", got)
		}
	}
	s2.singleton(ref(3), "/bin/sleep", "1000")
	s2.reported(ref(3), model.ExecutorRunning)
	s2.kill(ref(3), time.Second)
	s2.reported(ref(3), model.ExecutorKilled)
}

func TestPR15SingletonsLiveOnAsLongAsSomeLeaderAnswers(t *testing.T) {
	first, second := newFakeLeader(t), newFakeLeader(t)
	second.set(func() { second.leads, second.hint = false, first.addr })
	newRig(t, first.addr, second.addr)
	s := first.welcomed(3)
	s.singleton(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	// A leader that hangs: the worker has to find the next one in time by itself.
	second.set(func() { second.leads, second.hint = true, "" })
	first.set(func() { first.silent, first.leads, first.hint = true, false, second.addr })
	s2 := second.welcomed(4)
	for i := range 4 { // beyond what the lease of the first leader was good for
		s2.run(ref(10+i), "/bin/sleep", "0.5")
		s2.reported(ref(10+i), model.ExecutorExited)
	}
	if !isRunning(pid) {
		t.Error("a change of leader ended a singleton")
	}
}

// What counts is when a beat was sent, not when its answer came: the leader counts from in between.
func TestPR15AnswersThatComeLateRenewNothing(t *testing.T) {
	leader := newFakeLeader(t)
	newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.singleton(ref(0), "/bin/sleep", "1000")
	s.run(ref(1), "/bin/sleep", "1000")
	s.reported(ref(0), model.ExecutorRunning)
	kept := s.reported(ref(1), model.ExecutorRunning).PID
	// SIGTERM is due after a second. Two steps, so that there is never a second without an answer.
	leader.set(func() { leader.lag = 600 * time.Millisecond })
	s.run(ref(2), "/bin/sleep", "1")
	s.reported(ref(2), model.ExecutorExited)
	if s.report(ref(0)).State != model.ExecutorRunning {
		t.Errorf("answers that came in time did not count: %+v", s.report(ref(0)))
	}
	leader.set(func() { leader.lag = 1200 * time.Millisecond })
	if got := s.reported(ref(0), model.ExecutorLost); got.Reason != reasonSingleton {
		t.Errorf("report %+v", got)
	}
	select {
	case <-s.gone:
		t.Error("the session ended: nothing is shown")
	default:
	}
	if !isRunning(kept) {
		t.Error("an executor of the policy keep was ended")
	}
}

// A worker's process that is stopped cannot end anything; its keeper does.
func TestPR15AStoppedWorkerDoesNotKeepSingletonsAlive(t *testing.T) {
	leader := newFakeLeader(t)
	data := filepath.Join(t.TempDir(), "data")
	w := workerProcess(t, data, leader.addr)
	s := leader.welcomed(3)
	s.singleton(ref(0), "/bin/sh", "-c", deaf)
	s.run(ref(1), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	kept := s.reported(ref(1), model.ExecutorRunning).PID
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := keeper.SinceBoot()
	gone(t, pid)
	if took := keeper.SinceBoot() - stopped; took > 2*time.Second {
		t.Errorf("the singleton was gone %s after its worker was stopped, want less than the leader waits", took)
	}
	if !isRunning(kept) {
		t.Error("an executor of the policy keep was ended")
	}
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// An answer that was under way when the worker stopped may keep its session;
	// else it opens another.
	eventually(t, "the end is reported", func() bool {
		if len(leader.sessions) > 0 {
			s = leader.welcomed(3)
		}
		return s.report(ref(0)).State == model.ExecutorLost
	})
}
