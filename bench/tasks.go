package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/demo"
	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

const (
	// taskExecutors do the tasks, one on each worker.
	taskExecutors = 2
	// taskWindow is how many tasks are on the way at once at saturation.
	taskWindow = 4096
	// taskLimit bounds one run of one side.
	taskLimit = 2 * time.Minute
	// warmTasks are done before anything is measured.
	warmTasks = 20_000
)

// Targets of B5 and B6.
const (
	tasksOfEcho      = 0.75
	tasksPerSecond   = 1_000_000
	tripsOverPings   = 1.5
	micros           = 1e6
	tailOfRoundTrips = 0.999
)

// TasksConfig says what Tasks measures with.
type TasksConfig struct {
	Rig
	// Profile is where the CPU profile of the driver goes while it does batched
	// and unbatched tasks; "" = none.
	Profile string
	Tasks   int // of one run
	Single  int // round trips of one run
}

// Tasks measures calls of a function that returns its argument of 256 bytes:
// from this process, which is the driver, to two executors, which a cluster of
// three masters and two workers has launched, and back (B5 and B6). Beside it, in
// turns, the same bytes are echoed over one gRPC stream. It starts and ends all
// processes and removes what they wrote.
func Tasks(ctx context.Context, cfg TasksConfig) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "hearth-bench-tasks-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &tasks{cfg: cfg, dir: dir, report: NewReport("tasks")}
	defer b.stop(ctx)
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	stop, err := b.profile()
	if err != nil {
		return nil, err
	}
	err = errors.Join(b.throughput(ctx), stop())
	if err == nil {
		err = b.roundTrips(ctx)
	}
	if err != nil {
		return nil, err
	}
	b.notes()
	return b.report, nil
}

// tasks is one run of the benchmark. One goroutine owns it.
type tasks struct {
	cfg     TasksConfig
	dir     string
	report  *Report
	cluster *cluster
	client  *client.Client
	// single has one task in a message, batched as many as come together.
	single, batched *taskDriver
	echo            *echoClient
}

func (b *tasks) say(format string, args ...any) {
	if b.cfg.Progress != nil {
		_, _ = fmt.Fprintf(b.cfg.Progress, format+"\n", args...)
	}
}

func (b *tasks) start(ctx context.Context) (err error) {
	b.say("starting three masters, two workers and two times two executors in %s", b.dir)
	if b.cluster, err = startMasters(ctx, b.cfg.Exe, b.cfg.Env, b.dir); err != nil {
		return err
	}
	for n := range taskExecutors {
		p, err := b.cluster.daemon(fmt.Sprintf("worker-%d", n+1), "worker", anyPort(
			"--masters", strings.Join(b.cluster.grpc, ","), "--join", b.cluster.serf, "--cores", "2", "--memory", "2g",
		))
		if err != nil {
			return err
		}
		if _, err := p.await(ctx, demo.ReadyFile); err != nil {
			return err
		}
	}
	if b.client, err = client.New(client.Config{Masters: b.cluster.grpc, Principal: "bench"}); err != nil {
		return err
	}
	if b.single, err = startTaskDriver(ctx, b.client, 1); err != nil {
		return err
	}
	if b.batched, err = startTaskDriver(ctx, b.client, driver.MaxBatch); err != nil {
		return err
	}
	if b.echo, err = startEcho(ctx, b.dir, b.cfg.Env, b.cfg.Exe); err != nil {
		return err
	}
	for _, d := range []*taskDriver{b.single, b.batched} {
		if _, err := d.rate(ctx, warmTasks); err != nil {
			return err
		}
	}
	_, err = b.echo.rate(ctx, warmTasks)
	return err
}

func (b *tasks) stop(ctx context.Context) {
	b.single.stop(ctx)
	b.batched.stop(ctx)
	b.echo.stop()
	b.cluster.stop()
	if b.client != nil {
		_ = b.client.Close()
	}
}

