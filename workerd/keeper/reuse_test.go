//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// reuseRuns is how often each way of PR-11 is tried.
const reuseRuns = 100

// clockTick is the unit of start times.
const clockTick = 10 * time.Millisecond

// nextPID makes the kernel give this number to the next process. Others may be faster, and the
// kernel may not allow it.
func nextPID(pid int) error {
	return os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0o600)
}

// ended runs a program in a process group of its own until it is reaped, and returns what was
// stored about it.
func ended(t *testing.T) Proc {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := procOf(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return p
}

// foreigner is a process that has nothing to do with any worker.
type foreigner struct {
	cmd  *exec.Cmd
	Proc // of the process that must live on
}

func (f foreigner) end() {
	_ = unix.Kill(-f.cmd.Process.Pid, unix.SIGKILL)
	_ = f.cmd.Process.Kill()
	_ = f.cmd.Wait()
}

// reuse starts a process under the number of one that has ended. As a group, its leader has ended
// too, and only the group has the number: a member of it lives on.
func reuse(t *testing.T, asGroup bool) (foreigner, Proc) {
	t.Helper()
	const attempts = 100
	for range attempts {
		stored := ended(t)
		cmd := exec.Command("sleep", "300")
		if asGroup {
			cmd = exec.Command("sh", "-c", "sleep 300 >&- 2>&- & echo $!")
		}
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
		// Start times are ticks of 10 ms; nothing tells apart what shares one.
		<-time.After(2 * clockTick)
		if err := nextPID(stored.PID); err != nil {
			t.Skipf("numbers of processes cannot be chosen here: %v", err)
		}
		f := foreigner{cmd: cmd}
		if !asGroup {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			f.Proc = procOf(t, cmd.Process.Pid)
		} else {
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil {
				t.Fatal(err)
			}
			f.Proc = procOf(t, pid)
		}
		if cmd.Process.Pid == stored.PID { // else somebody else was faster
			return f, stored
		}
		f.end()
	}
	t.Skipf("no number was given out again in %d attempts: this machine is too busy", attempts)
	return foreigner{}, Proc{}
}

// PR-11: what was stored names a number that now belongs to somebody else.
func TestPR11AStrangerUnderAReusedNumberNeverGetsASignal(t *testing.T) {
	for name, asGroup := range map[string]bool{"the number of a process": false, "the number of a process group": true} {
		t.Run(name, func(t *testing.T) {
			for run := range reuseRuns {
				f, stored := reuse(t, asGroup)
				if group, err := unix.Getpgid(f.PID); err != nil || group != stored.PID {
					t.Fatalf("run %d: the stranger is in group %d, want %d (%v)", run, group, stored.PID, err)
				}
				unharmed(t, fmt.Sprintf("run %d", run), f.Proc, stored)
				f.end()
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The same after the machine has started again, which cannot be done here: the boot is another one,
// and the start time may even be the same.
func TestPR11AStrangerOfAnotherBootNeverGetsASignal(t *testing.T) {
	for run := range reuseRuns {
		stranger := startStranger(t)
		rebooted := stranger
		rebooted.BootID = "another"
		unharmed(t, fmt.Sprintf("run %d", run), stranger, rebooted)
	}
}

// unharmed does with what was stored all that a worker does at its start.
func unharmed(t *testing.T, run string, stranger, stored Proc) {
	t.Helper()
	killed, err := KillOrphans(t.Context(), "worker-without-any", []Proc{stored})
	if err != nil || len(killed) > 0 {
		t.Errorf("%s: killed %v, %v, want nothing", run, killed, err)
	}
	if running, err := IsRunning(stored); running || err != nil {
		t.Errorf("%s: %+v is taken for %+v (%v)", run, stranger, stored, err)
	}
	if stored.BootID == stranger.BootID {
		if err := signalProc(procID{stored.PID, stored.StartTicks}, unix.SIGKILL); !errors.Is(err, unix.ESRCH) && !isGone(err) {
			t.Errorf("%s: signal: %v, want %v", run, err, unix.ESRCH)
		}
	}
	if running, err := IsRunning(stranger); !running || err != nil {
		t.Errorf("%s: the stranger is gone (%v)", run, err)
	}
}

func TestAProcessThatIsTheOneStoredIsKilled(t *testing.T) {
	stored := startStranger(t)
	killed, err := KillOrphans(t.Context(), "worker-without-any", []Proc{stored})
	if err != nil {
		t.Error(err)
	}
	diff(t, "killed when all three values match", killed, []Proc{stored})
}
