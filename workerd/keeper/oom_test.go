//go:build linux

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// memoryCage is a cgroup with a memory limit that a test puts a process into.
type memoryCage struct {
	dir string
	v1  bool
}

// newMemoryCage makes one below the test's own cgroup, of either version, or
// skips the test where that is not allowed.
func newMemoryCage(t *testing.T, limitMiB int) memoryCage {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skipf("no cgroups here: %v", err)
	}
	var c memoryCage
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case fields[1] == "memory":
			c = memoryCage{dir: filepath.Join("/sys/fs/cgroup/memory", fields[2]), v1: true}
		case fields[1] == "" && c.dir == "":
			c = memoryCage{dir: filepath.Join("/sys/fs/cgroup", fields[2])}
		}
	}
	c.dir = filepath.Join(c.dir, fmt.Sprintf("hearth-test-%d", os.Getpid()))
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Skipf("cgroups may not be made here: %v", err)
	}
	t.Cleanup(func() {
		// The kernel lets go of a member a moment after it was reaped.
		poll(t, "the cgroup is removed", func() bool { return os.Remove(c.dir) == nil })
	})
	file := "memory.max"
	if c.v1 {
		file = "memory.limit_in_bytes"
	}
	if err := os.WriteFile(filepath.Join(c.dir, file), []byte(strconv.Itoa(limitMiB<<20)), 0o600); err != nil {
		t.Skipf("memory may not be limited here: %v", err)
	}
	if !c.v1 {
		// What does not fit is not to move to the swap. There may be none.
		_ = os.WriteFile(filepath.Join(c.dir, "memory.swap.max"), []byte("0"), 0o600)
	}
	return c
}

func (c memoryCage) take(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kills is how many members the kernel has killed for want of memory.
func (c memoryCage) kills(t *testing.T) int {
	t.Helper()
	file := "memory.events"
	if c.v1 {
		file = "memory.oom_control"
	}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			count, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatalf("%s does not count kills:\n%s", file, text)
	return 0
}
