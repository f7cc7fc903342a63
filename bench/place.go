package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const (
	// payloadBytes is the size of a description and of a value of etcd.
	payloadBytes = 256
	// inFlight is how many submissions are under way at saturation.
	inFlight = client.SubmitWindow * rpc.MaxSubmissions
	// gangApps and gangSize are the second shape: few applications of many
	// executors.
	gangApps, gangSize = 64, 64
	// pretendedWorkers share the launches.
	pretendedWorkers = 2
	// placeLimit bounds one run of one side.
	placeLimit = 2 * time.Minute
	loopbacks  = 2000
	syncRounds = 200
)

// Targets of B1 and B2.
const (
	placeMillis    = 0.8
	placeOverEtcd  = 1.5
	placeTail      = 3
	placePerSecond = 100_000
	placeOverPuts  = 7
	placeOverTxn   = 1
	placeOfRaft    = 0.6
)

// PlaceConfig says what Place measures with.
type PlaceConfig struct {
	Rig
	// Etcd and MemRaft are the peers' binaries; "" = missing.
	Etcd, MemRaft string
	Single        int // placements of one run with 1 in flight
	Saturated     int // placements of one run at saturation
}

// Place measures durable placements on three master processes beside three
// processes of embedded etcd, in turns on one file system (B1 and B2). It
// starts and ends all of them and removes what they wrote.
func Place(ctx context.Context, cfg PlaceConfig) (r *Report, err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "hearth-bench-place-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := CheckDurable(dir); err != nil {
		return nil, err
	}
	p := &place{cfg: cfg, dir: dir, report: NewReport("place"), tally: &tally{}}
	defer p.stop()
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{p.probes, p.single, p.saturated} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	p.notes()
	return p.report, nil
}

// place is one run of the benchmark. One goroutine owns it.
type place struct {
	cfg     PlaceConfig
	dir     string
	report  *Report
	cluster *cluster
	client  *client.Client
	workers []*pretended
	tally   *tally
	etcd    *etcd // nil: missing
	apps    int   // registered so far
	flushed map[string][]float64
}

func (p *place) say(format string, args ...any) {
	if p.cfg.Progress != nil {
		_, _ = fmt.Fprintf(p.cfg.Progress, format+"\n", args...)
	}
}

