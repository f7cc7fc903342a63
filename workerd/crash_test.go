//go:build linux

package workerd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hearthd/hearth/model"
)

// workerProcess starts a worker as a process of its own; its output is shown if the test fails.
func workerProcess(t *testing.T, dataDir, leader string) *exec.Cmd {
	t.Helper()
	argv := append(self(t, "as-worker"), dataDir, leader)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // this test itself; ended below
	out := filepath.Join(t.TempDir(), "worker.log")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("worker process: %v", err)
			}
		}
		if b, err := os.ReadFile(out); err == nil && t.Failed() {
			t.Logf("worker process:\n%s", b)
		}
	})
	return cmd
}

func killNine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// pidIn waits for a process id in a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a process id in "+path, func() bool {
		b, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(b), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "process "+strconv.Itoa(pid)+" is gone", func() bool { return !isRunning(pid) })
}

func TestAWorkerThatIsKilledTakesItsExecutorsAlongAndTellsOfThemLater(t *testing.T) {
	leader := newFakeLeader(t)
	data := filepath.Join(t.TempDir(), "data")
	first := workerProcess(t, data, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	s.run(ref(1), "/bin/sh", "-c", "trap '' TERM HUP; sleep 1000 & echo $! > child; wait")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	s.reported(ref(1), model.ExecutorRunning)
	child := pidIn(t, filepath.Join(data, "work", string(app1), "1", "child"))
	s.obeyed(ref(2))
	killNine(t, first)
	gone(t, pid)
	gone(t, child)

	workerProcess(t, data, leader.addr)
	s2 := leader.welcomed(4)
	if s2.hello.Incarnation != 2 || len(s2.hello.Inventory) < 2 || len(s2.hello.Apps) != 1 {
		t.Errorf("hello after the crash: %+v", s2.hello)
	}
	for i := range 2 {
		if got := s2.reported(ref(i), model.ExecutorLost); got.Cause != model.CauseInfra {
			t.Errorf("report after the crash: %+v", got)
		}
	}
	s2.run(ref(0), "/bin/sh", "-c", "echo again > again")
	s2.obeyed(ref(3))
	if _, err := os.Stat(filepath.Join(data, "work", string(app1), "0", "again")); err == nil {
		t.Error("an executor that was lost was started again")
	}
}

func TestProcessesThatOutliveWorkerAndKeeperAreEndedAtTheNextStart(t *testing.T) {
	leader := newFakeLeader(t)
	data := filepath.Join(t.TempDir(), "data")
	first := workerProcess(t, data, leader.addr)
	s := leader.welcomed(3)
	// A grandchild in a session of its own: no parent-death signal and no group reaches it.
	s.run(ref(0), "/bin/sh", "-c", "setsid sh -c 'echo $$ > grandchild; exec sleep 1000' & wait")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	grandchild := pidIn(t, filepath.Join(data, "work", string(app1), "0", "grandchild"))
	keepers, err := processesWith(filepath.Join(data, keeperDir))
	if err != nil || len(keepers) != 1 {
		t.Fatalf("keepers %v, %v; want one", keepers, err)
	}
	// Both at once: a worker that is stopped cannot react to the death of its keeper.
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(keepers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killNine(t, first)
	gone(t, pid)
	if !isRunning(grandchild) {
		t.Fatal("the grandchild died with the keeper: nothing is shown")
	}
	workerProcess(t, data, leader.addr)
	s2 := leader.welcomed(4)
	if got := s2.reported(ref(0), model.ExecutorLost); got.Cause != model.CauseInfra {
		t.Errorf("report: %+v", got)
	}
	if isRunning(grandchild) {
		t.Error("the grandchild is still there when the worker has said Hello")
	}
}
