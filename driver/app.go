package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// App is a registered application as its driver's part sees it. Its methods are
// safe for concurrent use.
type App struct {
	drv     *Driver
	log     hclog.Logger
	program *Program
	args    []string

	mu    sync.Mutex
	open  map[*pendingCall]struct{} // without a reply
	ended error                     // why nothing is submitted any more

	profiling   sync.Mutex // guards profiles; held while the cluster is asked
	profiles    []*Profile
	lastProfile int // of the numbers that were tried
}

// newApp makes the application of a driver that is about to run.
func newApp(drv *Driver, p *Program, args []string, log hclog.Logger) *App {
	return &App{drv: drv, log: log, program: p, args: args, open: make(map[*pendingCall]struct{})}
}

// ID is the application's id.
func (a *App) ID() model.AppID { return a.drv.App() }

// Args are the arguments of the command line that are not flags.
func (a *App) Args() []string { return a.args }

// Logger writes to standard error, at the level of --log-level.
func (a *App) Logger() hclog.Logger { return a.log }

// Executors lists the executors, by id.
func (a *App) Executors(ctx context.Context) []ExecutorInfo { return a.drv.Executors(ctx) }

// SetExecutors asks the cluster for that many executors from now on, in all. It
// returns when the wish is committed, not when they are there; with fewer than
// there are, none is ended, but none that ends is replaced. Not with
// Program.Dynamic, which does it by itself.
func (a *App) SetExecutors(ctx context.Context, n int) error {
	if a.program.Dynamic != nil {
		return fmt.Errorf("set executors: %w: Program.Dynamic decides how many there are", model.ErrConflict)
	}
	return a.drv.setTarget(ctx, model.ProfileDefault, n)
}

// ExecutorRequest is how many executors there should be of each size.
type ExecutorRequest struct {
	// Totals are absolute numbers by profile, up to MaxProfile; profiles that are not
	// named keep theirs. Profile 0 is the size that the program asks for at the start.
	Totals map[int]int
	// Profiles are further sizes, by numbers of the program's choice from 1 on;
	// NewProfile makes its own choice, so use one or the other.
	// One never changes; naming it again with the same size changes nothing. Cores
	// and memory that are 0 are those of profile 0, resources are its own alone
	// (spark-standalone 1.G).
	Profiles map[int]model.Profile
}

// RequestExecutors asks the cluster for that many executors of each size from now
// on (Spark's requestTotalExecutors). Totals survive masters; lowering one ends
// nothing, and ending executors lowers none. It returns when the wish is committed,
// not when they are there. Not with Program.Dynamic, which does it by itself.
func (a *App) RequestExecutors(ctx context.Context, req ExecutorRequest) error {
	if a.program.Dynamic != nil {
		return fmt.Errorf("request executors: %w: Program.Dynamic decides how many there are", model.ErrConflict)
	}
	return a.drv.RequestExecutors(ctx, req)
}

// RequestExecutors is App.RequestExecutors for a driver without a Program.
func (d *Driver) RequestExecutors(ctx context.Context, req ExecutorRequest) error {
	app := d.app.Load()
	if app == nil {
		return fmt.Errorf("request executors: %w: the application is not registered", model.ErrConflict)
	}
	profiles := make(map[int]model.Profile, len(req.Profiles))
	for id, p := range req.Profiles {
		if p.Cores == 0 {
			p.Cores = d.cfg.Spec.Profile.Cores
		}
		if p.MemoryMiB == 0 {
			p.MemoryMiB = d.cfg.Spec.Profile.MemoryMiB
		}
		profiles[id] = p.Clone()
	}
	err := d.cfg.Client.SetTargets(ctx, rpc.SetTargetsRequest{App: app.App, Token: app.Token, Totals: req.Totals, Profiles: profiles})
	if err != nil {
		return fmt.Errorf("request executors of %s: %w", app.App, err)
	}
	return d.call(ctx, func(l *loop) {
		for profile, n := range req.Totals {
			l.lane(profile).asked = n
		}
	})
}

// setTarget asks for a number of executors of one profile.
func (d *Driver) setTarget(ctx context.Context, profile, n int) error {
	return d.RequestExecutors(ctx, ExecutorRequest{Totals: map[int]int{profile: n}})
}

// route takes every result to its call until the driver has ended. Nothing in it
// blocks.
func (a *App) route() {
	buf := make([]Result, routeBatch)
	for {
		n, err := a.drv.Take(context.Background(), buf)
		if err != nil { // only its end
			break
		}
		for i := range buf[:n] {
			if c, ok := buf[i].Tag.(*pendingCall); ok {
				r := buf[i] // the call's; buf is used again
				c.ended(&r)
			}
		}
		clear(buf[:n])
	}
	<-a.drv.done
	err := a.drv.endError()
	a.mu.Lock()
	a.ended = err
	open := a.open
	a.open = nil
	a.mu.Unlock()
	for c := range open {
		c.reply(nil, fmt.Errorf("call function %q: %w", c.task.Function, err))
	}
}

