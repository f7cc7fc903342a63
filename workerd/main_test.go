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
	"go.uber.org/goleak"

	"github.com/hearthd/hearth/workerd/keeper"
)

// The test binary is also the keeper and an executor: the first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "as-keeper":
			os.Exit(keeperMain(os.Args[2:]))
		case "as-executor":
			fmt.Println("executor of", os.Getenv(keeper.EnvAppID), "with", os.Getenv(EnvDriverAddr))
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			<-ctx.Done()
			return
		}
	}
	goleak.VerifyTestMain(m)
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

// self is the argv prefix of this binary in another role.
func self(t *testing.T, role string) []string {
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

func testLogger(t *testing.T) hclog.Logger {
	t.Helper()
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: testWriter{t}, DisableTime: false})
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Helper()
	w.t.Log(string(p[:max(0, len(p)-1)]))
	return len(p), nil
}
