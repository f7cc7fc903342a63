//go:build linux

package workerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/unixsocket"
	"github.com/hearthd/hearth/workerd/keeper"
)

func TestAKeeperThatDoesNotAnswerIsNotTakenForDead(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, keeperDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const worker = "worker-20261130061500-deadbeef"
	kept := exec.Command("/bin/sleep", "1000")
	kept.Env = []string{keeper.EnvWorkerID + "=" + worker}
	if err := kept.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { defer close(reaped); _ = kept.Wait() }()
	defer func() { _ = kept.Process.Kill(); <-reaped }()
	silent, err := unixsocket.Listen(keeper.SocketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	open, err := keeperOpener(testLogger(t), self(t, "as-keeper"), data)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := open(ctx, worker, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a silent keeper: %v, want a timeout", err)
	}
	if !isRunning(kept.Process.Pid) {
		t.Error("what a silent keeper keeps was ended")
	}
	// One that is gone is replaced, and what it has left is ended.
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := open(ctx, worker, nil)
	if err != nil {
		t.Fatal(err)
	}
	if isRunning(kept.Process.Pid) {
		t.Error("a leftover lives")
	}
	if err := errors.Join(r.Shutdown(ctx, 0), r.Close()); err != nil {
		t.Error(err)
	}
}
