package masterd

import (
	"context"
	"time"
)

// restLook is how often a loop of the leader that waits for changes looks at
// everything although it was told of none. Nothing depends on it as long as
// every change wakes it: it bounds what a wake-up that is missed would cost.
const restLook = 30 * time.Second

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
		rest := time.NewTimer(restLook)
		defer rest.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-p.urgent:
			return true
		case <-rest.C:
		case <-p.wake:
		}
	}
	moment := time.NewTimer(loopTick - time.Since(p.began)%loopTick)
	defer moment.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-p.urgent:
		return true
	case <-moment.C:
	}
	select {
	case <-p.wake:
	default:
	}
	return true
}
