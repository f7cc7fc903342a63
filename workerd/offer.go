//go:build linux

package workerd

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

const (
	reservedMiB = 1024 // left to the system and to the worker itself
	// cgroupNoLimit is the least value that cgroup v1 uses for "none": it rounds 2^63-1 down to
	// whole pages. No machine has that much memory.
	cgroupNoLimit = 1 << 60
	kibPerMiB     = 1024
	bytesPerMiB   = 1 << 20
)

// amount is one number of the offer with the sentence that says where it comes from.
type amount struct {
	value  int64
	origin string
}

// host looks at the machine below root, which is "/" but for tests.
type host struct {
	root string
	cpus int // that this process may run on
}

func thisHost() host { return host{root: "/", cpus: runtime.NumCPU()} }

// cores returns how many cores to offer: wanted if above 0, else those the process may run on, less
// if a cgroup quota allows less, and at least one.
func (h host) cores(wanted int) amount {
	if wanted > 0 {
		return amount{int64(wanted), "as configured"}
	}
	a := amount{int64(h.cpus), "the processors this process may run on"}
	for _, g := range h.cgroups("cpu") {
		quota, ok := g.cpuQuota()
		if !ok {
			continue
		}
		if n := int64(math.Max(1, math.Floor(quota))); n < a.value {
			a = amount{n, fmt.Sprintf("the cpu quota of cgroup %s (%.2f cores)", g.name, quota)}
		}
	}
	return a
}

// memoryMiB returns how much memory to offer: wanted if above 0, else that of the machine or of the
// narrowest cgroup, less 1 GiB, but at least half of it.
func (h host) memoryMiB(wanted int64) (amount, error) {
	if wanted > 0 {
		return amount{wanted, "as configured"}, nil
	}
	all, err := h.totalMemory()
	if err != nil {
		return amount{}, err
	}
	total, what := all.value, all.origin
	if total < 1 {
		return amount{}, fmt.Errorf("%s is below 1 MiB: say how much to offer", what)
	}
	if rest := total - reservedMiB; rest >= total/2 {
		return amount{rest, fmt.Sprintf("%s (%d MiB) less 1 GiB", what, total)}, nil
	}
	return amount{max(1, total/2), fmt.Sprintf("half of %s (%d MiB)", what, total)}, nil
}

// totalMemory is what the machine has, or the narrowest cgroup.
func (h host) totalMemory() (amount, error) {
	total, err := h.memTotalMiB()
	if err != nil {
		return amount{}, err
	}
	a := amount{total, "the machine's memory"}
	for _, g := range h.cgroups("memory") {
		if limit, ok := g.memoryLimitMiB(); ok && limit < a.value {
			a = amount{limit, "the memory limit of cgroup " + g.name}
		}
	}
	return a, nil
}

func (h host) memTotalMiB() (int64, error) { return h.memInfoMiB("MemTotal") }

// cgroup is one directory of limits.
type cgroup struct {
	dir  string
	name string // for people
	v2   bool
}

// cgroups lists the process's own cgroup for a controller and all above it, in version 2 and, where
// it is mounted, version 1. What does not exist or cannot be read is left out: no limit is known.
func (h host) cgroups(controller string) []cgroup {
	b, err := os.ReadFile(filepath.Join(h.root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	var out []cgroup
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		parts := strings.SplitN(s.Text(), ":", 3) // hierarchy:controllers:path
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		mount, v2 := "sys/fs/cgroup", parts[0] == "0" && parts[1] == ""
		if !v2 {
			if !hasWord(parts[1], controller) {
				continue
			}
			mount = path.Join("sys/fs/cgroup", controller)
		}
		// Inside a container the path may be one of the host's that is not visible here; the walk
		// up then still reaches the mount point, which is the container's own cgroup.
		for p := path.Clean(parts[2]); ; p = path.Dir(p) {
			out = append(out, cgroup{dir: filepath.Join(h.root, mount, p), name: p, v2: v2})
			if p == "/" {
				break
			}
		}
	}
	return out
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// cpuQuota returns the quota in cores.
func (g cgroup) cpuQuota() (float64, bool) {
	var quota, period string
	if g.v2 {
		fields := strings.Fields(g.read("cpu.max"))
		if len(fields) != 2 {
			return 0, false
		}
		quota, period = fields[0], fields[1]
	} else {
		quota, period = g.read("cpu.cfs_quota_us"), g.read("cpu.cfs_period_us")
	}
	q, err1 := strconv.ParseInt(quota, 10, 64) // "max" or -1: none
	p, err2 := strconv.ParseInt(period, 10, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return float64(q) / float64(p), true
}

func (g cgroup) memoryLimitMiB() (int64, bool) {
	file := "memory.max"
	if !g.v2 {
		file = "memory.limit_in_bytes"
	}
	n, err := strconv.ParseInt(g.read(file), 10, 64) // "max": none
	if err != nil || n < 0 || n >= cgroupNoLimit {
		return 0, false
	}
	return n / bytesPerMiB, true
}

func (g cgroup) read(file string) string {
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// checkResources refuses what the leader would refuse.
func checkResources(r model.Resources) error {
	if len(r) > model.MaxResourceNames {
		return fmt.Errorf("%d named resources, at most %d", len(r), model.MaxResourceNames)
	}
	for name, addrs := range r {
		if name == "" || len(name) > model.MaxNameBytes {
			return fmt.Errorf("resource name %q: want 1 to %d bytes", name, model.MaxNameBytes)
		}
		if len(addrs) == 0 || len(addrs) > model.MaxAddresses {
			return fmt.Errorf("resource %s: %d addresses, want 1 to %d", name, len(addrs), model.MaxAddresses)
		}
	}
	return nil
}
