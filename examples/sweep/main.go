// Command sweep runs a simulation once for each point of a grid of parameters, on
// the executors of a Hearth cluster, and writes a table: how an epidemic goes (the
// SIR model, by Euler's method) for every pair of infection and recovery rate.
//
//	go build ./examples/sweep && ./sweep --masters m1:7070 --steps 20 --csv out.csv
//
// It shows what a long sweep needs: results that are written as they come, calls
// that are tried again and bounded in time, and a number of executors that follows
// the load (--least-executors, --most-executors).
package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"os"
	"strconv"
	"time"

	"github.com/hearthd/hearth/driver"
)

func main() { os.Exit(driver.Main(setup)) }

// parameters are one point of the grid.
type parameters struct {
	Infection float64 // β, per day
	Recovery  float64 // γ, per day
	Days      int
	PerDay    int // steps of the integration
}

// outcome is what the simulation says of it.
type outcome struct {
	Peak    float64 // largest share of infected at once
	PeakDay float64
	Total   float64 // share that was infected in the end
}

// sweep are the program's own flags.
type sweep struct {
	steps   int
	days    int
	perDay  int
	csv     string
	minimum int
	maximum int
	timeout time.Duration
}

func setup(p *driver.Program) {
	var s sweep
	p.Name = "sweep"
	fs := p.Flags()
	fs.IntVar(&s.steps, "steps", 20, "values of each parameter: the grid has steps × steps points")
	fs.IntVar(&s.days, "days", 365, "days to simulate")
	fs.IntVar(&s.perDay, "per-day", 1000, "steps of the integration per day")
	fs.StringVar(&s.csv, "csv", "", "file for the table (default: standard output)")
	fs.IntVar(&s.minimum, "least-executors", 0, "least number of executors, with --most-executors")
	fs.IntVar(&s.maximum, "most-executors", 0, "let the number of executors follow the load, up to this one")
	fs.DurationVar(&s.timeout, "timeout", time.Minute, "end a simulation that takes longer, and try it again")
	simulate := driver.Register(p, "simulate", simulation)
	p.Dynamic = &driver.Dynamic{IdleTimeout: 5 * time.Second}
	p.Configure(func() error {
		if s.steps < 2 || s.days < 1 || s.perDay < 1 {
			return fmt.Errorf("--steps %d, --days %d, --per-day %d: want 2, 1 and 1 at least", s.steps, s.days, s.perDay)
		}
		if s.maximum == 0 {
			p.Dynamic = nil
			return nil
		}
		p.Dynamic.Min, p.Dynamic.Max = s.minimum, s.maximum
		return nil
	})
	p.Run(func(ctx context.Context, app *driver.App) error { return s.run(ctx, app, simulate) })
}

// run makes the table. Rows are kept until all before them are there, so that the
// table is in the order of the grid.
func (s *sweep) run(ctx context.Context, app *driver.App, simulate driver.Func[parameters, outcome]) (err error) {
	out := os.Stdout
	if s.csv != "" {
		if out, err = os.Create(s.csv); err != nil {
			return fmt.Errorf("create the table: %w", err)
		}
		defer func() { err = errors.Join(err, out.Close()) }()
	}
	buffered := bufio.NewWriter(out)
	table := csv.NewWriter(buffered)
	if err := table.Write([]string{"infection", "recovery", "peak", "peak_day", "total"}); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	points := make([]parameters, 0, s.steps*s.steps)
	for p := range s.grid() {
		points = append(points, p)
	}
	rows, next := make([][]string, len(points)), 0
	retry := driver.WithRetry(driver.Retry{Tries: 3})
	for i, r := range driver.Stream(ctx, app, simulate, s.grid(), retry, driver.WithTimeout(s.timeout)) {
		if r.Err != nil {
			if i < 0 {
				return r.Err
			}
			return fmt.Errorf("infection %g, recovery %g: %w", points[i].Infection, points[i].Recovery, r.Err)
		}
		rows[i] = row(points[i], r.Value)
		for ; next < len(rows) && rows[next] != nil; next++ {
			if err := table.Write(rows[next]); err != nil {
				return fmt.Errorf("write the table: %w", err)
			}
		}
		app.Logger().Info("a point is done", "point", i, "of", len(points), "written", next, "executor", int(r.Executor))
	}
	table.Flush()
	if err := errors.Join(table.Error(), buffered.Flush()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// grid are the points, row by row.
func (s *sweep) grid() iter.Seq[parameters] {
	return func(yield func(parameters) bool) {
		for b := range s.steps {
			for g := range s.steps {
				p := parameters{
					Infection: 0.05 + 0.95*float64(b)/float64(s.steps-1),
					Recovery:  0.02 + 0.48*float64(g)/float64(s.steps-1),
					Days:      s.days, PerDay: s.perDay,
				}
				if !yield(p) {
					return
				}
			}
		}
	}
}

func row(p parameters, o outcome) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
	return []string{number(p.Infection), number(p.Recovery), number(o.Peak), number(o.PeakDay), number(o.Total)}
}

// simulation integrates the model: of a population of one, s are susceptible, i
// infected, the others have recovered.
func simulation(ctx context.Context, p parameters) (outcome, error) {
	const first = 1e-4
	s, i, step := 1-first, first, 1/float64(p.PerDay)
	o := outcome{Peak: i}
	for day := range p.Days {
		if err := ctx.Err(); err != nil {
			return outcome{}, err
		}
		for n := range p.PerDay {
			infected, recovered := p.Infection*s*i*step, p.Recovery*i*step
			s -= infected
			i += infected - recovered
			if i > o.Peak {
				o.Peak, o.PeakDay = i, float64(day)+float64(n+1)*step
			}
		}
	}
	o.Total = 1 - s
	return o, nil
}
