package priority

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// childVariable makes the test binary a program that raises itself and prints
// the nice values of its threads.
const childVariable = "PRIORITY_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child(os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func child(out io.Writer) int {
	nice, _ := strconv.Atoi(os.Getenv(childVariable)) // 0 would be seen by the parent
	// Threads that exist already.
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range 8 {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	raised, err := Raise(nice)
	if err != nil {
		fmt.Fprintln(out, "error", errors.Is(err, os.ErrPermission))
		return 0
	}
	fmt.Fprintln(out, "raised", raised)
	// And one that starts now.
	ready.Add(1)
	done.Go(func() {
		runtime.LockOSThread()
		ready.Done()
		<-release
	})
	ready.Wait()
	threads, _ := os.ReadDir("/proc/self/task") // nothing would be printed
	for _, th := range threads {
		tid, _ := strconv.Atoi(th.Name()) // a number always
		now, _ := unix.Getpriority(unix.PRIO_PROCESS, tid)
		fmt.Fprintln(out, "nice", niceOffset-now)
	}
	close(release)
	done.Wait()
	return 0
}

func run(t *testing.T, nice int, prefix ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(prefix, self)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", childVariable, nice))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestEveryThreadGetsTheNiceValueOrNone(t *testing.T) {
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || now != niceOffset {
		t.Skipf("the tests themselves run with nice %d, error %v", niceOffset-now, err)
	}
	// Lowering oneself is always allowed, so this needs no privilege.
	for _, nice := range []int{3, -10} {
		lines := run(t, nice)
		if nice < 0 && lines[0] == "error true" {
			t.Logf("nice %d is not permitted here, and said so", nice)
			continue
		}
		if lines[0] != "raised true" || len(lines) < 10 {
			t.Fatalf("nice %d: the child says %q", nice, lines)
		}
		for _, line := range lines[1:] {
			if want := fmt.Sprintf("nice %d", nice); line != want {
				t.Errorf("a thread has %q, want %q", line, want)
			}
		}
	}
}

func TestAProcessThatWasStartedWithANiceValueKeepsIt(t *testing.T) {
	lines := run(t, -10, "nice", "-n", "4")
	if lines[0] != "raised false" || lines[1] == "nice -10" {
		t.Fatalf("the child says %q", lines)
	}
	for _, line := range lines[2:] {
		if line != lines[1] {
			t.Errorf("a thread has %q, the first has %q", line, lines[1])
		}
	}
}