func (p *place) start(ctx context.Context) (err error) {
	p.flushed = make(map[string][]float64)
	p.say("starting three masters in %s", p.dir)
	if p.cluster, err = startMasters(ctx, p.cfg.Exe, p.cfg.Env, p.dir); err != nil {
		return err
	}
	if p.client, err = client.New(client.Config{Masters: p.cluster.grpc, Principal: "bench"}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	st, err := p.client.Staleness(ctx)
	if err != nil {
		return err
	}
	for n := range pretendedWorkers {
		// It outlives the start.
		w, err := pretend(context.WithoutCancel(ctx), st.LeaderAddr, n+1, p.tally)
		if err != nil {
			return err
		}
		p.workers = append(p.workers, w)
	}
	if p.cfg.Etcd == "" {
		return nil
	}
	p.say("starting three members of etcd")
	p.etcd, err = startEtcd(ctx, p.cfg.Etcd, etcdDefaults(), p.cfg.Env, p.dir)
	return err
}

func (p *place) stop() {
	for _, w := range p.workers {
		w.close()
	}
	if p.client != nil {
		_ = p.client.Close()
	}
	p.etcd.stop()
	p.cluster.stop()
}

// probes measure what the machine can do.
func (p *place) probes(ctx context.Context) error {
	p.say("probing disk and loopback")
	took, err := SyncProbe(ctx, p.dir, masters, payloadBytes, syncRounds)
	if err != nil {
		return err
	}
	p.report.Figure("disk: write and fdatasync, 3 writers", "ms", took)
	if took, err = LoopbackProbe(ctx, payloadBytes, loopbacks); err != nil {
		return err
	}
	p.report.Figure("loopback: TCP round trip", "ms", took)
	return nil
}

// spec describes an application of n executors in payloadBytes.
func (p *place) spec(n int) model.AppSpec {
	p.apps++
	s := model.AppSpec{
		Name: fmt.Sprintf("bench-%09d", p.apps), Kind: model.AppKindCommand, Executors: n, Completions: n,
		Restart: model.RestartNever, Profile: model.Profile{Cores: 1, MemoryMiB: 1},
		Command: model.Command{Argv: []string{"true"}, Env: []string{"P="}},
	}
	// Up to the next byte or two of a longer length.
	s.Command.Env[0] += strings.Repeat("x", max(0, payloadBytes-rpc.SubmissionBytes(s)-1))
	return s
}

// alternate measures ours and, if it is there, the peer.
func (p *place) alternate(ctx context.Context, ours, peer Measure) (Pairs, error) {
	if p.etcd != nil {
		return Alternate(ctx, p.cfg.Pairs, ours, peer)
	}
	var got Pairs
	for range p.cfg.Pairs {
		v, err := ours(ctx)
		if err != nil {
			return got, err
		}
		got.A = append(got.A, v)
	}
	return got, nil
}

// single is B1: one placement under way at a time.
func (p *place) single(ctx context.Context) error {
	p.say("B1: one in flight")
	var placed, tails, placedTails, etcdTails []float64
	got, err := p.alternate(ctx, func(ctx context.Context) (float64, error) {
		acks, orders, err := p.oneByOne(ctx)
		if err != nil {
			return 0, err
		}
		placed = append(placed, Median(orders))
		tails, placedTails = append(tails, Percentile(acks, 0.99)), append(placedTails, Percentile(orders, 0.99))
		return Median(acks), p.finish(ctx)
	}, func(context.Context) (float64, error) {
		l, err := p.etcd.put(1, 1, p.cfg.Single)
		etcdTails = append(etcdTails, l.p99)
		return l.p50, err
	})
	if err != nil {
		return err
	}
	r := p.report
	r.Figure("B1 acknowledged, p50", "ms", got.A)
	r.Figure("B1 acknowledged, p99", "ms", tails)
	r.Figure("B1 placed and ordered at its worker, p50", "ms", placed)
	r.Figure("B1 placed and ordered at its worker, p99", "ms", placedTails)
	r.Figure("etcd: one put, p50", "ms", got.B)
	r.Figure("etcd: one put, p99", "ms", etcdTails)
	r.AtMost("B1 p50", "ms", MedianInterval(got.A), placeMillis)
	r.AtMost("B1 p99 over p50", "", Pairs{tails, got.A}.Ratio(), placeTail)
	p.over("B1 etcd's p50 over ours", Pairs{got.B, got.A}.Ratio(), placeOverEtcd)
	return nil
}

// over claims a ratio to etcd, or that there is none.
func (p *place) over(name string, ratio Interval, target float64) {
	if p.etcd == nil {
		p.report.PeerMissing(name, target, "etcd")
		return
	}
	p.report.AtLeast(name, "", ratio, target)
}

// oneByOne registers applications of one executor, each after the one before
// was ordered at its worker. It returns, for each, the time until it was
// acknowledged and until the order was there, in milliseconds.
func (p *place) oneByOne(ctx context.Context) (acks, orders []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	for range p.cfg.Single {
		spec := p.spec(1)
		done := p.tally.expect(1)
		begin := time.Now()
		if _, err := p.client.RegisterApp(ctx, spec); err != nil {
			return nil, nil, err
		}
		acks = append(acks, time.Since(begin).Seconds()*1e3)
		if err := p.placed(ctx, done); err != nil {
			return nil, nil, err
		}
		orders = append(orders, p.tally.reached().Sub(begin).Seconds()*1e3)
	}
	return acks, orders, nil
}

// placed waits for the launches that were expected.
func (p *place) placed(ctx context.Context, done <-chan struct{}) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%d launches arrived, not all: %w", p.tally.seen(), ctx.Err())
		case <-tick.C:
		}
		for _, w := range p.workers {
			select {
			case err := <-w.ended:
				w.ended <- err
				return fmt.Errorf("the leader has changed; measure again on a machine that is less busy: %w", err)
			default:
			}
		}
	}
}

