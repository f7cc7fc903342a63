//go:build linux

package workerd

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// AC-10: a machine of 16 GiB of which 12 are offered while others use 9.
func TestAC10AWorkerWarnsWhenLessIsFreeOnItsMachineThanItStillOffers(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    7340032 kB\n"})
	var log bytes.Buffer
	var told []int64
	granted := int64(0)
	m := &hostMemory{
		log: hclog.New(&hclog.LoggerOptions{Output: &log}), host: host{root: root, cpus: 8}, total: 16384, offered: 12288,
		granted: func(context.Context) (int64, bool) { return granted, true },
		tell:    func(mib int64) { told = append(told, mib) },
		told:    -1,
	}
	for range 3 {
		if err := m.look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || told[0] != 9216 {
		t.Errorf("told %v, want 9216 once", told)
	}
	for _, part := range []string{
		"[WARN]", "total_mib=16384", "reserved_mib=4096", "offered_mib=12288", "granted_mib=0", "host_used_mib=9216", "host_free_mib=7168", "free_offer_mib=12288",
	} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%s is missing from:\n%s", part, log.String())
		}
	}
	if n := strings.Count(log.String(), "[WARN]"); n != 1 {
		t.Errorf("warned %d times, want once:\n%s", n, log.String())
	}
	granted = 8192 // what is granted is what is used
	if err := m.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.short || !strings.Contains(log.String(), "[INFO]") {
		t.Errorf("still short of memory:\n%s", log.String())
	}
}

func TestWhatIsInUseInACgroupCountsInsteadOfTheMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "8589934592", "sys/fs/cgroup/a/memory.current": "3221225472",
			"sys/fs/cgroup/a/memory.stat": "anon 1\ninactive_file 1073741824\n",
		}, 2048},
		"version 1": {map[string]string{
			"proc/self/cgroup": "4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "8589934592",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "3221225472",
		}, 3072},
		"none": {map[string]string{}, 6144},
	} {
		c.files["proc/meminfo"] = "MemTotal: 16777216 kB\nMemAvailable: 10485760 kB\n"
		got, err := host{root: tree(t, c.files), cpus: 1}.usedMemory()
		if err != nil || got != c.want {
			t.Errorf("%s: %d MiB, %v; want %d", name, got, err, c.want)
		}
	}
	if _, err := (host{root: tree(t, map[string]string{"proc/meminfo": meminfo16G})}).usedMemory(); err == nil {
		t.Error("no error without MemAvailable")
	}
}
