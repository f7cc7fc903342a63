package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// Run runs the command once for each input on the cluster, and returns when
// all have ended, when the halt policy is reached, or when ctx is cancelled:
// then every task is cancelled and the application ended first, unless
// deps.Abort is closed. The exit code is that of design 9: the number of failed
// tasks up to MaxFailureCode (with now,fail=1 the failing task's own),
// CodeUsage for options that make no sense, here or to the cluster (the error
// wraps model.ErrInvalid), CodeInterrupted, or CodeFault with the error. An
// input that blocks is not interrupted; its reader ends with it.
func Run(ctx context.Context, o Options, deps Deps) (Summary, int, error) {
	started := time.Now()
	p, err := o.prepare(ctx, &deps)
	if err != nil {
		return Summary{}, CodeUsage, err
	}
	in, err := openInputs(&p.Options, deps.Stdin)
	if err != nil {
		return Summary{}, CodeUsage, err
	}
	if err := prepareResults(p.ResultsDir); err != nil {
		in.close()
		return Summary{}, CodeUsage, err
	}
	r := &runner{p: p, deps: deps, in: in}
	sum, code, err := r.run(ctx)
	sum.Elapsed = time.Since(started)
	return sum, code, err
}

// runner wires one run.
type runner struct {
	p    *plan
	deps Deps
	in   *inputs
	drv  *driver.Driver

	ready atomic.Bool // an executor has come
}

func (r *runner) spec() model.AppSpec {
	spec := model.AppSpec{
		Name: r.p.Name, User: r.p.User, CoresMax: r.p.Jobs * r.p.Cores,
		Profile: model.Profile{MemoryMiB: r.p.MemoryMiB}, Executors: model.TargetUnlimited,
	}
	if r.p.Cores > 1 {
		spec.Profile.Cores = r.p.Cores
	}
	spec.Profile.Resources = r.p.Resources
	r.p.Placing.Apply(&spec)
	return spec
}

func (r *runner) run(ctx context.Context) (Summary, int, error) {
	var err error
	r.drv, err = driver.New(driver.Config{
		Client: r.deps.Client, Spec: r.spec(), Listen: r.p.bind, Advertise: r.p.host,
		CoresPerTask: r.p.Cores, MaxRunning: r.p.Jobs, StartFree: r.p.Halt.stops(), Spill: openSpill, Observer: r.observe, Logger: r.deps.Logger,
	})
	if err != nil {
		r.in.close()
		return Summary{}, CodeUsage, err
	}
	// The driver outlives ctx: it cancels tasks and ends the application.
	dctx, stopDriver := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDriver()
	driverErr := make(chan error, 1)
	go func() { driverErr <- r.drv.Run(dctx) }()

	// A reader that blocks (a terminal, say) ends with its input.
	ictx, stopInputs := context.WithCancel(ctx)
	defer stopInputs()
	records := make(chan record)
	go func() {
		defer r.in.close()
		r.in.feed(ictx, records)
	}()
	bar, stdout, stderr := newProgress(&r.deps)
	defer bar.close()
	e := &engine{
		p: r.p, drv: r.drv, bar: bar, ended: r.deps.TaskEnded, total: r.in.total,
		print:   newPrinter(stdout, stderr, r.p.KeepOrder),
		waiting: func() { r.waiting(stderr) },
	}
	defer e.print.close()
	if r.in.total >= 0 {
		bar.total(r.in.total)
	}
	sub := newSubmitter(dctx, r.drv)
	err = e.drive(ctx, records, sub, r.deps.Abort)
	stopInputs()
	sub.cancel()
	code, err := r.finish(ctx, e, err, stopDriver, driverErr, stderr)
	sub.close()
	e.sum.App = r.drv.App()
	return e.sum, code, err
}

// finish ends the application and says what came of the run.
func (r *runner) finish(ctx context.Context, e *engine, err error, stopDriver func(), driverErr <-chan error, stderr io.Writer) (int, error) {
	switch {
	case errors.Is(err, errDriverEnded):
		err := <-driverErr
		if r.drv.App() == "" && errors.Is(err, model.ErrInvalid) {
			return CodeUsage, err // a queue that there is none of, say
		}
		return CodeFault, err
	case ctx.Err() != nil:
		e.sum.NotDone = e.sum.Tasks - e.sum.Succeeded - e.sum.Failed
		r.end(ctx, stopDriver, driverErr, stderr, model.AppFailed, "interrupted", CodeInterrupted)
		return CodeInterrupted, nil //nolint:nilerr // the code says it
	case err != nil:
		e.sum.NotDone = e.sum.Tasks - e.sum.Succeeded - e.sum.Failed
		code := CodeFault
		if errors.Is(err, model.ErrInvalid) || errors.Is(err, model.ErrTooLarge) {
			code = CodeUsage // a bad input
		}
		r.end(ctx, stopDriver, driverErr, stderr, model.AppFailed, err.Error(), code)
		return code, err
	}
	code := r.p.Halt.exitCode(e.halted, e.sum.Failed, e.code)
	state, reason := model.AppFinished, ""
	if e.sum.Failed > 0 {
		state, reason = model.AppFailed, fmt.Sprintf("%d of %d tasks failed", e.sum.Failed, e.sum.Tasks)
	}
	r.end(ctx, stopDriver, driverErr, stderr, state, reason, code)
	return code, nil
}

// end tells the cluster that the application is over and stops the driver. A
// cluster that cannot be told ends it by itself; the work is done either way.
func (r *runner) end(ctx context.Context, stopDriver func(), driverErr <-chan error, stderr io.Writer, state model.AppState, reason string, code int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, stopDriver)
	defer stop()
	if r.deps.Abort != nil {
		go func() {
			select {
			case <-r.deps.Abort:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	if r.drv.App() == "" {
		// Still registering, or never done: there is nothing to end yet. If
		// the registration wins the race, the application is killed.
		stopDriver()
		r.driverEnded(<-driverErr)
		if app := r.drv.App(); app != "" {
			if err := r.deps.Client.KillApp(ctx, app, reason); err != nil {
				note(stderr, "application %s was not ended: %v; the cluster ends it soon", app, err)
			}
		}
		return
	}
	if err := r.drv.Finish(ctx, state, reason, code); err != nil && !errors.Is(err, model.ErrEnded) {
		note(stderr, "the cluster was not told that %s is over: %v; it ends it by itself", r.drv.App(), err)
	}
	r.driverEnded(<-driverErr)
}

// driverEnded notes the end of a driver that was told to end.
func (r *runner) driverEnded(err error) {
	if r.deps.Logger != nil {
		r.deps.Logger.Debug("the driver has ended", "err", err)
	}
}

// observe passes events on and notes the first executor.
func (r *runner) observe(e driver.Event) {
	if e.Kind == driver.EventExecutorReady {
		r.ready.Store(true)
	}
	if r.deps.Observer != nil {
		r.deps.Observer(e)
	}
}

// waiting tells the user, once, when nothing runs after a while.
func (r *runner) waiting(stderr io.Writer) {
	switch app := r.drv.App(); {
	case r.ready.Load():
	case app != "":
		note(stderr, "%s is registered; no executor has come yet", app)
	default:
		note(stderr, "no master has answered yet at %s", strings.Join(r.deps.Masters, ", "))
	}
}
