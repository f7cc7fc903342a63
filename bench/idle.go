package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
)

const (
	// idleCores and idleMemory (MiB) are what a worker of an idle cluster offers.
	idleCores, idleMemory = 16, 65536
	// idleSettle passes between the last submission and the measurement, so that
	// what registrations leave behind is done.
	idleSettle = 15 * time.Second
	// idleLimit bounds how long the cluster may take to become idle.
	idleLimit = 2 * time.Minute
	// idleStarts is how many sessions are opened at once.
	idleStarts = 8
)

// Targets of B13 and of an idle cluster, in percent of a core and MB.
const (
	idlePercent = 0.5
	idleMemoryM = 40
)

// IdleConfig says what Idle measures with. The pairs of the Rig are not used.
type IdleConfig struct {
	Rig
	Workers int           // pretended ones; at least 1
	Apps    int           // that wait; at least 1
	Slices  int           // of time, each a figure of its own; at least 1
	Slice   time.Duration // of one
	Etcd    string        // the peer's binary; "" = missing
}

// Idle measures what three masters cost while nothing happens: first without a
// worker and an application, then so beside idle members of etcd, and then with every core of the workers taken by one
// application and many more that wait for one. Workers are pretended by sessions
// of this process that beat as real ones do. It starts and ends the masters and
// removes what they wrote.
func Idle(ctx context.Context, cfg IdleConfig) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "hearth-bench-idle-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &idle{cfg: cfg, report: NewReport("idle"), tally: &tally{}}
	defer b.stop()
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return b.start(ctx, dir) },
		b.measureEmpty,
		func(ctx context.Context) error { return b.measurePeers(ctx, dir) },
		b.open, b.fill, b.measure,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b.report.Note("empty: the same masters before, without a worker and an application")
	if cfg.Etcd != "" {
		b.report.Note("beside members of etcd: three empty masters and three members at a time, in the same slices; members have the masters' nice value, and no client")
	}
	b.report.Note("three masters, %d pretended workers with a session each, one application of %d executors of %d cores that run, %d applications that wait for a core",
		cfg.Workers, cfg.Workers, idleCores, cfg.Apps)
	b.report.Note("processor time in user space and in the kernel, by the clocks of the processes; %d times %s", cfg.Slices, cfg.Slice)
	return b.report, nil
}

// idle is one run of the benchmark. One goroutine owns it.
type idle struct {
	cfg     IdleConfig
	report  *Report
	cluster *cluster
	client  *client.Client
	workers []*pretended
	tally   *tally
	leader  int       // position in cluster.procs
	addr    string    // the leader's
	empty   []float64 // percent of a core of all masters, in each slice of the empty cluster
}

func (b *idle) say(format string, args ...any) {
	if b.cfg.Progress != nil {
		_, _ = fmt.Fprintf(b.cfg.Progress, format+"\n", args...)
	}
}

func (b *idle) start(ctx context.Context, dir string) (err error) {
	b.say("starting three masters in %s", dir)
	if b.cluster, err = startMasters(ctx, b.cfg.Exe, b.cfg.Env, dir); err != nil {
		return err
	}
	if b.client, err = client.New(client.Config{Masters: b.cluster.grpc, Principal: "bench"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	st, err := b.client.Staleness(ctx)
	if err != nil {
		return err
	}
	for i, addr := range b.cluster.grpc {
		if addr == st.LeaderAddr {
			b.leader = i
		}
	}
	b.addr = st.LeaderAddr
	return nil
}

// open lets the workers come.
func (b *idle) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idleLimit)
	defer cancel()
	b.say("opening %d sessions", b.cfg.Workers)
	b.workers = make([]*pretended, b.cfg.Workers)
	var g errgroup.Group
	g.SetLimit(idleStarts)
	for n := range b.workers {
		g.Go(func() (err error) {
			// It outlives the start.
			b.workers[n], err = pretendOffering(context.WithoutCancel(ctx), b.addr, n+1, b.tally,
				model.Offer{Cores: idleCores, MemoryMiB: idleMemory})
			if err == nil {
				b.workers[n].runs.Store(true)
			}
			return err
		})
	}
	return g.Wait()
}

func (b *idle) stop() {
	for _, w := range b.workers {
		if w != nil {
			w.close()
		}
	}
	if b.client != nil {
		_ = b.client.Close()
	}
	b.cluster.stop()
}

