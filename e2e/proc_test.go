//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// goneWithin is how long a process may take to disappear after kill -9.
const goneWithin = 10 * time.Second

// proc is a process that may not be our child. The handle is a descriptor of
// the process itself, so that a signal never reaches a later one with the same
// number.
type proc struct {
	pid    int
	handle *os.Process
}

func openProc(t testing.TB, pid int) proc {
	t.Helper()
	h, err := os.FindProcess(pid)
	if err != nil {
		t.Fatalf("find process %d: %v", pid, err)
	}
	return proc{pid: pid, handle: h}
}

// signal fails the test if the process is gone.
func (p proc) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := p.handle.Signal(sig); err != nil {
		t.Fatalf("send %s to process %d: %v", sig, p.pid, err)
	}
}

// alive is false for zombies too.
func (p proc) alive() bool {
	return p.handle.Signal(syscall.Signal(0)) == nil && !zombie(p.pid)
}

// kill9 kills and returns when the process is gone.
func (p proc) kill9(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.awaitEnd(t, goneWithin)
}

func (p proc) awaitEnd(t testing.TB, within time.Duration) time.Duration {
	t.Helper()
	return eventually(t, within, fmt.Sprintf("end of process %d", p.pid), func() string {
		if p.alive() {
			return "it lives"
		}
		return ""
	})
}

// zombie is true for a process that is gone but not reaped. Its first thread
// may end before the others, which hold its files and locks until they do.
func zombie(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return true // reaped
	}
	// The name in parentheses may hold anything; the state follows it.
	rest := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(rest) > 0 && rest[0] != "Z" && rest[0] != "X" {
		return false
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	return err != nil || len(threads) <= 1
}

// peakMiB is the most memory that a process has held.
func peakMiB(t testing.TB, pid int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	var kib int
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			if _, err := fmt.Sscan(v, &kib); err != nil {
				t.Fatal(err)
			}
		}
	}
	return kib >> 10
}

// found is a process with what it was recognised by.
type found struct {
	pid     int
	cmdline string
	app     string // HEARTH_APP_ID, "" if it has none
	exec    string // HEARTH_EXECUTOR_ID
	worker  string // HEARTH_WORKER_ID
}

func (f found) String() string {
	return fmt.Sprintf("%d (%s; app %q, worker %q)", f.pid, f.cmdline, f.app, f.worker)
}

// scan lists living processes whose environment has one of the entries.
func scan(entries map[string]bool) []found {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []found
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Whoever is not readable belongs to somebody else.
		env, err := os.ReadFile(filepath.Join("/proc", d.Name(), "environ"))
		if err != nil {
			continue
		}
		f, ours := found{pid: pid}, false
		for kv := range strings.SplitSeq(string(env), "\x00") {
			ours = ours || entries[kv]
			if v, ok := strings.CutPrefix(kv, "HEARTH_APP_ID="); ok {
				f.app = v
			}
			if v, ok := strings.CutPrefix(kv, "HEARTH_EXECUTOR_ID="); ok {
				f.exec = v
			}
			if v, ok := strings.CutPrefix(kv, "HEARTH_WORKER_ID="); ok {
				f.worker = v
			}
		}
		if !ours || zombie(pid) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline")) // for the message only
		f.cmdline = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
		out = append(out, f)
	}
	return out
}

func list(procs []found) string {
	var b strings.Builder
	for n, p := range procs {
		if n == 5 {
			fmt.Fprintf(&b, "… %d in all", len(procs))
			break
		}
		fmt.Fprintf(&b, "%s\n", p)
	}
	return b.String()
}
