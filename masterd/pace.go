package masterd

import (
	"context"
	"time"
)

// restLook is how often a loop of the leader that waits for changes looks at
// everything although it was told of none. Nothing depends on it as long as
// every change wakes it: it bounds what a wake-up that is missed would cost.
const restLook = 30 * time.Second

// lookAfter is how long a loop of the leader waits for its next look if it is told
// of no change: a restless one has seen something that passes with time alone.
func lookAfter(restless bool) time.Duration {
	if restless {
		return loopTick
	}
	return restLook
}

// wakeup is why a loop goes on after a wait.
type wakeup int

const (
	byEnd wakeup = iota // of its context
	byTime
	byFirst // of its two pokes
	bySecond
)

// await waits for d, a poke or the end of ctx; a nil poke never comes. A wait that
// is over takes no poke, so that none is lost, and makes no timer: the race
// detector bears none of length 0 in virtual time.
func await(ctx context.Context, d time.Duration, first, second poke) wakeup {
	if ctx.Err() != nil {
		return byEnd
	}
	if d <= 0 {
		return byTime
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return byEnd
	case <-t.C:
		return byTime
	case <-first:
		return byFirst
	case <-second:
		return bySecond
	}
}

// sleep waits, or returns the error of a context that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if await(ctx, d, nil, nil) == byEnd {
		return ctx.Err()
	}
	return nil
}

// pace lets a loop look at the moments of a ticker of loopTick, but leaves out
// those at which it can find nothing new: no entry has changed anything since its
// last look, and what it saw then does not pass with time alone. So a change is
// looked at as soon as with a ticker, and a cluster in which nothing happens
// costs nothing. One goroutine owns it.
type pace struct {
	began time.Time
	wake  poke // after each entry that changed something
	// urgent has the loop look at once; nil = nothing does.
	urgent poke
}

// newPace begins to watch for changes. The returned function ends that.
func (h *hub) newPace() (*pace, func()) {
	wake, unwatch := h.watchAny()
	return &pace{began: time.Now(), wake: wake}, unwatch
}

// next waits for the moment of the next look; false = ctx has ended. A restless
// loop looks at the next one. What has changed until next returns is in the view
// that is read then.
func (p *pace) next(ctx context.Context, restless bool) bool {
	if !restless {
		switch await(ctx, restLook, p.urgent, p.wake) {
		case byEnd:
			return false
		case byFirst:
			return true
		case byTime, bySecond:
		}
	}
	switch await(ctx, loopTick-time.Since(p.began)%loopTick, p.urgent, nil) {
	case byEnd:
		return false
	case byFirst:
		return true
	case byTime, bySecond:
	}
	select {
	case <-p.wake:
	default:
	}
	return true
}
