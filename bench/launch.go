package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	launchWorkers = 2
	// launchLimit bounds one run, until everything of it has ended.
	launchLimit = 2 * time.Minute
	// launchMemoryMiB is asked for by each executor.
	launchMemoryMiB = 1
	// launchRest is how long masters and workers are watched doing nothing.
	launchRest = 2 * time.Second
	// goneEvery is how often a master is asked whether all executors are gone: an
	// answer has all of them, and is part of what is measured.
	goneEvery = 100 * time.Millisecond
)

// Targets of B4.
const (
	launchPerSecond  = 1200
	launchOfSpawning = 0.7
	launchMillis     = 3
)

// LaunchConfig says what Launch measures with.
type LaunchConfig struct {
	Rig
	// Noop is the executor: a static binary that registers and does nothing.
	Noop      string
	Executors int // of one run
	Single    int // applications of one executor, for latency
}

// Launch measures how fast executors are started on two workers, until each has
// registered with its driver, beside plain starts of the same binary (B4). It
// starts and ends masters, workers and executors, and removes what they wrote.
func Launch(ctx context.Context, cfg LaunchConfig) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "hearth-bench-launch-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := CheckDurable(dir); err != nil {
		return nil, err
	}
	b := &launch{cfg: cfg, dir: dir, report: NewReport("launch")}
	defer b.stop()
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	if err := b.latency(ctx); err != nil {
		return nil, err
	}
	if err := b.rate(ctx); err != nil {
		return nil, err
	}
	b.notes()
	return b.report, nil
}

// launch is one run of the benchmark. One goroutine owns it.
type launch struct {
	cfg     LaunchConfig
	dir     string
	report  *Report
	cluster *cluster
	client  *client.Client
	server  *executorServer
	program model.Program
	flushed []float64
	keepers []int // process ids
	spent   launchFigures
}

func (b *launch) say(format string, args ...any) {
	if b.cfg.Progress != nil {
		_, _ = fmt.Fprintf(b.cfg.Progress, format+"\n", args...)
	}
}

func (b *launch) start(ctx context.Context) (err error) {
	if b.program, err = programAt(b.cfg.Noop); err != nil {
		return err
	}
	b.say("starting three masters and two workers in %s", b.dir)
	if b.cluster, err = startMasters(ctx, b.cfg.Exe, b.cfg.Env, b.dir); err != nil {
		return err
	}
	if b.server, err = serveExecutors(ctx); err != nil {
		return err
	}
	if b.client, err = client.New(client.Config{Masters: b.cluster.grpc, Principal: "bench"}); err != nil {
		return err
	}
	cores := (b.cfg.Executors+launchWorkers-1)/launchWorkers + 1
	for n := range launchWorkers {
		p, err := b.cluster.daemon(fmt.Sprintf("worker-%d", n+1), "worker", anyPort(
			"--masters", strings.Join(b.cluster.grpc, ","), "--join", b.cluster.serf,
			"--cores", strconv.Itoa(cores), "--memory", strconv.Itoa(cores*launchMemoryMiB+1024)+"m",
		))
		if err != nil {
			return err
		}
		if _, err := p.await(ctx, demo.ReadyFile); err != nil {
			return err
		}
	}
	if err := b.whole(ctx); err != nil {
		return err
	}
	return b.findKeepers()
}

// whole waits until both workers are registered.
func (b *launch) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		list, err := b.client.Workers(ctx)
		alive := 0
		for _, w := range list.Workers {
			if w.State == model.WorkerAlive {
				alive++
			}
		}
		if err == nil && alive == launchWorkers {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers are registered: %w", alive, launchWorkers, ctx.Err())
		}
	}
}

func (b *launch) stop() {
	b.cluster.stop()
	b.server.close()
	if b.client != nil {
		_ = b.client.Close()
	}
}

// programAt describes the binary at path, which workers find there themselves.
func programAt(path string) (model.Program, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return model.Program{}, fmt.Errorf("executor binary: %w", err)
	}
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return model.Program{}, fmt.Errorf("executor binary: %w; `make bench-launch` builds it", err)
	}
	defer func() { _ = f.Close() }() // only read
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return model.Program{}, fmt.Errorf("executor binary %s: %w", path, err)
	}
	return model.Program{SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: n, Path: path}, nil
}

// launch registers one application of n executors and returns how long it took
// until all of them had registered with its driver. Then it ends them, and waits
// until they are gone.
func (b *launch) launch(ctx context.Context, n int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, launchLimit)
	defer cancel()
	begin := time.Now()
	reply, err := b.client.RegisterApp(ctx, model.AppSpec{
		Name: "bench-launch", Kind: model.AppKindDriver, Executors: n, DriverAddr: b.server.addr, Program: b.program,
		Profile: model.Profile{Cores: 1, MemoryMiB: launchMemoryMiB},
	})
	if err != nil {
		return 0, err
	}
	d, err := b.server.open(ctx, b.client, reply, n)
	if err != nil {
		return 0, err
	}
	defer d.close()
	at, err := d.await(ctx)
	if err != nil {
		return 0, err
	}
	took := at.Sub(begin)
	if err := b.client.KillApp(ctx, reply.App, "the run is over"); err != nil {
		return 0, err
	}
	return took, b.gone(ctx, reply.App)
}

