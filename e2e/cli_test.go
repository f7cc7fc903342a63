//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/config"
	"github.com/hearthd/hearth/model"
)

// commandTimeout bounds one run of the command line; it is far beyond what any
// of them should take.
const commandTimeout = 90 * time.Second

// result is what came of one command.
type result struct {
	args           []string
	stdout, stderr string
	code           int // -1: ended by a signal
	took           time.Duration
}

// app is the id that submit printed.
func (r result) app(t testing.TB) model.AppID {
	t.Helper()
	id := strings.TrimSpace(r.stdout)
	if !strings.HasPrefix(id, "app-") {
		t.Fatalf("hearth %q printed no application id: code %d, stdout %q, stderr %q", r.args, r.code, r.stdout, r.stderr)
	}
	return model.AppID(id)
}

func (r result) wantCode(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("hearth %q: exit code %d, want %d\nstdout: %s\nstderr: %s", r.args, r.code, code, clip(r.stdout), clip(r.stderr))
	}
	return r
}

func (r result) wantStderr(t testing.TB, parts ...string) result {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(r.stderr, p) {
			t.Errorf("hearth %q: stderr does not name %q: %s", r.args, p, clip(r.stderr))
		}
	}
	return r
}

func (r result) decode(t testing.TB, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("hearth %q: stdout is no JSON: %v\n%s\nstderr: %s", r.args, err, clip(r.stdout), clip(r.stderr))
	}
}

func clip(s string) string {
	const most = 2000
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// ownEnv is the environment of the tests without any setting of Hearth.
func ownEnv(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "HEARTH_") {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// command is one run of the command line.
type command struct {
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
	started        time.Time
}

// startHearth starts the binary with the environment of the tests and extra.
func startHearth(t testing.TB, extra []string, stdin string, args ...string) *command {
	t.Helper()
	return startBinary(t, hearthBinary, extra, stdin, args...)
}

// startBinary is startHearth with another build.
func startBinary(t testing.TB, binary string, extra []string, stdin string, args ...string) *command {
	t.Helper()
	return startWith(t, "", binary, extra, stdin, args...)
}

// startIn starts any program in a directory.
func startIn(t testing.TB, dir string, argv ...string) *command {
	t.Helper()
	return startWith(t, dir, argv[0], nil, "", argv[1:]...)
}

func startWith(t testing.TB, dir, binary string, extra []string, stdin string, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	c := &command{cancel: cancel, started: time.Now()}
	c.cmd = exec.CommandContext(ctx, binary, args...)
	c.cmd.Env, c.cmd.Dir = ownEnv(extra...), dir
	c.cmd.Stdin = strings.NewReader(stdin)
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	// Signals of our terminal are not for it.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = 5 * time.Second
	if err := c.cmd.Start(); err != nil {
		cancel()
		t.Fatalf("start hearth %q: %v", args, err)
	}
	return c
}

func (c *command) wait(t testing.TB) result {
	t.Helper()
	defer c.cancel()
	err := c.cmd.Wait()
	r := result{
		args: c.cmd.Args[1:], stdout: c.stdout.String(), stderr: c.stderr.String(),
		code: c.cmd.ProcessState.ExitCode(), took: time.Since(c.started),
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("hearth %q: %v\nstdout: %s\nstderr: %s", r.args, err, clip(r.stdout), clip(r.stderr))
	}
	return r
}

// hearth runs the binary without any cluster.
func hearth(t testing.TB, args ...string) result {
	t.Helper()
	return startHearth(t, nil, "", args...).wait(t)
}

// run runs a command against all masters of the cluster.
func (c *cluster) run(t testing.TB, args ...string) result {
	t.Helper()
	return c.start(t, args...).wait(t)
}

func (c *cluster) start(t testing.TB, args ...string) *command {
	t.Helper()
	return startHearth(t, c.env(c.masterList), "", args...)
}

// via runs a command with one master as the only address.
func (c *cluster) via(t testing.TB, m *node, args ...string) result {
	t.Helper()
	return startHearth(t, c.env(m.GRPC), "", args...).wait(t)
}

// env is the environment of a command that knows these masters.
func (c *cluster) env(masters string, more ...string) []string {
	return slices.Concat([]string{config.EnvMasters + "=" + masters}, c.access.env, more)
}
