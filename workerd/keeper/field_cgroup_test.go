//go:build linux

package keeper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// fakeCgroup makes a directory with the files that the kernel would put into a cgroup.
func fakeCgroup(t *testing.T, dir string, files ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPR21WhatSupervisesIsNotChargedToWhatIsSupervised: the keeper, which copies the output too, stands in a cgroup beside
// those of the processes, not in nor above one of them, and the limit of a process is written into its own alone. That the
// kernel then charges them apart needs a delegated cgroup v2, which the machines of the tests do not have.
func TestPR21WhatSupervisesIsNotChargedToWhatIsSupervised(t *testing.T) {
	base := t.TempDir()
	fakeCgroup(t, base, cgroupProcs, cgroupSubtree)
	supervisor := filepath.Join(base, SupervisorCgroup)
	fakeCgroup(t, supervisor, cgroupProcs)
	const worker, key = "worker-1", "app-1/0"
	fakeCgroup(t, filepath.Join(base, "hearth-"+cgroupName(worker)), cgroupSubtree)
	own := filepath.Join(base, "hearth-"+cgroupName(worker), cgroupName(key))
	fakeCgroup(t, own, "memory.max")
	pid := strconv.Itoa(os.Getpid())
	if err := os.WriteFile(filepath.Join(base, cgroupProcs), []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}

	tree, err := prepareCgroups(base, worker)
	if err != nil {
		t.Fatal(err)
	}
	cg, err := tree.create(key, 256)
	if err != nil {
		t.Fatal(err)
	}
	cg.opened()
	read := func(dir, name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	diff(t, "where the keeper stands", read(supervisor, cgroupProcs), pid)
	diff(t, "the cgroup of the process", cg.dir, own)
	diff(t, "its limit", read(own, "memory.max"), "268435456")
	for _, dir := range []string{tree.dir, own} {
		if strings.HasPrefix(dir+"/", supervisor+"/") || strings.HasPrefix(supervisor+"/", dir+"/") {
			t.Errorf("%s and the keeper's %s are not beside each other", dir, supervisor)
		}
	}
	for _, dir := range []string{base, supervisor, tree.dir} {
		if _, err := os.Stat(filepath.Join(dir, "memory.max")); err == nil {
			t.Errorf("%s has a limit too", dir)
		}
	}
}
