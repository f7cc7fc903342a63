package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultStopTimeout is how long an interrupted actor may take to return before
// the group goes on without it and reports it by name.
const DefaultStopTimeout = 30 * time.Second

// ErrStuck is in the error of Group.Run when an actor did not return within the
// stop timeout after it was interrupted. Its goroutine is still running.
var ErrStuck = errors.New("did not stop in time")

// errStopped is the cancellation cause an actor sees when the group stops
// without an error of another actor.
var errStopped = errors.New("group stopped")

// actor is one part of the group. It is owned by the goroutine in Group.Run.
type actor struct {
	name      string
	run       func(context.Context) error
	interrupt func(cause error)

	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when run has returned
	returned bool          // true once its error was collected
	err      error         // written before done is closed
}

// Group is a set of actors that live and die together. It is used once: New,
// Add for each actor, Run. It is not safe for concurrent use before Run, and no
// method may be called after Run has started.
type Group struct {
	stopTimeout time.Duration
	actors      []*actor
}

// New returns an empty group. stopTimeout bounds how long each actor may take to
// return once interrupted; zero or less means DefaultStopTimeout.
func New(stopTimeout time.Duration) *Group {
	if stopTimeout <= 0 {
		stopTimeout = DefaultStopTimeout
	}
	return &Group{stopTimeout: stopTimeout}
}

// Add appends an actor. run blocks until the actor is over; its context is
// cancelled when the actor is interrupted, and only then, so that an actor
// outlives those added after it. interrupt, which may be nil, is called just
// after that cancellation, once, for what a context cannot reach (a listener to
// close); it must not block. Name the actor as an operator would.
func (g *Group) Add(name string, run func(ctx context.Context) error, interrupt func(cause error)) {
	g.actors = append(g.actors, &actor{name: name, run: run, interrupt: interrupt, done: make(chan struct{})})
}

// Run starts all actors in the order they were added and blocks until each has
// returned or is stuck. When ctx ends, or as soon as one actor returns (with or
// without an error), the others are stopped in the reverse order, each joined
// before the next is interrupted: what was added first serves the longest.
//
// The result joins the errors of all actors, each wrapped with its name, in the
// order in which they were collected (the first to return comes first). An actor
// which answers its interruption with context.Canceled has no error. Run returns
// nil for an empty group.
func (g *Group) Run(ctx context.Context) error {
	if len(g.actors) == 0 {
		return nil
	}
	first := make(chan *actor, len(g.actors))
	for _, a := range g.actors {
		g.start(ctx, a, first)
	}

	var errs []error
	cause := errStopped
	select {
	case a := <-first:
		errs = append(errs, a.collect(false))
		if errs[0] != nil {
			cause = errs[0]
		}
	case <-ctx.Done():
		cause = context.Cause(ctx)
	}
	for _, a := range slices.Backward(g.actors) {
		errs = append(errs, g.stop(a, cause))
	}
	return errors.Join(errs...)
}

// start launches one actor. Its context keeps the values of ctx but not its end:
// otherwise the end of ctx would stop all actors at once and in no order.
func (g *Group) start(ctx context.Context, a *actor, first chan<- *actor) {
	actx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	a.cancel = cancel
	go func() {
		a.err = a.run(actx)
		close(a.done)
		first <- a // buffered for every actor: never blocks
	}()
}

// stop interrupts one actor and waits for it. An actor that had returned already
// is not interrupted, but its error is collected.
func (g *Group) stop(a *actor, cause error) error {
	if a.returned {
		return nil
	}
	select {
	case <-a.done:
		return a.collect(false)
	default:
	}
	a.cancel(cause)
	if a.interrupt != nil {
		a.interrupt(cause)
	}
	timer := time.NewTimer(g.stopTimeout)
	defer timer.Stop()
	select {
	case <-a.done:
		return a.collect(true)
	case <-timer.C:
		a.returned = true
		return fmt.Errorf("stop %s after %s: %w", a.name, g.stopTimeout, ErrStuck)
	}
}

// collect takes the error of an actor that has returned. interrupted says that
// a cancellation is the expected answer.
func (a *actor) collect(interrupted bool) error {
	a.returned = true
	a.cancel(errStopped)
	if a.err == nil || (interrupted && errors.Is(a.err, context.Canceled)) {
		return nil
	}
	return fmt.Errorf("%s: %w", a.name, a.err)
}
