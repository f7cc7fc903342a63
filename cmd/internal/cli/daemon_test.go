package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/demo"
)

func TestReloadTakesTheNewLogLevelOrNothing(t *testing.T) {
	var out bytes.Buffer
	log := newLogger("hearth", config.Log{Level: "info"}, &out)
	part := log.Named("raft")
	level, levelErr := "debug", error(nil)
	r := reloader{log: log, level: func() (string, error) { return level, levelErr }}
	r.reload()
	if !part.IsDebug() {
		t.Error("a part of the logger did not follow to debug")
	}
	level, levelErr = "", errors.New("no such file")
	r.reload()
	if !part.IsDebug() || !strings.Contains(out.String(), "no such file") {
		t.Errorf("a reload that failed changed the level, or was not logged:\n%s", out.String())
	}
}

func TestReadyFilesFollowTheDaemon(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ready := make(chan struct{})
	where := func() demo.Endpoints { return demo.Endpoints{ID: "w", PID: os.Getpid()} }
	want := errors.New("the daemon's own")
	err := announced(ctx, hclog.NewNullLogger(), dir, ready, where, func(ctx context.Context) error {
		close(ready)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			if e, err := demo.ReadEndpoints(dir, demo.ReadyFile, os.Getpid()); err == nil {
				if e.ID != "w" {
					t.Errorf("got id %q, want w", e.ID)
				}
				return want
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
	if _, err := os.Stat(filepath.Join(dir, demo.ReadyFile)); !os.IsNotExist(err) {
		t.Errorf("the ready file is left: %v", err)
	}
	if err := announced(ctx, hclog.NewNullLogger(), dir, make(chan struct{}), where, func(context.Context) error { return nil }); err != nil {
		t.Errorf("a daemon that was never ready: %v", err)
	}
}

func TestMissingTLSFilesAreErrorsOfUsage(t *testing.T) {
	if src, err := tlsSource(config.TLS{}); src != nil || err != nil {
		t.Errorf("no files: got %v, %v, want nothing", src, err)
	}
	_, err := tlsSource(config.TLS{CAFile: "ca", CertFile: "cert", KeyFile: "key"})
	if err == nil || exitCode(err) != exitUsage {
		t.Errorf("got error %v, want one of usage", err)
	}
}
