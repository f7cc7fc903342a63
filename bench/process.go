package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/demo"
)

const (
	// startLimit bounds how long a process may take until it is ready.
	startLimit = 60 * time.Second
	// stopLimit is how long a process may take to end before it is killed.
	stopLimit = 15 * time.Second
	pollEvery = 10 * time.Millisecond
	masters   = 3
	// tailBytes of a log are shown when its process has failed.
	tailBytes = 2 << 10
)

// Rig is what every benchmark needs that starts processes.
type Rig struct {
	Exe   string   // the hearth binary
	Env   []string // of the processes; settings of Hearth in it are left out
	Dir   string   // on a disk; "" = the system's directory for temporary files
	Pairs int      // of runs
	// Progress is told what is measured now; nil = nobody.
	Progress io.Writer
}

// process is one daemon or peer that a benchmark has started. It is in a
// session of its own, so that an interrupt reaches the benchmark alone, which
// then ends it.
type process struct {
	name   string
	dir    string // its data
	log    string
	cmd    *exec.Cmd
	exited chan struct{}
	stdin  io.WriteCloser // nil unless asked for
	stdout io.ReadCloser
}

// start prepares argv with data and log below dir; run starts it.
func start(dir, name string, env, argv []string) (*process, error) {
	p := &process{name: name, dir: filepath.Join(dir, name), log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()         // the child has its own
	p.cmd = exec.Command(argv[0], argv[1:]...) //nolint:gosec,noctx // the caller's program, which stop ends
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = plainEnv(env)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return p, nil
}

// run starts the process that start has prepared.
func (p *process) run() error {
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return nil
}

// plainEnv leaves out settings of Hearth, which would change what is measured.
func plainEnv(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "HEARTH_") {
			out = append(out, kv)
		}
	}
	return out
}

// stop ends the process, by force if it does not go. Idempotent.
func (p *process) stop() {
	if p == nil || p.cmd.Process == nil {
		return
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.exited:
		return
	case <-time.After(stopLimit):
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func stopAll(list []*process) {
	var g errgroup.Group
	for _, p := range list {
		g.Go(func() error { p.stop(); return nil })
	}
	_ = g.Wait()
}

// await returns the addresses that a daemon of Hearth has written to a file.
func (p *process) await(ctx context.Context, file string) (demo.Endpoints, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("waited for %s", startLimit))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		where, err := demo.ReadEndpoints(p.dir, file, p.cmd.Process.Pid)
		if err == nil {
			return where, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return where, fmt.Errorf("%s: %w", p.name, err)
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return where, fmt.Errorf("%s ended before it was ready; the end of its log:\n%s", p.name, p.tail())
		case <-ctx.Done():
			return where, fmt.Errorf("%s is not ready: %w; the end of its log:\n%s", p.name, context.Cause(ctx), p.tail())
		}
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-tailBytes):]))
}

// anyPort lets the kernel choose every port of a daemon.
func anyPort(extra ...string) []string {
	return append([]string{"--bind", "127.0.0.1", "--grpc-port", "0", "--serf-port", "0", "--http-port", "0"}, extra...)
}

// cluster is masters, and workers where they are wanted, as processes.
type cluster struct {
	exe   string
	env   []string
	dir   string
	procs []*process
	grpc  []string // of the masters
	serf  string   // of the first master
}

// startMasters starts three masters with ordinary settings and waits until they
// serve. What has been started is in the result even on an error; stop it.
func startMasters(ctx context.Context, exe string, env []string, dir string) (*cluster, error) {
	c := &cluster{exe: exe, env: env, dir: dir}
	for n := range masters {
		args := anyPort("--raft-port", "0", "--bootstrap-expect", strconv.Itoa(masters))
		if n > 0 {
			args = append(args, "--join", c.serf)
		}
		p, err := c.daemon(fmt.Sprintf("master-%d", n+1), "master", args)
		if err != nil {
			return c, err
		}
		if n == 0 {
			where, err := p.await(ctx, demo.ListeningFile)
			if err != nil {
				return c, err
			}
			c.serf = where.Serf
		}
	}
	for _, p := range c.procs {
		where, err := p.await(ctx, demo.ReadyFile)
		if err != nil {
			return c, err
		}
		c.grpc = append(c.grpc, where.GRPC)
	}
	return c, nil
}

func (c *cluster) daemon(name, verb string, args []string) (*process, error) {
	p, err := start(c.dir, name, c.env, []string{c.exe, verb})
	if err != nil {
		return nil, err
	}
	p.cmd.Args = append(p.cmd.Args, append(args, "--data-dir", p.dir)...)
	c.procs = append(c.procs, p)
	return p, p.run()
}

// stop ends workers before masters.
func (c *cluster) stop() {
	if c == nil {
		return
	}
	n := min(masters, len(c.procs))
	stopAll(c.procs[n:])
	stopAll(c.procs[:n])
}
