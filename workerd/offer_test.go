//go:build linux

package workerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files below a new root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	meminfo16G = "MemTotal:       16777216 kB\nMemFree:  1 kB\n"
	meminfo1G  = "MemTotal:        1048576 kB\n"
)

func TestTheOfferIsWhatTheMachineAndItsCgroupsAllow(t *testing.T) {
	const v2, v1 = "0::/a/b\n", "4:memory:/a/b\n3:cpu,cpuacct:/a/b\n1:name=systemd:/x\n"
	for _, c := range []struct {
		name       string
		files      map[string]string
		cores      int
		memory     int64
		wantCores  int64
		wantMemory int64
		origins    []string // part of the cores' and of the memory's
	}{
		{
			"without cgroups everything less 1 GiB is offered",
			map[string]string{"proc/meminfo": meminfo16G},
			0, 0, 8, 15360,
			[]string{"processors", "less 1 GiB"},
		},
		{
			"a small machine offers half of its memory",
			map[string]string{"proc/meminfo": meminfo1G},
			0, 0, 8, 512,
			[]string{"processors", "half of"},
		},
		{
			"what is configured wins over any limit",
			map[string]string{"proc/meminfo": meminfo16G, "proc/self/cgroup": v2, "sys/fs/cgroup/a/b/cpu.max": "100000 100000"},
			32, 100, 32, 100,
			[]string{"configured", "configured"},
		},
		{
			"a limit of version 2 counts",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": v2,
				"sys/fs/cgroup/a/b/cpu.max": "250000 100000\n", "sys/fs/cgroup/a/b/memory.max": "4294967296\n",
			},
			0, 0, 2, 3072,
			[]string{"cgroup /a/b (2.50 cores)", "cgroup /a/b"},
		},
		{
			"the narrowest of all parents counts",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": v2,
				"sys/fs/cgroup/a/b/cpu.max": "max 100000\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
				"sys/fs/cgroup/a/b/memory.max": "8589934592\n", "sys/fs/cgroup/a/memory.max": "2147483648\n",
			},
			0, 0, 3, 1024,
			[]string{"cgroup /a ", "cgroup /a "},
		},
		{
			"in a container whose path is not visible the mount point counts",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": "0::/../../docker/x\n",
				"sys/fs/cgroup/cpu.max": "400000 100000\n", "sys/fs/cgroup/memory.max": "3221225472\n",
			},
			0, 0, 4, 2048,
			[]string{"cgroup / ", "cgroup / "},
		},
		{
			"limits of version 1 count",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": v1,
				"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "500000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "6442450944\n",
			},
			0, 0, 5, 5120,
			[]string{"cgroup /a ", "cgroup /a/b "},
		},
		{
			"what version 1 calls no limit is none",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": v1,
				"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
				"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			},
			0, 0, 8, 15360,
			[]string{"processors", "machine"},
		},
		{
			"a quota below one core still offers one",
			map[string]string{"proc/meminfo": meminfo16G, "proc/self/cgroup": v2, "sys/fs/cgroup/cpu.max": "50000 100000\n"},
			0, 0, 1, 15360,
			[]string{"0.50 cores", "machine"},
		},
		{
			"nonsense in the files is no limit",
			map[string]string{
				"proc/meminfo": meminfo16G, "proc/self/cgroup": "x\n0::relative\n" + v2,
				"sys/fs/cgroup/cpu.max": "a b\n", "sys/fs/cgroup/memory.max": "-5\n",
			},
			0, 0, 8, 15360,
			[]string{"processors", "machine"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host{root: tree(t, c.files), cpus: 8}
			cores := h.cores(c.cores)
			memory, err := h.memoryMiB(c.memory)
			if err != nil {
				t.Fatal(err)
			}
			if cores.value != c.wantCores || memory.value != c.wantMemory {
				t.Errorf("got %d cores and %d MiB, want %d and %d", cores.value, memory.value, c.wantCores, c.wantMemory)
			}
			if !strings.Contains(cores.origin, c.origins[0]) || !strings.Contains(memory.origin, strings.TrimSpace(c.origins[1])) {
				t.Errorf("origins %q and %q, want parts %q", cores.origin, memory.origin, c.origins)
			}
		})
	}
}

func TestAMachineWithoutMemoryInformationMustBeTold(t *testing.T) {
	h := host{root: t.TempDir(), cpus: 1}
	if _, err := h.memoryMiB(0); err == nil {
		t.Error("got an amount, want an error")
	}
	if a, err := h.memoryMiB(5); err != nil || a.value != 5 {
		t.Errorf("got %d, %v; want 5", a.value, err)
	}
}
