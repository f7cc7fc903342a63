//go:build linux

package workerd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// A planned restart takes executors from one process of the worker to the next (PR-06: adopted, with
// the same process ids).
func TestPR06ARestartedWorkerAdoptsItsExecutorsAndKnowsHowOthersEnded(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	release := filepath.Join(t.TempDir(), "release")
	s.run(ref(0), "/bin/sleep", "1000")
	s.run(ref(1), "/bin/sh", "-c", "while [ ! -e "+release+" ]; do sleep 0.02; done; exit 7")
	s.run(ref(2), "/bin/sh", "-c", "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")
	driver := s.launch(ref(3))
	driver.Spec.Kind, driver.Spec.DriverAddr = model.AppKindDriver, "driver:1"
	s.send(model.WorkerDown{Launch: driver})
	pids := map[int]int{3: 0}
	for i := range 3 {
		pids[i] = s.reported(ref(i), model.ExecutorRunning).PID
	}
	pids[3] = s.reported(ref(3), model.ExecutorLaunching).PID
	s.kill(ref(2), time.Minute) // is being killed across the restart
	before := r.worker.GRPCAddr()

	was, err := r.control().Restart(t.Context(), Handover{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.over(); !errors.Is(err, ErrRestart) {
		t.Fatalf("the worker ended with %v, want ErrRestart", err)
	}
	if s.restart == nil || s.restart.WindowMilli != DefaultRestartWindow.Milliseconds() || s.hasLeft() {
		t.Errorf("the leader was asked for %+v, left %v", s.restart, s.hasLeft())
	}
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone(t, pids[1])
	eventually(t, "the keeper has noted the exit", func() bool {
		return savedExits(t, r.cfg.DataDir) == 1
	})
	for i, pid := range pids {
		if i != 1 && !isRunning(pid) {
			t.Errorf("process %d of executor %d did not outlive the worker's", pid, i)
		}
	}

	r.start()
	s2 := leader.welcomed(3)
	if s2.hello.Incarnation != was.Incarnation+1 {
		t.Errorf("incarnation %d after %d", s2.hello.Incarnation, was.Incarnation)
	}
	for _, e := range s2.hello.Inventory {
		if i := int(e.Ref.Executor); e.PID != pids[i] || e.State.Terminal() != (i == 1) {
			t.Errorf("inventory %+v, want process %d", e, pids[i])
		}
	}
	if got := s2.reported(ref(1), model.ExecutorFailed); got.ExitCode != 7 {
		t.Errorf("report of what ended meanwhile %+v, want exit code 7", got)
	}
	s2.reported(ref(0), model.ExecutorRunning)
	now, err := r.control().Status(t.Context())
	if err != nil || now.Heritage != (Heritage{Adopted: 3, Ended: 1}) || now.Incarnation != s2.hello.Incarnation {
		t.Errorf("status %+v, %v", now, err)
	}
	if r.worker.GRPCAddr() != before {
		t.Errorf("the worker is at %s, was at %s: links in the executors' environment are dead", r.worker.GRPCAddr(), before)
	}
	// What it has adopted obeys orders.
	s2.kill(ref(0), time.Second)
	s2.kill(ref(3), time.Second)
	s2.kill(ref(2), 0)
	for _, i := range []int{0, 2, 3} {
		if got := s2.reported(ref(i), model.ExecutorKilled); got.PID != pids[i] || isRunning(got.PID) {
			t.Errorf("report %+v", got)
		}
	}
}

func TestARestartWithoutALeaderNeedsForce(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	leader.set(func() { leader.leads = false })
	s.end <- nil
	eventually(t, "the session is over", func() bool {
		now, err := r.control().Status(t.Context())
		return err == nil && now.Leader == ""
	})
	if _, err := r.control().Restart(t.Context(), Handover{}); !errors.Is(err, model.ErrNoLeader) {
		t.Errorf("restart without a leader: %v, want ErrNoLeader", err)
	}
	if _, err := r.control().Restart(t.Context(), Handover{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := r.over(); !errors.Is(err, ErrRestart) {
		t.Fatalf("the worker ended with %v, want ErrRestart", err)
	}
	r.start()
	leader.set(func() { leader.leads = true })
	s2 := leader.welcomed(3)
	if inv := s2.hello.Inventory; len(inv) != 1 || inv[0].PID != pid || !isRunning(pid) {
		t.Errorf("inventory %+v, want process %d", inv, pid)
	}
}

// Never a third state: what nobody comes back for is ended, by the keeper alone.
func TestPR06WhatWasKeptAndIsNotAdoptedEndsWithItsWindow(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	begun := time.Now()
	if _, err := r.control().StopKeeping(t.Context(), Handover{Window: MinRestartWindow}); err != nil {
		t.Fatal(err)
	}
	if err := r.over(); err != nil {
		t.Fatalf("the worker ended with %v, want nil", err)
	}
	if !isRunning(pid) {
		t.Error("the executor did not outlive its worker")
	}
	gone(t, pid)
	if took := time.Since(begun); took < MinRestartWindow-time.Second {
		t.Errorf("it was ended after %s, its window is %s", took, MinRestartWindow)
	}
	eventually(t, "the keeper is gone", func() bool {
		pids, err := processesWith(filepath.Join(r.cfg.DataDir, keeperDir))
		return err == nil && len(pids) == 0
	})
	r.start()
	s2 := leader.welcomed(3)
	if got := s2.reported(ref(0), model.ExecutorLost); got.Cause != model.CauseInfra {
		t.Errorf("report %+v", got)
	}
}

// The leader waits for as long as it has agreed to, so a singleton may run on for a part of that, and
// must be gone after it, also if the next start finds no leader.
func TestPR15ASingletonDoesNotOutliveTheWindowOfARestart(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.singleton(ref(0), "/bin/sh", "-c", deaf)
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	asked := keeper.SinceBoot()
	if _, err := r.control().Restart(t.Context(), Handover{Window: MinRestartWindow}); err != nil {
		t.Fatal(err)
	}
	_ = r.over()
	leader.set(func() { leader.leads = false })
	r.start()
	// Without the restart it would be dead 1.4 s after the last beat.
	eventually(t, "two seconds have passed", func() bool {
		if !isRunning(pid) {
			t.Fatal("the singleton ended before its share of the window")
		}
		return keeper.SinceBoot()-asked > 2*time.Second
	})
	gone(t, pid)
	if took := keeper.SinceBoot() - asked; took > MinRestartWindow {
		t.Errorf("the singleton was gone %s after the restart began, want less than the window of %s", took, MinRestartWindow)
	}
	leader.set(func() { leader.leads = true })
	leader.welcomed(3).reported(ref(0), model.ExecutorLost)
}

func TestARestartThatCannotSucceedChangesNothing(t *testing.T) {
	leader := newFakeLeader(t)
	r := &rig{t: t, logger: testLogger(t), cfg: rigConfig(t, leader.addr)}
	r.check = func(context.Context) error { return errors.New("the binary does not run") }
	r.start()
	t.Cleanup(r.stop)
	s := leader.welcomed(3)
	if _, err := r.control().Restart(t.Context(), Handover{}); !errors.Is(err, model.ErrRefused) {
		t.Errorf("restart with a broken binary: %v, want ErrRefused", err)
	}
	for _, window := range []time.Duration{time.Millisecond, time.Hour} {
		if _, err := r.control().StopKeeping(t.Context(), Handover{Window: window}); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("window of %s: %v, want ErrInvalid", window, err)
		}
	}
	s.obeyed(ref(0))
	if s.restart != nil {
		t.Error("the leader was asked")
	}
}

// handoverAgent is an agent whose steps a test takes by hand.
func handoverAgent(t *testing.T) (a *agent, anew *int) {
	t.Helper()
	rep := newReports(1)
	a = &agent{log: testLogger(t), table: newTable(testLogger(t), memoryRecorder(new([]journalRecord)), rep), reports: rep, contact: newContact(nil)}
	anew = new(int)
	a.anew = func() { *anew++ }
	return a, anew
}

func TestARestartThatTheLeaderDoesNotAgreeToIsGivenUp(t *testing.T) {
	a, anew := handoverAgent(t)
	a.up = make(chan<- model.WorkerUp)
	now := time.Now()
	h := &handover{again: true, window: time.Minute, done: make(chan error, 1)}
	if err := a.beginHandover(h, false, now); err != nil {
		t.Fatal(err)
	}
	if err := a.beginHandover(&handover{window: time.Minute}, false, now); !errors.Is(err, model.ErrConflict) {
		t.Errorf("a second restart: %v, want ErrConflict", err)
	}
	m, _ := a.outgoing(now)
	if m == nil || m.Restart == nil {
		t.Fatalf("the leader is told %+v", m)
	}
	a.sent(m, now)
	if again, _ := a.outgoing(now); again != nil {
		t.Errorf("the leader is asked twice: %+v", again)
	}
	a.advance(now.Add(handoverBound))
	if a.hand == nil {
		t.Fatal("given up too early")
	}
	a.advance(now.Add(handoverBound + time.Second))
	if err := <-h.done; !errors.Is(err, context.DeadlineExceeded) || a.hand != nil || a.over {
		t.Errorf("result %v, under way %v, over %v", err, a.hand != nil, a.over)
	}
	if *anew != 1 {
		t.Errorf("%d new sessions, want one: the leader may have agreed meanwhile", *anew)
	}
	a.obey(model.WorkerDown{RestartOK: &model.RestartOK{}}) // too late
	a.advance(now)
	if a.over {
		t.Error("an answer that came too late was taken")
	}
}

func TestAWorkerThatIsStoppedWhileItHandsOverStops(t *testing.T) {
	a, _ := handoverAgent(t)
	a.up = make(chan<- model.WorkerUp)
	h := &handover{window: time.Minute, done: make(chan error, 1)}
	if err := a.beginHandover(h, false, time.Now()); err != nil {
		t.Fatal(err)
	}
	a.beginStop(time.Now())
	if err := <-h.done; !errors.Is(err, model.ErrConflict) || !a.stop.begun {
		t.Errorf("result %v, stopping %v", err, a.stop.begun)
	}
	if err := a.beginHandover(h, true, time.Now()); !errors.Is(err, model.ErrConflict) {
		t.Errorf("restart of a stopping worker: %v, want ErrConflict", err)
	}
}

func TestPortsAreAskedForAgainOnce(t *testing.T) {
	dir := t.TempDir()
	if err := rememberPorts(dir, "127.0.0.1:1", "[::1]:2", "host:3"); err != nil {
		t.Fatal(err)
	}
	if p, err := takePorts(dir); err != nil || p.GRPC != 1 || p.Serf != 2 || p.HTTP != 3 {
		t.Errorf("ports %+v, %v", p, err)
	}
	if p, err := takePorts(dir); err != nil || p != (ports{}) {
		t.Errorf("ports are there twice: %+v, %v", p, err)
	}
	if err := os.WriteFile(filepath.Join(dir, portsFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := takePorts(dir); err == nil {
		t.Error("a file of another version is taken")
	}
	// A port that somebody else has by now is not insisted on.
	w := &Worker{cfg: Config{Bind: "127.0.0.1"}}
	first, err := w.listen(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.listen(t.Context(), 0, first.Addr().(*net.TCPAddr).Port)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}

// A worker process that dies in the middle of a handover, after the keeper was told to keep, leaves
// executors that the next start adopts.
func TestPR06AWorkerKilledAfterItHasHandedOverIsSucceededAllTheSame(t *testing.T) {
	leader := newFakeLeader(t)
	data := filepath.Join(t.TempDir(), "data")
	w := workerProcess(t, data, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	if _, err := NewControl(data).Restart(t.Context(), Handover{}); err != nil {
		t.Fatal(err)
	}
	_ = w.Process.Signal(syscall.SIGKILL) // or it has ended by itself
	_ = w.Wait()
	workerProcess(t, data, leader.addr)
	if inv := leader.welcomed(3).hello.Inventory; len(inv) != 1 || inv[0].PID != pid || !isRunning(pid) {
		t.Errorf("inventory %+v, want process %d", inv, pid)
	}
}