// profile starts the CPU profile that was asked for.
func (b *tasks) profile() (stop func() error, err error) {
	if b.cfg.Profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(b.cfg.Profile)
	if err != nil {
		return nil, fmt.Errorf("profile of the driver: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("profile of the driver: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// bounded gives each run of a side its time.
func bounded(m Measure) Measure {
	return func(ctx context.Context) (float64, error) {
		ctx, cancel := context.WithTimeout(ctx, taskLimit)
		defer cancel()
		return m(ctx)
	}
}

// throughput compares tasks of one message each, and batches of them, with the
// echo.
func (b *tasks) throughput(ctx context.Context) error {
	n := b.cfg.Tasks
	var cost, echoCost [2][]float64
	var got [2]Pairs
	for i, side := range []struct {
		drv  *taskDriver
		what string
	}{{b.single, "one in a message"}, {b.batched, "many in a message"}} {
		b.say("%d tasks a run, %s, beside as many echoes", n, side.what)
		ours := func(ctx context.Context) (float64, error) { return side.drv.rate(ctx, n) }
		echo := func(ctx context.Context) (float64, error) { return b.echo.rate(ctx, n) }
		var err error
		got[i], err = Alternate(ctx, b.cfg.Pairs,
			counted(n, &cost[i], side.drv.pids(ctx), bounded(ours)),
			counted(n, &echoCost[i], []int{b.echo.proc.cmd.Process.Pid}, bounded(echo)))
		if err != nil {
			return err
		}
	}
	single, batched := got[0], got[1]
	r := b.report
	r.Figure("B5 tasks, one in a message", "/s", single.A)
	r.Figure("gRPC stream, pipelined echo beside it", "/s", single.B)
	r.Figure("B5 tasks, many in a message", "/s", batched.A)
	r.Figure("gRPC stream, pipelined echo beside it", "/s", batched.B)
	r.Figure("B5 tasks, many in a message, over the echo", "times", ratios(batched))
	r.Figure("CPU of driver and executors, task of one message", "µs", cost[0])
	r.Figure("CPU of driver and executors, task of many", "µs", cost[1])
	r.Figure("CPU of both ends, echo", "µs", slices.Concat(echoCost[0], echoCost[1]))
	r.AtLeast("B5 tasks, one in a message, over the echo", "", single.Ratio(), tasksOfEcho)
	r.AtLeast("B5 tasks, many in a message", "/s", MedianInterval(batched.A), tasksPerSecond)
	return nil
}

func ratios(p Pairs) []float64 {
	out := make([]float64, len(p.A))
	for i := range p.A {
		out[i] = p.A[i] / p.B[i]
	}
	return out
}

// roundTrips compares one task at a time with one message at a time.
func (b *tasks) roundTrips(ctx context.Context) error {
	n := b.cfg.Single
	b.say("%d tasks a run, one at a time, beside as many messages to and fro", n)
	var trips, pings []float64 // of all runs
	got, err := Alternate(ctx, b.cfg.Pairs, bounded(func(ctx context.Context) (float64, error) {
		took, err := b.batched.roundTrips(ctx, n)
		trips = append(trips, took...)
		return Median(took), err
	}), bounded(func(ctx context.Context) (float64, error) {
		took, err := b.echo.roundTrips(ctx, n)
		pings = append(pings, took...)
		return Median(took), err
	}))
	if err != nil {
		return err
	}
	r := b.report
	for _, side := range []struct {
		name      string
		p50s, all []float64
	}{{"B6 one task at a time", got.A, trips}, {"gRPC stream ping-pong", got.B, pings}} {
		r.Figure(side.name+", p50", "µs", side.p50s)
		r.Figure(side.name+", p99", "µs", []float64{Percentile(side.all, 0.99)})
		r.Figure(side.name+", p99.9", "µs", []float64{Percentile(side.all, tailOfRoundTrips)})
	}
	r.AtMost("B6 one task at a time over the ping-pong, p50", "", got.Ratio(), tripsOverPings)
	return nil
}

func (b *tasks) notes() {
	r := b.report
	r.Note("The driver is this process, each executor one of %d processes of one core, launched by a cluster of 3 masters and %d workers. Each task carries %d bytes there and as many back; at most %s are on the way. Every result is looked at.",
		taskExecutors, taskExecutors, payloadBytes, strconv.Itoa(taskWindow))
	r.Note("The echo is the generated code of gRPC with its ordinary settings, without TLS, over one stream to a process of its own, with %d bytes to and fro and as many messages on the way as its flow control allows. The link between driver and executors is the ordinary one: %s.",
		payloadBytes, linkOfTasks)
}

// linkOfTasks says how driver and executors talk.
const linkOfTasks = "TLS 1.3 with the application's own certificate, and frames of its own instead of gRPC's"

// taskSpec is the application of one driver.
func taskSpec(batch int) model.AppSpec {
	return model.AppSpec{
		Name: fmt.Sprintf("bench-tasks-%d", batch), Executors: taskExecutors,
		Profile: model.Profile{Cores: 1, MemoryMiB: 256},
	}
}
