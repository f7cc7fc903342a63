// Command pi estimates π by throwing points at a square on the executors of a
// Hearth cluster. It is the smallest whole program: one function, many calls, one
// sum.
//
//	go build ./examples/pi && ./pi --masters m1:7070,m2:7070 --batches 1000
//
// Each batch has a random number generator of its own, seeded by the number of the
// batch. So it does not matter where a batch runs, or how often: the answer is the
// same to the last point, even if workers and masters die meanwhile.
package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"

	"github.com/hearthd/hearth/driver"
)

func main() { os.Exit(driver.Main(setup)) }

// batch is the argument of one call.
type batch struct {
	Seed   uint64
	Number uint64
	Points int
}

func setup(p *driver.Program) {
	p.Name = "pi"
	var (
		batches = p.Flags().Uint64("batches", 200, "number of calls")
		points  = p.Flags().Int("points", 1_000_000, "points of each call")
		seed    = p.Flags().Uint64("seed", 1, "seed of the random numbers")
	)
	sample := driver.Register(p, "sample", throw)
	p.Run(func(ctx context.Context, app *driver.App) error {
		var hits, done uint64
		for _, r := range driver.Stream(ctx, app, sample, numbered(*seed, *batches, *points)) {
			if r.Err != nil {
				return r.Err
			}
			hits += r.Value
			done++
			app.Logger().Info("a batch is done", "of", *batches, "done", done, "executor", int(r.Executor), "host", r.Host)
		}
		total := *batches * uint64(*points)
		if total == 0 {
			return fmt.Errorf("no points: --batches %d, --points %d", *batches, *points)
		}
		fmt.Printf("%d of %d points hit: pi is about %.6f\n", hits, total, 4*float64(hits)/float64(total))
		return nil
	})
}

// numbered are the arguments of all calls, made as they are needed.
func numbered(seed, batches uint64, points int) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		for n := range batches {
			if !yield(batch{Seed: seed, Number: n, Points: points}) {
				return
			}
		}
	}
}

// throw counts the points of a batch that hit the quarter of a circle. It looks at
// its context now and then, so that a cancelled call does not keep a core busy.
func throw(ctx context.Context, b batch) (uint64, error) {
	const look = 100_000
	rnd := rand.New(rand.NewPCG(b.Seed, b.Number)) //nolint:gosec // no secret: the same numbers are wanted again
	var hits uint64
	for n := range b.Points {
		if n%look == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if x, y := rnd.Float64(), rnd.Float64(); x*x+y*y < 1 {
			hits++
		}
	}
	return hits, nil
}
