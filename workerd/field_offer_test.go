//go:build linux

package workerd

import (
	"strings"
	"testing"
)

// AC-11: in a container of four processors and 8 GiB on a host of 64 cores and much memory.
func TestAC11AContainerOffersWhatItsCgroupAllows(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/meminfo":          "MemTotal:       268435456 kB\n",
		"proc/self/cgroup":      "0::/kubepods/pod\n",
		"sys/fs/cgroup/cpu.max": "400000 100000\n", "sys/fs/cgroup/memory.max": "8589934592\n",
	})
	h := host{root: root, cpus: 64}
	cores := h.cores(0)
	memory, err := h.memoryMiB(0)
	if err != nil {
		t.Fatal(err)
	}
	if cores.value != 4 || memory.value > 7168 || memory.value < 4096 {
		t.Errorf("%d cores and %d MiB, want 4 and at most 7 GiB", cores.value, memory.value)
	}
	if !strings.Contains(cores.origin, "cgroup") || !strings.Contains(memory.origin, "cgroup") {
		t.Errorf("they come from %q and %q, want the cgroup named", cores.origin, memory.origin)
	}
	if n := h.cores(16); n.value != 16 || n.origin == cores.origin {
		t.Errorf("16 cores that are configured make %+v", n)
	}
	if n, err := h.memoryMiB(12000); err != nil || n.value != 12000 {
		t.Errorf("12000 MiB that are configured make %+v, %v", n, err)
	}
}
