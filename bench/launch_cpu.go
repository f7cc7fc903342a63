package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// launchCosts are what the processes of a launch benchmark have used, in seconds
// of one core. Unlike a rate they say something on a busy machine, too.
type launchCosts struct {
	masters, workers, executors, driver float64
}

// launchFigures are what each executor has cost in the runs, in microseconds.
type launchFigures struct {
	masters, workers, executors, driver, plain, registering []float64
	// What masters and workers use for themselves when nothing is started, for the
	// time of a run.
	ownMasters, ownWorkers []float64
	resting                launchCosts // in one second
}

// add notes what n executors have cost between two looks.
func (f *launchFigures) add(before, after launchCosts, took time.Duration, n int) {
	each := func(into *[]float64, before, after float64) {
		*into = append(*into, (after-before)*micros/float64(n))
	}
	each(&f.masters, before.masters, after.masters)
	each(&f.workers, before.workers, after.workers)
	each(&f.executors, before.executors, after.executors)
	each(&f.driver, before.driver, after.driver)
	each(&f.ownMasters, 0, f.resting.masters*took.Seconds())
	each(&f.ownWorkers, 0, f.resting.workers*took.Seconds())
}

func (f *launchFigures) report(r *Report) {
	r.Figure("processor time for each executor: the three masters", "µs", f.masters)
	r.Figure("of that, what masters use when nothing is started", "µs", f.ownMasters)
	r.Figure("workers and their keepers", "µs", f.workers)
	r.Figure("of that, what workers and keepers use when nothing is started", "µs", f.ownWorkers)
	r.Figure("the driver, which is this process", "µs", f.driver)
	r.Figure("the executor itself, its start included", "µs", f.executors)
	r.Figure("processor time for each plain start", "µs", f.plain)
	r.Figure("for each plain start that registers, with the driver's end of it", "µs", f.registering)
}

// costs looks at every process of the cluster. What executors have used is known
// of those that have ended, from their keepers, which have waited for them.
func (b *launch) costs() (c launchCosts, err error) {
	for i, p := range b.cluster.procs {
		used, err := cpuSeconds(p.cmd.Process.Pid)
		if err != nil {
			return c, err
		}
		if i < masters {
			c.masters += used
		} else {
			c.workers += used
		}
	}
	for _, pid := range b.keepers {
		st, err := statOf(pid)
		if err != nil {
			return c, err
		}
		c.workers += st.CPUTime()
		c.executors += ticks(st.CUTime + st.CSTime)
	}
	c.driver, err = cpuSeconds(os.Getpid())
	return c, err
}

// findKeepers notes the keeper of each worker: its only child.
func (b *launch) findKeepers() error {
	all, err := procfs.AllProcs()
	if err != nil {
		return fmt.Errorf("look for keepers: %w", err)
	}
	for _, w := range b.cluster.procs[masters:] {
		for _, p := range all {
			if st, err := p.Stat(); err == nil && st.PPID == w.cmd.Process.Pid {
				b.keepers = append(b.keepers, p.PID)
			}
		}
	}
	if len(b.keepers) != launchWorkers {
		return fmt.Errorf("%d workers have %d keepers", launchWorkers, len(b.keepers))
	}
	return nil
}

// counted notes what n executors cost beside the rate at which they started.
func (b *launch) counted(n int, rate Measure) Measure {
	return func(ctx context.Context) (float64, error) {
		before, err := b.costs()
		if err != nil {
			return 0, err
		}
		begin := time.Now()
		v, err := rate(ctx)
		if err != nil {
			return v, err
		}
		after, err := b.costs()
		b.spent.add(before, after, time.Since(begin), n)
		return v, err
	}
}

// rest notes what masters and workers use when nothing is started.
func (b *launch) rest(ctx context.Context) error {
	before, err := b.costs()
	if err != nil {
		return err
	}
	if err := pause(ctx, launchRest); err != nil {
		return err
	}
	after, err := b.costs()
	b.spent.resting = launchCosts{
		masters: (after.masters - before.masters) / launchRest.Seconds(),
		workers: (after.workers - before.workers) / launchRest.Seconds(),
	}
	return err
}

// countedPlain notes what n plain starts cost, both this process, which makes
// them, and theirs.
func (b *launch) countedPlain(into *[]float64, n int, rate Measure) Measure {
	own := func() (float64, error) {
		st, err := statOf(os.Getpid())
		return st.CPUTime() + ticks(st.CUTime+st.CSTime), err
	}
	return func(ctx context.Context) (float64, error) {
		before, err := own()
		if err != nil {
			return 0, err
		}
		v, err := rate(ctx)
		if err != nil {
			return v, err
		}
		after, err := own()
		*into = append(*into, (after-before)*micros/float64(n))
		return v, err
	}
}

func statOf(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err == nil {
		var st procfs.ProcStat
		if st, err = p.Stat(); err == nil {
			return st, nil
		}
	}
	return procfs.ProcStat{}, fmt.Errorf("processor time of process %d: %w", pid, err)
}

// ticks turns a kernel's count of hundredths into seconds.
func ticks(n int) float64 { return float64(n) / 100 }
