package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/rpc"
)

// executor is one Run.
type executor struct {
	cfg    Config
	logger hclog.Logger
	base   []string // environment of every task
	procs  *processes
	tasks  *registry
	heard  func() // the driver has said something
	// buffers are for copying the output of processes.
	buffers sync.Pool
}

// Run is the life of an executor: it registers with its driver and runs tasks
// until the driver says stop or ctx ends (nil), until the driver refuses it or
// is gone for DriverTimeout (an error). In every case all tasks are killed,
// SIGTERM first, and their directories removed before it returns; an error
// that names processes says that some did not end in StopTimeout.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.validate(); err != nil {
		return err
	}
	if cfg.timing == (timing{}) {
		cfg.timing = defaultTiming()
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	logger := cfg.Logger.With("app", cfg.App, "executor", int(cfg.Executor))
	if err := prepareWorkDir(cfg.WorkDir); err != nil {
		return err
	}
	procs, err := newProcesses(logger, cfg.OwnsProcess)
	if err != nil {
		return err
	}
	conn, err := rpc.Dial(cfg.DriverAddr, rpc.DialConfig{TLS: cfg.TLS, Dial: cfg.Dial})
	if err != nil {
		return fmt.Errorf("reach the driver: %w", err)
	}
	x := &executor{cfg: cfg, logger: logger, procs: procs, base: baseEnv(cfg.Env)}
	x.tasks = newRegistry(x.runTask, func(c *capture) {
		if err := c.discard(); err != nil {
			logger.Warn("spilled output stays", "err", err)
		}
	})

	x.tasks.calls.run, x.tasks.calls.grace = x.runCall, cfg.timing.killGrace
	x.tasks.calls.report = func(t *heldTask, text string) {
		logger.Warn("a function does not return", "task", t.spec.ID, "err", text)
	}
	x.tasks.calls.slots = cfg.Cores

	lifetime, cancel := context.WithCancelCause(ctx)
	gone := time.AfterFunc(cfg.timing.driver, func() { cancel(errDriverGone) })
	x.heard = func() { gone.Reset(cfg.timing.driver) }
	stopHelpers := x.startHelpers()
	err = x.follow(lifetime, conn)
	gone.Stop()
	cancel(nil)
	closeErr := conn.Close()
	err = errors.Join(x.verdict(ctx, err), x.end(), closeErr)
	stopHelpers()
	return err
}

// verdict turns the reason for the end into the error of Run.
func (x *executor) verdict(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errStopped):
		x.logger.Info("the driver says stop")
		return nil
	case errors.Is(err, errDriverGone):
		return fmt.Errorf("driver at %s: %w: not a word for %s", x.cfg.DriverAddr, err, x.cfg.timing.driver)
	case ctx.Err() == nil:
		return err
	}
	x.logger.Info("told to stop")
	return nil
}

// startHelpers starts the spawners and the sweeper; the result stops and joins
// them.
func (x *executor) startHelpers() func() {
	var joined sync.WaitGroup
	for range max(1, min(x.cfg.Cores, maxSpawners)) {
		joined.Go(func() { x.procs.runSpawner() })
	}
	joined.Go(func() {
		t := time.NewTicker(x.cfg.timing.sweep)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				x.procs.sweep()
			case <-x.procs.stop:
				return
			}
		}
	})
	return func() {
		close(x.procs.stop)
		joined.Wait()
	}
}

// end kills all tasks and what they left behind.
func (x *executor) end() error {
	t := time.NewTimer(x.cfg.timing.stop)
	defer t.Stop()
	select {
	case <-x.tasks.close():
	case <-t.C:
		return fmt.Errorf("end of the executor: processes %v and functions %q do not end", x.procs.pids(), x.tasks.functions())
	}
	for round := 0; x.procs.sweep() > 0; round++ {
		if round == maxBuryRounds {
			return errors.New("end of the executor: orphans do not end")
		}
		wait(time.Millisecond)
	}
	return nil
}
