//go:build linux

package workerd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/leaktest"
	"github.com/hearthd/hearth/workerd/keeper"
)

// The test binary is also the keeper and an executor: the first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "as-keeper":
			os.Exit(keeperMain(os.Args[2:]))
		case "as-worker":
			os.Exit(workerMain(os.Args[2], os.Args[3]))
		case "as-executor":
			fmt.Fprintln(os.Stdout, "executor of", os.Getenv(keeper.EnvAppID), "with", os.Getenv(EnvDriverAddr))
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			<-ctx.Done()
			return
		}
	}
	// The race detector makes a process linger for a second at its end, for which goleak would not
	// wait in keepers.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}

func keeperMain(args []string) int {
	fs := flag.NewFlagSet("keeper", flag.ContinueOnError)
	dir := fs.String("state-dir", "", "")
	id := fs.String("worker-id", "", "")
	if fs.Parse(args) != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := keeper.Main(ctx, keeper.Config{StateDir: *dir, WorkerID: *id, Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr})})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// workerMain runs a worker for the leader at an address until SIGTERM.
func workerMain(dataDir, leader string) int {
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	w, err := New(Config{Masters: []string{leader}, Cores: 4, MemoryMiB: 512, DataDir: dataDir, Bind: "127.0.0.1"}, Deps{
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr}), KeeperExe: []string{exe, "as-keeper"},
		ExecutorExe: []string{exe, "as-executor"}, Environ: os.Environ(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// self is the argv prefix of this binary in another role.
func self(t testing.TB, role string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, role}
}

const patience = 20 * time.Second

// eventually fails unless ok becomes true within patience; what says what was waited for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func testLogger(t testing.TB) hclog.Logger {
	t.Helper()
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}, DisableTime: false})
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Helper()
	w.t.Log(string(p[:max(0, len(p)-1)]))
	return len(p), nil
}
