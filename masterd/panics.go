package masterd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of what a leader scope does about its own panics.
const (
	// maxStackBytes bounds the stack of a panic in the log.
	maxStackBytes = 8 << 10
	// maxLoopRestarts is how often in one term a loop that panics begins anew
	// before leadership is handed over: the fault may be this process's.
	maxLoopRestarts = 3
	// loopPauseFirst and loopPauseMax bound the pauses before a loop that has
	// panicked begins anew.
	loopPauseFirst = 250 * time.Millisecond
	loopPauseMax   = 30 * time.Second
	// gaveUpFor is how long a master that has handed leadership over because a
	// loop kept panicking does not do so again for the same loop: the fault is
	// then everywhere, and leadership would go round for ever.
	gaveUpFor = 10 * time.Minute
	// handOverPace is the least time between two times that a master hands
	// leadership over because its scope failed. Where every master's scope
	// fails, leadership must not go round as fast as messages do.
	handOverPace = 4 * time.Second
)

// panicError is a panic that was caught where an error can be returned.
type panicError struct {
	what  string
	value string
}

// Error says what panicked, and with what. The stack is in the log.
func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %s", e.what, e.value) }

// guard runs a part of this master and makes an error of a panic in it.
func guard(log hclog.Logger, what string, run func() error) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		stack := debug.Stack()
		err = &panicError{what: what, value: fmt.Sprint(p)}
		log.Error("caught a panic", "in", what, "panic", fmt.Sprint(p), "stack", string(stack[:min(len(stack), maxStackBytes)]))
	}()
	return run()
}

// setbacks remembers what of this master's leadership has failed, across terms.
type setbacks struct {
	mu         sync.Mutex
	gaveUp     map[string]time.Time // by loop: leadership was handed over for it
	handedOver time.Time            // because the scope had failed
}

// mayGiveUp reports whether a loop that keeps panicking ends the scope, and
// notes that it does.
func (s *setbacks) mayGiveUp(loop string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.gaveUp[loop]; ok && now.Sub(at) < gaveUpFor {
		return false
	}
	if s.gaveUp == nil {
		s.gaveUp = make(map[string]time.Time)
	}
	s.gaveUp[loop] = now
	return true
}

// mayHandOver reports whether a failed scope hands leadership over now, and
// notes that it does.
func (s *setbacks) mayHandOver(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handedOver.IsZero() && now.Sub(s.handedOver) < handOverPace {
		return false
	}
	s.handedOver = now
	return true
}

// runLoop runs one loop of the scope until the term ends or the loop fails. A
// loop that panics begins anew after a pause: loops compare what is with what
// should be, so nothing is lost. One that goes on panicking ends the scope once,
// and on a master that has tried that already it is only tried ever more
// slowly, while the other loops go on.
func (l *leadership) runLoop(ctx context.Context, name string, loop func(context.Context) error) error {
	pause := loopPauseFirst
	for restarts := 0; ; restarts++ {
		err := guard(l.log, name+" loop", func() error { return loop(ctx) })
		var caught *panicError
		switch {
		case err == nil || ctx.Err() != nil:
			return nil //nolint:nilerr // the term is over: that is no failure
		case !errors.As(err, &caught):
			return fmt.Errorf("%s loop: %w", name, err)
		case restarts >= maxLoopRestarts && l.m.setbacks.mayGiveUp(name, time.Now()):
			return err
		}
		if sleep(ctx, pause) != nil {
			return nil //nolint:nilerr // the term is over: that is no failure
		}
		pause = min(2*pause, loopPauseMax)
	}
}
