//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// How what is in use on the machine is looked at.
const (
	hostMemoryInterval = 10 * time.Second
	// hostMemoryStepMiB is by how much it must have changed to be told: gossip is not for noise.
	hostMemoryStepMiB = 64
	// hostMemoryShare is that step as a part of the whole, on a large machine.
	hostMemoryShare = 100
)

// usedMemory is how much memory is in use, by whomever, in MiB: on the machine, or in the cgroup whose
// limit counts instead. What the system could drop at any moment is not in use.
func (h host) usedMemory() (int64, error) {
	total, err := h.memTotalMiB()
	if err != nil {
		return 0, err
	}
	used, found := int64(0), false
	for _, g := range h.cgroups("memory") {
		limit, ok := g.memoryLimitMiB()
		if !ok || limit >= total {
			continue
		}
		if n, ok := g.memoryUsedMiB(); ok {
			total, used, found = limit, n, true
		}
	}
	if found {
		return used, nil
	}
	available, err := h.memInfoMiB("MemAvailable")
	if err != nil {
		return 0, err
	}
	return max(0, total-available), nil
}

func (g cgroup) memoryUsedMiB() (int64, bool) {
	file, cache := "memory.current", "inactive_file"
	if !g.v2 {
		file, cache = "memory.usage_in_bytes", "total_inactive_file"
	}
	n, err := strconv.ParseInt(g.read(file), 10, 64)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(g.read("memory.stat")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == cache {
			if idle, err := strconv.ParseInt(value, 10, 64); err == nil {
				n = max(0, n-idle)
			}
		}
	}
	return n / bytesPerMiB, true
}

// memInfoMiB reads one line of /proc/meminfo.
func (h host) memInfoMiB(name string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(h.root, "proc/meminfo"))
	if err != nil {
		return 0, fmt.Errorf("find out the machine's memory: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		rest, ok := strings.CutPrefix(line, name+":")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("find out the machine's memory: %w", err)
		}
		return kib / kibPerMiB, nil
	}
	return 0, fmt.Errorf("find out the machine's memory: no %s in /proc/meminfo", name)
}

// hostMemory tells the cluster what is in use on the machine, and warns when less is free than the worker
// still offers: what is placed there then may not find it (AC-10).
type hostMemory struct {
	log     hclog.Logger
	host    host
	total   int64 // MiB
	offered int64 // MiB
	// granted is what the executors hold, in MiB; ok is false once the worker has ended.
	granted func(ctx context.Context) (mib int64, ok bool)
	tell    func(mib int64) // never blocks

	told  int64 // -1: nothing yet
	short bool
}

// run looks until ctx ends.
func (m *hostMemory) run(ctx context.Context) error {
	m.told = -1
	tick := time.NewTicker(hostMemoryInterval)
	defer tick.Stop()
	for {
		if err := m.look(ctx); err != nil {
			m.log.Warn("what is in use on the machine is not shown", "err", err)
			<-ctx.Done()
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (m *hostMemory) look(ctx context.Context) error {
	used, err := m.host.usedMemory()
	if err != nil {
		return err
	}
	step := max(hostMemoryStepMiB, m.total/hostMemoryShare)
	if m.told < 0 || used >= m.told+step || used <= m.told-step {
		m.told = used
		m.tell(used)
	}
	granted, ok := m.granted(ctx)
	if !ok {
		return nil
	}
	free, open := m.total-used, m.offered-granted
	switch short := free < open; {
	case short && !m.short:
		m.short = true
		m.log.Warn("less memory is free on this machine than the worker still offers: something else uses it",
			"total_mib", m.total, "reserved_mib", max(0, m.total-m.offered), "offered_mib", m.offered, "granted_mib", granted,
			"host_used_mib", used, "host_free_mib", free, "free_offer_mib", open)
	case !short && m.short && free >= open+step:
		m.short = false
		m.log.Info("as much memory is free on this machine as the worker still offers", "host_free_mib", free, "free_offer_mib", open)
	}
	return nil
}

// grantedMemory is what the executors that have not ended hold, in MiB.
func (a *agent) grantedMemory(ctx context.Context) (int64, bool) {
	var sum int64
	err := a.do(ctx, func() {
		for _, e := range a.table.execs {
			if !e.report.State.Terminal() {
				sum += e.memoryMiB
			}
		}
	})
	return sum, !errors.Is(err, errAgentEnded) && err == nil
}
