package decide

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hearthd/hearth/bench"
)

// Targets of the claims.
const (
	targetPerSecond = 2e6 // at scale.claimed
	targetSlower    = 2   // from the fewest to the most workers
)

// Limits of a run.
const (
	// scanned by the other side in one run, so that it takes as long as ours.
	scanBudget = 50_000_000
	minTurns   = 200
)

// Config says how long to measure.
type Config struct {
	Pairs int // of runs, index and scan in turns; at least 1
	Turns int // decisions of a run; at least 1
}

// scale is how much is measured and compared.
type scale struct {
	sizes    []int // numbers of workers, ascending
	claimed  int   // the one that claims are about
	compared int   // turns of each size and mode in which both sides must agree
}

func fullScale() scale {
	return scale{sizes: []int{100, 1000, 5000, 10_000, 50_000}, claimed: 5000, compared: 2000}
}

// Run measures decisions: each ends the oldest application, gives back what it
// held, and places a new one, in memory. It first compares what both sides
// decide, and fails if they differ.
func Run(ctx context.Context, conf Config) (*bench.Report, error) { return run(ctx, conf, fullScale()) }

func run(ctx context.Context, conf Config, sc scale) (*bench.Report, error) {
	r := bench.NewReport("decide")
	for _, m := range modes() {
		for _, n := range sc.sizes {
			if err := compare(n, m, sc.compared); err != nil {
				return nil, err
			}
			if err := beside(ctx, r, conf, n, m, n == sc.claimed); err != nil {
				return nil, err
			}
		}
	}
	if err := slowdown(ctx, r, conf, sc.sizes[0], sc.sizes[len(sc.sizes)-1]); err != nil {
		return nil, err
	}
	if err := passes(ctx, r, conf, sc.sizes); err != nil {
		return nil, err
	}
	r.Note("workers of 16, 32 and 64 cores with 4 GiB for each, seven tenths full; executors of 1 to 8 cores and 1 to 8 GiB; CORES_FREE_DESC")
	r.Note("a decision chooses a worker and takes the executor's share; each is paired with the release of an older one")
	r.Note("both sides decided alike in all %d compared turns", sc.compared*len(sc.sizes)*len(modes()))
	return r, nil
}

// compare lets both sides decide the same things.
func compare(n int, m mode, compared int) error {
	ws := workers(n)
	kept := lasting(ws, m)
	a, b := newIndexed(ws, m), newScanned(ws, m)
	// The scan fills its workers as the index decided: that it decides alike is
	// what the turns show.
	ta := newTurns(a, kept)
	for i := range kept {
		b.adopt(i, a)
	}
	tb := &turns{side: b, kept: kept, count: kept}
	var pa, pb []int
	for range compared {
		at := ta.count % kept
		ta.turn()
		tb.turn()
		if pa, pb = a.placed(at, pa[:0]), b.placed(at, pb[:0]); !slices.Equal(pa, pb) {
			return fmt.Errorf("%d workers, %s: the index chose %v where the scan chose %v", n, m.name, pa, pb)
		}
	}
	return nil
}

// adopt takes over what the other side has placed.
func (x *scanned) adopt(at int, from *indexed) {
	c := &x.live[at]
	p := from.live[at].prof
	c.room = room{int32(p.Cores), int32(p.MemoryMiB)}
	for _, w := range from.placed(at, nil) {
		c.workers[c.n] = int32(w)
		c.n++
		x.free[w].cores -= c.room.cores
		x.free[w].memory -= c.room.memory
	}
}

// perSecond measures decisions per second.
func perSecond(t *turns, turns, executors int) bench.Measure {
	return func(context.Context) (float64, error) {
		began := time.Now()
		for range turns {
			t.turn()
		}
		return float64(turns*executors) / time.Since(began).Seconds(), nil
	}
}

// beside measures index and scan in turns at one number of workers.
func beside(ctx context.Context, r *bench.Report, conf Config, n int, m mode, claimed bool) error {
	ws := workers(n)
	kept := lasting(ws, m)
	x := newIndexed(ws, m)
	ours := newTurns(x, kept)
	s := newScanned(ws, m)
	for i := range kept {
		s.adopt(i, x)
	}
	theirs := &turns{side: s, kept: kept, count: kept}
	scans := min(max(scanBudget/n/m.executors, minTurns), conf.Turns)
	pairs, err := bench.Alternate(ctx, conf.Pairs, perSecond(ours, conf.Turns, m.executors), perSecond(theirs, scans, m.executors))
	if err != nil {
		return fmt.Errorf("measure %d workers: %w", n, err)
	}
	what := fmt.Sprintf("%s, %d workers", m.name, n)
	r.Figure(what, "decisions/s", pairs.A)
	r.Figure(what+": full scan", "decisions/s", pairs.B)
	if claimed {
		if m.executors == 1 {
			r.AtLeast(what, "decisions/s", bench.MedianInterval(pairs.A), targetPerSecond)
		}
		r.AtLeast(what+": index over full scan", "", pairs.Ratio(), 1)
	}
	return nil
}

// slowdown compares the fewest workers with the most, in turns.
func slowdown(ctx context.Context, r *bench.Report, conf Config, fewest, most int) error {
	m := modes()[0]
	at := func(n int) bench.Measure {
		ws := workers(n)
		return perSecond(newTurns(newIndexed(ws, m), lasting(ws, m)), conf.Turns, m.executors)
	}
	pairs, err := bench.Alternate(ctx, conf.Pairs, at(fewest), at(most))
	if err != nil {
		return fmt.Errorf("compare %d with %d workers: %w", fewest, most, err)
	}
	r.AtMost(fmt.Sprintf("time of a decision, %d workers over %d", most, fewest), "", pairs.Ratio(), targetSlower)
	return nil
}