// enter notes a call; an error says that the application is over.
func (a *App) enter(c *pendingCall) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended != nil {
		return fmt.Errorf("call function %q: %w", c.task.Function, a.ended)
	}
	a.open[c] = struct{}{}
	return nil
}

// leave forgets a call.
func (a *App) leave(c *pendingCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, c)
}

// pendingCall is one call from its submission to its reply, over all its tries.
type pendingCall struct {
	app   *App
	ctx   context.Context //nolint:containedctx // of the call, which it outlives by one cancellation
	task  Task
	retry *Retry
	done  func(*Result, int, error) // result, tries, why there is no value; called once, must not block

	mu        sync.Mutex
	tries     int
	id        model.TaskID // of the present try; 0 = none is known
	cancelled bool
	over      bool
	timer     *time.Timer // of the next try; nil = none waits
}

// submit makes a try. It blocks while the driver's queue is full.
func (c *pendingCall) submit() error {
	id, err := c.app.drv.Submit(c.ctx, c.task)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	c.id = id
	if c.cancelled {
		c.app.cancelTasks(id)
	}
	return nil
}

// cancelTasks tells the driver beside whoever calls it: the loop may be busy
// handing over results.
func (a *App) cancelTasks(ids ...model.TaskID) {
	if len(ids) > 0 {
		go func() { _ = a.drv.Cancel(ids...) }() // an error says that the driver is over
	}
}

// cancelCalls ends calls: what waits is dropped, what runs is told to return.
// The replies come as those of cancelled calls.
func (a *App) cancelCalls(calls ...*pendingCall) {
	var ids []model.TaskID
	for _, c := range calls {
		id, waits := c.cancel()
		if id != 0 {
			ids = append(ids, id)
		}
		if waits {
			c.reply(nil, c.cause())
		}
	}
	a.cancelTasks(ids...)
}

// cancel notes that the call is not wanted any more. It returns the task to
// cancel, if there is one, and whether the call waited for its next try.
func (c *pendingCall) cancel() (id model.TaskID, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled || c.over {
		return 0, false
	}
	c.cancelled = true
	return c.id, c.timer != nil && c.timer.Stop()
}

func (c *pendingCall) cause() error {
	return fmt.Errorf("call function %q: %w", c.task.Function, context.Cause(c.ctx))
}

// ended takes the result of a try: the reply, or another try.
func (c *pendingCall) ended(r *Result) {
	c.mu.Lock()
	c.id = 0
	c.tries++
	tries, again := c.tries, false
	err := callError(c.task.Function, r, tries)
	if err != nil && !c.cancelled && c.retry != nil && tries < c.retry.Tries &&
		(r.Outcome == model.TaskFailed || r.Outcome == model.TaskTimedOut) {
		again = c.retry.If == nil || c.retry.If(err)
	}
	if again {
		c.timer = time.AfterFunc(c.retry.pause(tries), c.retryNow)
	}
	c.mu.Unlock()
	switch {
	case again:
	case err != nil:
		c.reply(r, err)
	default: // a nil *CallError is no nil error
		c.reply(r, nil)
	}
}

// retryNow makes the next try, in a goroutine of its own.
func (c *pendingCall) retryNow() {
	c.mu.Lock()
	c.timer = nil
	c.mu.Unlock()
	if err := c.submit(); err != nil {
		c.reply(nil, err)
	}
}

// claim reports, once, that the caller is the one to give the call its end.
func (c *pendingCall) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.over = true
	return true
}

func (c *pendingCall) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// reply gives the call its one reply.
func (c *pendingCall) reply(r *Result, err error) {
	if !c.claim() {
		return
	}
	c.app.leave(c)
	c.done(r, c.tries, err)
}

// begin submits a call; done gets its reply unless the error is not nil.
func (a *App) begin(ctx context.Context, t Task, retry *Retry, done func(*Result, int, error)) (*pendingCall, error) {
	c := &pendingCall{app: a, ctx: ctx, task: t, retry: retry, done: done}
	c.task.Tag = c
	if err := a.enter(c); err != nil {
		return nil, err
	}
	if err := c.submit(); err != nil { //nolint:contextcheck // a task is cancelled after its call's context has ended
		if !c.claim() {
			return c, nil // the end of the driver was quicker: done has it
		}
		a.leave(c)
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) {
			err = c.cause()
		}
		return nil, err
	}
	return c, nil
}
