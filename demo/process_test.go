package demo

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEndpointsCountOnlyForTheProcessThatWroteThem(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadEndpoints(dir, ReadyFile, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing written: got error %v, want fs.ErrNotExist", err)
	}
	want := Endpoints{ID: "master-1", PID: os.Getpid(), GRPC: "127.0.0.1:1", Raft: "127.0.0.1:2", Serf: "127.0.0.1:3", HTTP: "127.0.0.1:4"}
	for _, name := range []string{ListeningFile, ReadyFile} {
		if err := WriteEndpoints(dir, name, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadEndpoints(dir, ReadyFile, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := ReadEndpoints(dir, ReadyFile, os.Getpid()+1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another process: got error %v, want fs.ErrNotExist", err)
	}
	RemoveEndpoints(dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after removal %v is left (error %v)", left, err)
	}

	foreign := want
	foreign.PID++
	if err := WriteEndpoints(dir, ReadyFile, foreign); err != nil {
		t.Fatal(err)
	}
	RemoveEndpoints(dir)
	if _, err := ReadEndpoints(dir, ReadyFile, foreign.PID); err != nil {
		t.Errorf("the file of another process was removed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ReadyFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEndpoints(dir, ReadyFile, 1); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a broken file: got error %v, want one that says so", err)
	}
}

// shell is a node that runs a script instead of a daemon; --data-dir and the
// directory are its $0 and $1.
func shell(t *testing.T, c Config, name, script string) *node {
	t.Helper()
	c.Exe = "/bin/sh"
	n, err := c.start(name, []string{"-c", script}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.kill(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func testConfig(t *testing.T) Config {
	t.Helper()
	return Config{Dir: t.TempDir(), Env: append(os.Environ(), "HEARTH_CONFIG_LOG_LEVEL=trace")}
}

func TestANodeThatEndsEarlyShowsItsLog(t *testing.T) {
	n := shell(t, testConfig(t), "master-1", "echo port taken >&2; exit 1")
	err := n.await(t.Context(), ReadyFile)
	if err == nil || !strings.Contains(err.Error(), "port taken") || !strings.Contains(err.Error(), n.logPath) {
		t.Errorf("got error %v, want the end of the log and its path", err)
	}
}

func TestANodeIsReadyWhenItSaysSo(t *testing.T) {
	n := shell(t, testConfig(t), "worker-1", `printf '{"id":"w","pid":%d}' $$ >"$1"/tmp; mv "$1"/tmp "$1"/ready.json; exec sleep 60`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := n.await(ctx, ReadyFile); err != nil {
		t.Fatal(err)
	}
	if n.where.ID != "w" || !n.running() || !n.id.alive() {
		t.Errorf("got %+v, running %t", n.where, n.running())
	}
	if err := n.kill(); err != nil {
		t.Fatal(err)
	}
	if n.running() || n.id.alive() {
		t.Error("it runs after kill -9")
	}
}

func TestNodesGetNoSettingsOfTheCaller(t *testing.T) {
	c := testConfig(t)
	for _, kv := range c.childEnv() {
		if strings.HasPrefix(kv, "HEARTH_") {
			t.Errorf("%s is passed on", kv)
		}
	}
	if !slices.Contains(c.childEnv(), c.mark()) {
		t.Error("the mark is missing")
	}
}

func TestWhatIsLeftOverIsFoundAndKilled(t *testing.T) {
	c := testConfig(t)
	m := marks{c.mark()}
	// The shell's child is in a session of its own and survives the shell.
	n := shell(t, c, "worker-1", "setsid sleep 60 & exec sleep 60")
	waitFor(t, "both processes to be found", func() bool { return len(m.processes()) >= 2 })
	if err := n.kill(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.gone(ctx); err == nil || !strings.Contains(err.Error(), "left over") {
		t.Errorf("got error %v, want one that tells what was left over", err)
	}
	waitFor(t, "the leftover to be gone", func() bool { return len(m.processes()) == 0 })
}

func TestARunningDemonstrationIsStoppedFromOutside(t *testing.T) {
	c := testConfig(t)
	cl := &cluster{cfg: c}
	cl.masters = []*node{shell(t, c, "master-1", "exec sleep 60")}
	cl.workers = []*node{shell(t, c, "worker-1", "exec sleep 60")}
	if err := cl.save(); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDir(c.Dir); !errors.Is(err, ErrUsage) {
		t.Errorf("its directory was taken: %v", err)
	}
	if err := Stop(t.Context(), c.Dir); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{cl.masters[0], cl.workers[0]} {
		if n.id.alive() {
			t.Errorf("%s is alive", n.name)
		}
	}
	if err := Stop(t.Context(), c.Dir); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if dir, err := prepareDir(c.Dir); err != nil || dir != c.Dir {
		t.Errorf("its directory is not free: %q, %v", dir, err)
	}
	if err := Stop(t.Context(), t.TempDir()); !errors.Is(err, ErrUsage) {
		t.Errorf("nothing to stop: got error %v, want one of usage", err)
	}
}

func TestASignalReachesNoSuccessorOfAProcess(t *testing.T) {
	n := shell(t, testConfig(t), "worker-1", "exec sleep 60")
	stale := n.id
	stale.StartTicks--
	if err := stale.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if stale.alive() || !n.id.alive() {
		t.Error("the number alone was believed")
	}
}

func TestNobodyElsesDirectoryIsTouched(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "master-thesis")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := prepareDir(dir); !errors.Is(err, ErrUsage) {
		t.Errorf("got error %v, want one of usage", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{
		"demo.json": true, "master-1": true, "worker-12.log": true,
		"master-1.txt": false, "master-": false, "other-1": false, "worker-1.log.log": false,
	} {
		if got := ours(name); got != want {
			t.Errorf("%s: ours is %t, want %t", name, got, want)
		}
	}
}

// waitFor polls a condition of other processes.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited 10 s for %s", what)
		}
	}
}