// gone waits until no executor of an application is left.
func (b *launch) gone(ctx context.Context, app model.AppID) error {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for {
		v, err := b.client.App(ctx, rpc.AppRequest{ID: string(app)})
		if err != nil {
			return err
		}
		if v.Cores == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s holds %d cores still: %w", app, v.Cores, ctx.Err())
		}
	}
}

// latency launches one executor at a time.
func (b *launch) latency(ctx context.Context) error {
	b.say("%d applications of one executor, one after the other", b.cfg.Single)
	var took []float64
	for i := range b.cfg.Single + 1 {
		d, err := b.launch(ctx, 1)
		if err != nil {
			return err
		}
		if i > 0 { // the first one finds no program in the cache of a worker
			took = append(took, d.Seconds()*1e3)
		}
	}
	floor, err := b.floor(ctx)
	if err != nil {
		return err
	}
	r := b.report
	r.Figure("B4 submitted to registered, p50", "ms", took)
	r.Figure("of that, os/exec start until registered, without Hearth, p50", "ms", floor)
	r.Figure("B4 submitted to registered, p99", "ms", []float64{Percentile(took, 0.99)})
	r.AtMost("B4 submitted to registered, p50", "ms", MedianInterval(took), launchMillis)
	return nil
}

// floor starts one executor at a time that registers, without Hearth, and returns
// how many milliseconds each took.
func (b *launch) floor(ctx context.Context) (took []float64, err error) {
	for range b.cfg.Single {
		rate, err := b.server.registerProbe(ctx, b.dir, b.program.Path, 1, 1)
		if err != nil {
			return nil, err
		}
		took = append(took, 1e3/rate)
	}
	return took, nil
}

// rate launches many executors, beside plain starts of the binary.
func (b *launch) rate(ctx context.Context) error {
	if err := b.rest(ctx); err != nil {
		return err
	}
	b.say("%d executors at once, beside as many plain starts", b.cfg.Executors)
	parallel := 2 * runtime.NumCPU()
	n := b.cfg.Executors
	plain := b.countedPlain(&b.spent.plain, n, func(ctx context.Context) (float64, error) {
		return SpawnProbe(ctx, []string{b.program.Path}, parallel, n)
	})
	registering := b.countedPlain(&b.spent.registering, n, func(ctx context.Context) (float64, error) {
		return b.server.registerProbe(ctx, b.dir, b.program.Path, parallel, n)
	})
	var registered []float64
	got, err := Alternate(ctx, b.cfg.Pairs, b.counted(n, func(ctx context.Context) (float64, error) {
		return b.flushing(ctx, n)
	}), func(ctx context.Context) (float64, error) {
		rate, err := registering(ctx)
		if err != nil {
			return 0, err
		}
		registered = append(registered, rate)
		return plain(ctx)
	})
	if err != nil {
		return err
	}
	r := b.report
	r.Figure("B4 executors registered", "/s", got.A)
	r.Figure("spawn probe: os/exec start and wait", "/s", got.B)
	r.Figure("register probe: os/exec start until registered, without Hearth", "/s", registered)
	r.Figure("B4 executors registered over the register probe", "", Pairs{A: got.A, B: registered}.ratios())
	r.Figure("flushes of the disk for each executor, its end included", "flushes", b.flushed)
	b.spent.report(r)
	rate, ratio := MedianInterval(got.A), got.Ratio()
	// Either is enough: the first is 70 % of the probe on the machine that it
	// was set on.
	if rate.Low >= launchPerSecond {
		r.AtLeast("B4 executors registered", "/s", rate, launchPerSecond)
	} else {
		r.AtLeast("B4 executors registered over the spawn probe", "", ratio, launchOfSpawning)
	}
	return nil
}

// flushing launches n executors, notes what the disk did meanwhile, and returns
// how many have registered in a second.
func (b *launch) flushing(ctx context.Context, n int) (float64, error) {
	before, ok := flushes(b.dir)
	d, err := b.launch(ctx, n)
	if err != nil {
		return 0, err
	}
	if after, _ := flushes(b.dir); ok {
		b.flushed = append(b.flushed, float64(after-before)/float64(n))
	}
	return float64(n) / d.Seconds(), nil
}

func (b *launch) notes() {
	r := b.report
	r.Note("3 master and %d worker processes with ordinary settings on one file system. Executors are processes of a static binary of %d KiB that registers over gRPC with the driver in the benchmark's process, which checks the secret that the leader told it; the link between them is plain.", launchWorkers, b.program.Bytes>>10)
	r.Note("Time runs from the submission to the registration of the last executor: two commits, the worker's journal, its directory, the start by the keeper. The spawn probe starts the same binary, which then ends at once, %d at a time; the register probe starts it as an executor that registers with the same driver, and nobody places, records or watches it.", 2*runtime.NumCPU())
	r.Note("Flushes are those that the disk has done for anybody, from its stat file in /sys.")
}