// fill takes every core and lets applications wait.
func (b *idle) fill(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, idleLimit, fmt.Errorf("waited for %s", idleLimit))
	defer cancel()
	spec := func(name string, executors, cores int) model.AppSpec {
		return model.AppSpec{
			Name: name, Kind: model.AppKindCommand, Executors: executors, Restart: model.RestartAlways,
			Profile: model.Profile{Cores: cores, MemoryMiB: 1024},
			Command: model.Command{Argv: []string{"sleep", "infinity"}},
		}
	}
	running := b.tally.expect(b.cfg.Workers)
	if _, err := b.client.RegisterApp(ctx, spec("bench-all", b.cfg.Workers, idleCores)); err != nil {
		return fmt.Errorf("submit what fills the workers: %w", err)
	}
	select {
	case <-running:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d executors were launched: %w", b.tally.seen(), b.cfg.Workers, context.Cause(ctx))
	}
	b.say("submitting %d applications", b.cfg.Apps)
	var g errgroup.Group
	g.SetLimit(idleStarts)
	for n := range b.cfg.Apps {
		g.Go(func() error {
			_, err := b.client.RegisterApp(ctx, spec(fmt.Sprintf("bench-%05d", n), 1, 1))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("submit what waits: %w", err)
	}
	return pause(ctx, idleSettle)
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measureEmpty is measure before there is a worker.
func (b *idle) measureEmpty(ctx context.Context) (err error) {
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	_, b.empty, err = b.slices(ctx, b.cluster.procs)
	return err
}

// measure looks at what it costs that time passes.
func (b *idle) measure(ctx context.Context) error {
	used, all, err := b.slices(ctx, b.cluster.procs)
	if err != nil {
		return err
	}
	return b.judge(ctx, used, all)
}

// slices lets time pass and returns what each process, and all of them, used in
// each slice of it, in percent of a core.
func (b *idle) slices(ctx context.Context, procs []*process) (used [][]float64, all []float64, err error) {
	b.say("measuring for %s", time.Duration(b.cfg.Slices)*b.cfg.Slice)
	used = make([][]float64, len(procs))
	for range b.cfg.Slices {
		began, before := time.Now(), make([]float64, len(procs))
		for i, p := range procs {
			if before[i], err = cpuSeconds(p.cmd.Process.Pid); err != nil {
				return nil, nil, err
			}
		}
		if err := pause(ctx, b.cfg.Slice); err != nil {
			return nil, nil, err
		}
		sum := 0.0
		for i, p := range procs {
			after, err := cpuSeconds(p.cmd.Process.Pid)
			if err != nil {
				return nil, nil, err
			}
			percent := (after - before[i]) / time.Since(began).Seconds() * 100
			used[i] = append(used[i], percent)
			sum += percent
		}
		all = append(all, sum)
	}
	return used, all, nil
}

// judge writes down figures and claims, after it has made sure that it measured
// what it says.
func (b *idle) judge(ctx context.Context, used [][]float64, all []float64) error {
	for _, w := range b.workers {
		select {
		case err := <-w.ended:
			return fmt.Errorf("the cluster was not idle: %w", err)
		default:
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	st, err := b.client.Staleness(ctx)
	if err != nil {
		return err
	}
	if st.LeaderAddr != b.cluster.grpc[b.leader] {
		return errors.New("the cluster was not idle: the leader has changed")
	}
	const percent = "% of a core"
	most, err := mostResidentMB(b.cluster.procs)
	if err != nil {
		return err
	}
	for i, p := range b.cluster.procs {
		name := "standby"
		if i == b.leader {
			name = "leader"
		}
		b.report.Figure(p.name+", "+name, percent, used[i])
		rss, err := residentMB(p.cmd.Process.Pid)
		if err != nil {
			return err
		}
		b.report.Figure(p.name+", "+name+", resident memory", "MB", []float64{rss})
	}
	added := make([]float64, len(all))
	for i := range all {
		added[i] = all[i] - b.empty[i]
	}
	b.report.Figure("all three masters, empty", percent, b.empty)
	b.report.Figure("all three masters", percent, all)
	b.report.AtMost(fmt.Sprintf("added by %d workers and %d waiting applications, all masters", b.cfg.Workers, b.cfg.Apps), percent, MedianInterval(added), idlePercent)
	b.report.AtMost("all three masters together", percent, MedianInterval(all), idlePercent)
	b.report.AtMost("the leader", percent, MedianInterval(used[b.leader]), idlePercent)
	b.report.AtMost("resident memory of the largest master", "MB", Interval{most, most, most}, idleMemoryM)
	return nil
}

// mostResidentMB is what the largest of some processes has in memory, in MB.
func mostResidentMB(procs []*process) (most float64, err error) {
	for _, p := range procs {
		rss, err := residentMB(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		most = max(most, rss)
	}
	return most, nil
}

// residentMB is what a process has in memory, in MB.
func residentMB(pid int) (float64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	st, err := p.Stat()
	if err != nil {
		return 0, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	return float64(st.ResidentMemory()) / 1e6, nil
}