// finish ends what was placed, outside what is measured.
func (p *place) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	for _, w := range p.workers {
		if err := w.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// shape is one way to make many placements.
type shape struct {
	name  string
	apps  int // of one round
	each  int // executors of each
	total int
}

// saturated is B2.
func (p *place) saturated(ctx context.Context) error {
	shapes := []shape{
		{"B2 1 executor each", p.cfg.Saturated, 1, p.cfg.Saturated},
		{"B2 64 apps x 64", gangApps, gangSize, max(p.cfg.Saturated, gangApps*gangSize)},
	}
	ours, txns := make([][]float64, len(shapes)), make([][]float64, len(shapes))
	var puts, ceiling []float64
	for i, s := range shapes {
		p.say("%s: %d placements", s.name, s.total)
		got, err := p.alternate(ctx, func(ctx context.Context) (float64, error) { return p.rounds(ctx, s) },
			func(ctx context.Context) (float64, error) {
				v, err := p.putRate(&txns[i], inFlight/rpc.MaxSubmissions, rpc.MaxSubmissions)
				if i > 0 || err != nil { // single puts beside the first shape are enough
					return v, err
				}
				return p.putRate(&puts, inFlight, 1)
			})
		if err != nil {
			return err
		}
		ours[i] = got.A
		p.report.Figure(s.name, "placements/s", got.A)
	}
	p.report.Figure("etcd: single puts, 1,024 in flight", "puts/s", puts)
	p.report.Figure("etcd: transactions of 64 puts, 1,024 in flight", "puts/s", slices.Concat(txns...))
	var err error
	if ceiling, err = p.memory(ctx); err != nil {
		return err
	}
	p.report.Figure("Raft with stores in memory, 1,024 in flight", "applies/s", ceiling)
	for i, s := range shapes {
		p.report.AtLeast(s.name, "placements/s", MedianInterval(ours[i]), placePerSecond)
		p.over(s.name+" over etcd's single puts", Pairs{ours[i], puts}.Ratio(), placeOverPuts)
		p.over(s.name+" over etcd's transactions", Pairs{ours[i], txns[i]}.Ratio(), placeOverTxn)
		if len(ceiling) == 0 {
			p.report.PeerMissing(s.name+" over Raft in memory", placeOfRaft, "Raft with stores in memory")
			continue
		}
		p.report.AtLeast(s.name+" over Raft in memory", "", Pairs{ours[i], ceiling}.Ratio(), placeOfRaft)
	}
	for _, side := range []string{"hearth", "etcd"} {
		p.report.Figure("flushes of the disk per 1,000 placements: "+side, "flushes", p.flushed[side])
	}
	return nil
}

// rounds makes placements of one shape and returns how many a second. The time
// counts from the first submission to the last launch order, in each round.
func (p *place) rounds(ctx context.Context, s shape) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	var spent time.Duration
	n := 0
	for n < s.total {
		specs := make([]model.AppSpec, s.apps)
		for i := range specs {
			specs[i] = p.spec(s.each)
		}
		done := p.tally.expect(s.apps * s.each)
		flushed := p.flushes()
		begin := time.Now()
		for _, v := range p.client.RegisterApps(ctx, specs) {
			if v.Err != nil {
				return 0, v.Err
			}
		}
		if err := p.placed(ctx, done); err != nil {
			return 0, err
		}
		spent += p.tally.reached().Sub(begin)
		n += s.apps * s.each
		p.countFlushes("hearth", flushed, s.apps*s.each)
		if err := p.finish(ctx); err != nil {
			return 0, err
		}
	}
	return float64(n) / spent.Seconds(), nil
}

// putRate makes as many puts at etcd.
func (p *place) putRate(into *[]float64, requests, batch int) (float64, error) {
	flushed := p.flushes()
	l, err := p.etcd.put(requests, batch, p.cfg.Saturated)
	if err != nil {
		return 0, err
	}
	if batch > 1 {
		p.countFlushes("etcd", flushed, p.cfg.Saturated)
	}
	rate := float64(p.cfg.Saturated/batch*batch) / l.seconds
	*into = append(*into, rate)
	return rate, nil
}

func (p *place) flushes() int64 {
	n, ok := flushes(p.dir)
	if !ok {
		return -1
	}
	return n
}

func (p *place) countFlushes(side string, before int64, placements int) {
	if after := p.flushes(); before >= 0 && after >= before {
		p.flushed[side] = append(p.flushed[side], float64(after-before)*1000/float64(placements))
	}
}

// memory runs the ceiling as often as there are pairs.
func (p *place) memory(ctx context.Context) ([]float64, error) {
	if p.cfg.MemRaft == "" {
		return nil, nil
	}
	p.say("Raft with stores in memory")
	var out []float64
	for range p.cfg.Pairs {
		ctx, cancel := context.WithTimeout(ctx, placeLimit)
		text, err := exec.CommandContext(ctx, p.cfg.MemRaft, //nolint:gosec // the caller's program
			strconv.Itoa(inFlight), strconv.Itoa(p.cfg.Saturated), strconv.Itoa(payloadBytes)).Output()
		cancel()
		if err != nil {
			return nil, fmt.Errorf("raft in memory: %w", err)
		}
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
		if err != nil {
			return nil, fmt.Errorf("raft in memory says %q: %w", text, err)
		}
		out = append(out, rate)
	}
	return out, nil
}

func (p *place) notes() {
	r := p.report
	r.Note("Ours: 3 master processes and etcd: 3 member processes, alternating A B B A on one file system, descriptions and values of %d bytes, clients in processes of their own, equal nice values.", payloadBytes)
	r.Note("Workers are pretended: %d sessions in the benchmark's process take launch orders and report them as LAUNCHING; no process is started.", pretendedWorkers)
	r.Note("Acknowledged: the application is committed and applied. Placed: its executor is committed, with the registration if nothing else is under way, and the order is at the worker. B2 counts placed executors.")
	r.Note("At saturation %d submissions are in flight, up to %d in a message; ours are registered, placed, ordered and reported as LAUNCHING within the time, etcd puts a key.", inFlight, rpc.MaxSubmissions)
	r.Note("Flushes are those that the disk has done for anybody, from its stat file in /sys; syncs that the kernel merges count once, on both sides. Of etcd: during transactions.")
}
