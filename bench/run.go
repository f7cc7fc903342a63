package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/demo"
)

// Targets of shell tasks: how much of the peers' rate hearth run keeps, although it
// has what they have not (other machines, captured output, a directory and a process
// group for each task).
const (
	runOfXargs    = 1
	runOfParallel = 1
)

// RunConfig says what Run measures with.
type RunConfig struct {
	Rig
	// Xargs and Parallel (GNU) are the peers' binaries; "" = missing.
	Xargs, Parallel string
	Tasks           int // of one run
	Jobs            int // tasks at once
}

// Run measures hearth run of many shell commands that do nothing, on a cluster of
// one worker on this machine, beside xargs and GNU parallel in turns, and beside
// plain starts of the shell. It starts and ends all processes and removes what they
// wrote.
func Run(ctx context.Context, cfg RunConfig) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "hearth-bench-run-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &shellRun{cfg: cfg, dir: dir, report: NewReport("run")}
	defer func() { b.cluster.stop() }()
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	if err := b.measure(ctx); err != nil {
		return nil, err
	}
	b.report.Note("Each run starts %d times `sh -c true`, %d at once. The time of hearth run includes the registration of the application, the launch of the executor and its end.", cfg.Tasks, cfg.Jobs)
	return b.report, nil
}

// shellRun is one run of the benchmark. One goroutine owns it.
type shellRun struct {
	cfg     RunConfig
	dir     string
	report  *Report
	cluster *cluster
	inputs  string
}

func (b *shellRun) start(ctx context.Context) (err error) {
	if b.cluster, err = startMasters(ctx, b.cfg.Exe, b.cfg.Env, b.dir); err != nil {
		return err
	}
	w, err := b.cluster.daemon("worker-1", "worker", anyPort(
		"--masters", strings.Join(b.cluster.grpc, ","), "--join", b.cluster.serf,
		"--cores", strconv.Itoa(b.cfg.Jobs), "--memory", "2g",
	))
	if err != nil {
		return err
	}
	if _, err := w.await(ctx, demo.ReadyFile); err != nil {
		return err
	}
	var in strings.Builder
	for i := range b.cfg.Tasks {
		fmt.Fprintln(&in, i)
	}
	b.inputs = in.String()
	return nil
}

func (b *shellRun) measure(ctx context.Context) error {
	jobs := strconv.Itoa(b.cfg.Jobs)
	ours := b.timed(append([]string{"HEARTH_MASTERS=" + strings.Join(b.cluster.grpc, ",")}, plainEnv(b.cfg.Env)...),
		b.cfg.Exe, "run", "--jobs", jobs, "true #")
	peers := []struct {
		name   string
		binary string
		args   []string
		target float64
	}{
		{"xargs", b.cfg.Xargs, []string{"-n", "1", "-P", jobs, "sh", "-c", "true"}, runOfXargs},
		{"GNU parallel", b.cfg.Parallel, []string{"--will-cite", "-j", jobs, "true #"}, runOfParallel},
	}
	var all []float64
	for _, p := range peers {
		claim := "shell tasks of hearth run over " + p.name
		if p.binary == "" {
			b.report.PeerMissing(claim, p.target, p.name)
			continue
		}
		if b.cfg.Progress != nil {
			_, _ = fmt.Fprintf(b.cfg.Progress, "%d tasks beside %s\n", b.cfg.Tasks, p.name)
		}
		got, err := Alternate(ctx, b.cfg.Pairs, ours, b.timed(b.cfg.Env, p.binary, p.args...))
		if err != nil {
			return err
		}
		all = append(all, got.A...)
		b.report.Figure(p.name, "/s", got.B)
		b.report.AtLeast(claim, "", got.Ratio(), p.target)
	}
	var spawns []float64
	for range b.cfg.Pairs {
		v, err := SpawnProbe(ctx, []string{"/bin/sh", "-c", "true"}, b.cfg.Jobs, b.cfg.Tasks)
		if err != nil {
			return err
		}
		spawns = append(spawns, v)
	}
	b.report.Figure("hearth run", "/s", all)
	b.report.Figure("spawn probe: os/exec start and wait of the shell", "/s", spawns)
	return nil
}

// timed runs a program with the inputs on its standard input and returns how many
// it did in a second. A program that fails fails the benchmark.
func (b *shellRun) timed(env []string, binary string, args ...string) Measure {
	return func(ctx context.Context) (float64, error) {
		ctx, cancel := context.WithTimeout(ctx, taskLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the caller's programs
		cmd.Env, cmd.Stdin, cmd.Dir = env, strings.NewReader(b.inputs), b.dir
		begin := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("run %s: %w: %s", binary, err, out[max(0, len(out)-tailBytes):])
		}
		return float64(b.cfg.Tasks) / time.Since(begin).Seconds(), nil
	}
}
