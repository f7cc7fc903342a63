package executor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
)

// call is what a task has besides if it is a call of a function. Guarded by
// registry.mu.
type call struct {
	ctx     *callContext // nil until it is started
	began   time.Time
	started bool // of processes, too
	// lapsed: its result is reported although it runs on; it takes a slot.
	lapsed bool
	// timer is that of the time-out, then that of the grace; nil = none.
	timer *time.Timer
}

// callQueue holds the calls that wait, and the fixed set of goroutines, the
// runners, that make them: at most one for each slot. Guarded by registry.mu.
type callQueue struct {
	run     func(*heldTask, *model.TaskResult)
	grace   time.Duration
	report  func(t *heldTask, text string) // tells the log of a lingering function
	slots   int
	runners int
	idle    int // runners that wait for work
	// lingering is how many runners are in a function whose task is over.
	lingering int
	// ending are the calls whose context has ended and that run on.
	ending  map[*heldTask]struct{}
	waiting []*heldTask // from head on; tasks that are over are skipped
	head    int
	work    sync.Cond
}

func (q *callQueue) push(t *heldTask) { q.waiting = append(q.waiting, t) }

func (q *callQueue) pop() *heldTask {
	for q.head < len(q.waiting) {
		t := q.waiting[q.head]
		q.waiting[q.head] = nil
		q.head++
		if !t.over && !t.abandoned {
			return t
		}
	}
	q.waiting, q.head = q.waiting[:0], 0
	return nil
}

// staffLocked sees to it that somebody makes the calls that wait.
func (r *registry) staffLocked() {
	q := &r.calls
	for n := len(q.waiting) - q.head; n > 0; n-- {
		switch {
		case q.idle > 0:
			q.idle--
			q.work.Signal()
		case q.runners < q.slots:
			q.runners++
			r.running.Go(r.runner)
		default:
			return
		}
	}
}

// runner makes one call after the other.
func (r *registry) runner() {
	var t *heldTask
	var res model.TaskResult
	over := false
	defer func() {
		if over {
			return
		}
		// The function has ended this goroutine (runtime.Goexit).
		r.mu.Lock()
		defer r.mu.Unlock()
		r.endedLocked(t, &model.TaskResult{
			Outcome: model.TaskFailed, ExitCode: -1, Error: "the function ended its goroutine (runtime.Goexit)",
		}, time.Now())
		r.wake()
		r.running.Go(r.runner) // in its place
	}()
	for {
		if t = r.turn(t, &res); t == nil {
			over = true
			return
		}
		r.calls.run(t, &res)
	}
}

// turn takes the result of a runner's call and gives it the next one; nil tells
// the runner to end. Results wake the sender at once if nothing else is to be
// done or the function took its time, and a little later, together, if not.
func (r *registry) turn(t *heldTask, res *model.TaskResult) *heldTask {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.calls
	quick := false
	if t != nil {
		quick = now.Sub(t.began) < flushAfter
		r.endedLocked(t, res, now)
	}
	next := q.pop()
	if t != nil {
		r.flushLocked(next != nil && quick)
	}
	for next == nil {
		if r.closed || q.runners > q.slots {
			q.runners--
			return nil
		}
		q.idle++
		q.work.Wait() // whoever signals has taken it from idle
		next = q.pop()
		now = time.Now()
	}
	if r.closed {
		q.runners--
		return nil
	}
	next.started, next.began, next.ctx = true, now, r.records.context()
	if ms := next.spec.TimeoutMilli; ms > 0 {
		d := time.Duration(ms) * time.Millisecond
		next.ctx.deadline = now.Add(d)
		next.timer = time.AfterFunc(d, func() { r.timeOut(next) })
	}
	return next
}

// flushLocked wakes the sender for a new result: now, or, if more will follow
// soon, when there are flushResults or flushAfter is over.
func (r *registry) flushLocked(soon bool) {
	switch {
	case !soon || r.results.waiting >= flushResults:
		r.wake()
	case r.results.waiting == 1:
		r.flush.Reset(flushAfter)
	}
}

// endedLocked notes that the function of a task has returned.
func (r *registry) endedLocked(t *heldTask, res *model.TaskResult, now time.Time) {
	t.ctx.end(context.Canceled) // for what the function has started
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.outcome != "" {
		delete(r.calls.ending, t)
	}
	if t.lapsed {
		r.calls.lingering--
		r.wake()
		return
	}
	if t.outcome != "" {
		res.Outcome, res.Value, res.ExitCode = t.outcome, nil, -1
	}
	res.RuntimeMicro = now.Sub(t.began).Microseconds()
	r.finishLocked(t, res, [2]*capture{})
}

// timeOut ends a call whose time is over.
func (r *registry) timeOut(t *heldTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !t.over {
		r.killLocked(t, model.TaskTimedOut)
	}
}

// endCallLocked ends a call that was killed: one that waits at once; one that
// runs is asked to, and is reported if it has not returned after the grace.
func (r *registry) endCallLocked(t *heldTask) {
	if !t.started {
		r.unbegunLocked(t)
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	t.timer = time.AfterFunc(r.calls.grace, func() { r.lapse(t) })
	why := context.Canceled
	if t.outcome == model.TaskTimedOut {
		why = context.DeadlineExceeded
	}
	r.calls.ending[t] = struct{}{}
	t.ctx.end(why)
}

// unbegunLocked reports a task that was killed while it waited for a slot.
func (r *registry) unbegunLocked(t *heldTask) {
	r.finishLocked(t, &model.TaskResult{Outcome: t.outcome, ExitCode: -1, Error: "cancelled before it ran"}, [2]*capture{})
	r.wake()
}

// lapse reports a call whose function does not return.
func (r *registry) lapse(t *heldTask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.over {
		return
	}
	t.lapsed = true
	r.calls.lingering++
	text := fmt.Sprintf("function %q has not returned %s after its context ended: its slot stays taken until it does", t.spec.Function, r.calls.grace)
	r.calls.report(t, text)
	r.finishLocked(t, &model.TaskResult{
		Outcome: t.outcome, ExitCode: -1, Error: text, RuntimeMicro: time.Since(t.began).Microseconds(),
	}, [2]*capture{})
	r.wake()
}
