package masterd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
)

// Named times of the liveness table (design 7).
const (
	unreachableAfter = time.Second            // without a session: committed
	livenessTick     = 100 * time.Millisecond // how often silence is looked at
	livenessRest     = 250 * time.Millisecond // the same while there is none
	restQuarters     = 4                      // of a beat, if that is shorter
	stallNoticed     = 500 * time.Millisecond // a look that comes so late says that this process stood still
	stallSettles     = 20 * time.Millisecond  // for reading what has waited
	inventoryWait    = 10 * time.Second       // for the Hello of a worker, at the start of a term
	silentLooks      = 2                      // in a row that make a verdict
	overdueFifths    = 2                      // of a beat, after which it is overdue
	repeatedWarning  = time.Minute
)

// runClock is the time that has passed for this master since the term began,
// without what it stood still (stopped, or starved of processor time): what
// workers and drivers have said meanwhile waits to be read, so a silence proves
// nothing. A standstill counts as stallNoticed, however long it was. Safe for
// concurrent use.
type runClock struct {
	mu   sync.Mutex
	at   time.Duration
	last time.Time // of the last look; zero before the first
}

func (c *runClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at + min(c.since(), stallNoticed)
}

func (c *runClock) since() time.Duration {
	if c.last.IsZero() {
		c.last = time.Now()
	}
	return time.Since(c.last)
}

// look moves the clock on and returns for how long this master stood still, 0
// if it did not. It is called every livenessTick or livenessRest.
func (c *runClock) look() (stood time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.since()
	c.last = time.Now()
	c.at += min(passed, stallNoticed)
	if passed < stallNoticed {
		return 0
	}
	return passed
}

// runLiveness applies the table of design 7 to every seat: the session and
// gossip are witnesses, a refused dial-back is proof, time decides the rest.
// Closed sessions are looked into at once, beside this loop.
func (l *leadership) runLiveness(ctx context.Context) error {
	pause := livenessTick
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var thorough, warned time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		stood := l.clock.look()
		if stood > 0 && time.Since(warned) > repeatedWarning {
			warned = time.Now()
			l.log.Warn("this master stood still: nobody is blamed for that time", "for", stood.Round(time.Millisecond).String())
		}
		if stood > 0 && sleep(ctx, stallSettles) != nil { // what was said meanwhile is read first
			return nil
		}
		all := time.Since(thorough) > loopTick-livenessTick/2 // tickers are not exact
		if all {
			thorough = time.Now()
			l.noteGossip()
		}
		for _, d := range l.judgeWorkers(all) { //nolint:contextcheck // pursuits end with the scope
			if err := l.markWorker(ctx, d); err != nil && ctx.Err() == nil {
				l.log.Warn("could not commit a verdict on a worker", "worker", string(d.worker.ID), "state", string(d.state), "err", err)
			}
		}
		if now := l.livenessPause(); now != pause {
			pause = now
			tick.Reset(pause)
		}
		if !all {
			continue
		}
		for _, d := range l.judgeDrivers() {
			if err := l.failDriver(ctx, d); err != nil && ctx.Err() == nil {
				l.log.Warn("could not end the application of a lost driver", "app", string(d.app), "err", err)
			}
		}
	}
}

// livenessPause is the time until the next look. A worker is overdue, or without a
// session, for long before there is a verdict on it: while none is, looks may be
// rarer without a verdict being later.
func (l *leadership) livenessPause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.workers {
		if s.session == nil || l.silentLocked(s) {
			return livenessTick
		}
	}
	return livenessAtRest(l.m.cfg.WorkerBeat)
}

func livenessAtRest(beat time.Duration) time.Duration {
	return max(livenessTick, min(livenessRest, beat/restQuarters))
}

// noteGossip copies what gossip says of workers into their seats.
func (l *leadership) noteGossip() {
	members := l.m.goss.Members()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mb := range members {
		if s := l.workers[model.WorkerID(mb.ID)]; s != nil {
			s.failed = mb.Status == gossip.StatusFailed
		}
	}
}

// verdict is what liveness says of a worker at one moment, with the evidence.
type verdict struct {
	worker      *model.Worker // as it was judged
	answered    time.Duration // when it had last been heard by then
	beat        uint64        // the last answered one, 0 for none
	heard       int64         // cluster clock when the worker had last been heard
	state       model.WorkerState
	processGone bool
	reason      string
}

// evidenceLocked begins a verdict on a worker as it is now. What its Hello and
// reports have said is in the record, so only newer ones refute the verdict.
func evidenceLocked(s *workerSeat, w *model.Worker) verdict {
	return verdict{worker: w, answered: s.answered, beat: s.beat, heard: max(s.heard, w.HeardTick)}
}

func (d verdict) says(state model.WorkerState, format string, args ...any) (verdict, bool) {
	d.state, d.reason = state, fmt.Sprintf(format, args...)
	return d, true
}

// judgeWorkers returns the changes to commit. Only a thorough look at all of
// them looks at those that answer, and gives seats to who has come since the
// last one.
func (l *leadership) judgeWorkers(all bool) []verdict {
	v := l.m.fsm.View()
	now, tick := l.clock.now(), l.m.node.ClusterTick()
	var out []verdict
	l.mu.Lock()
	defer l.mu.Unlock()
	if all && l.seatedAt != v.Index() {
		l.seatNewWorkersLocked(v)
		l.seatNewDriversLocked(v)
		l.seatedAt = v.Index()
	}
	for id, s := range l.workers {
		if !all && s.session != nil && now-s.answered <= l.m.cfg.WorkerTimeout {
			continue
		}
		w, ok := v.Worker(id)
		if !ok || w.State.Gone() {
			if s.session == nil {
				s.pursuit = stopped(s.pursuit)
				delete(l.workers, id)
			}
			continue
		}
		if d, ok := l.judgeWorkerLocked(s, w, now, tick); ok {
			out = append(out, d)
		}
	}
	return out
}

// judgeWorkerLocked applies the table to one worker; false for no change.
func (l *leadership) judgeWorkerLocked(s *workerSeat, w *model.Worker, now time.Duration, tick int64) (verdict, bool) {
	timeout := l.m.cfg.WorkerTimeout
	silent := now-s.answered > timeout && !excused(w, tick)
	if !silent {
		s.looks = 0
	}
	d := evidenceLocked(s, w)
	switch {
	case excused(w, tick):
	case silent:
		if s.looks++; s.looks < silentLooks {
			break
		}
		if s.session == nil {
			return d.says(model.WorkerDead, "no session and no answered beat for %s", timeout)
		}
		s.session()
		return d.says(model.WorkerDead, "no answered beat for %s", timeout)
	case s.session != nil:
		l.warnDetectorLocked(s)
		if !w.State.Up() {
			return d.says(model.WorkerAlive, "")
		}
	case w.State != model.WorkerUnreachable && now-s.closed > unreachableAfter && now > min(timeout, inventoryWait):
		return d.says(model.WorkerUnreachable, "its session is closed")
	}
	return verdict{}, false
}

// excused reports whether the worker is away for a planned restart.
func excused(w *model.Worker, tick int64) bool {
	return w.State == model.WorkerRestarting && tick < w.RestartUntil
}

// warnDetectorLocked says once in a while that gossip calls a worker failed
// whose session answers: UDP or the detector is in trouble, not the worker.
func (l *leadership) warnDetectorLocked(s *workerSeat) {
	if s.failed && time.Since(s.warned) > repeatedWarning {
		s.warned = time.Now()
		l.log.Warn("gossip calls a worker failed while its session answers: check UDP between the machines", "worker", string(s.id))
	}
}

// markWorker commits a verdict with the evidence it was made from, unless the
// worker has been heard since.
func (l *leadership) markWorker(ctx context.Context, d verdict) error {
	id := d.worker.ID
	v := l.m.fsm.View()
	w, ok := v.Worker(id)
	if !ok || w.State == d.state || w.State.Gone() || (d.state == model.WorkerDead && l.heardSince(id, d.answered)) {
		return nil
	}
	if d.processGone && w.State == model.WorkerUnreachable && onlySingletonsOn(v, id) {
		return nil // they wait for worker_timeout
	}
	err := l.m.propose(ctx, verdictCommand(d))
	if isRejected(err, model.RejectEvidence, model.RejectIncarnation, model.RejectTransition, model.RejectUnknownWorker) {
		return nil // it moved meanwhile: look again
	}
	if err != nil {
		return err
	}
	if w, ok := l.m.fsm.View().Worker(id); ok {
		l.log.Warn("worker marked", "worker", string(id), "state", string(w.State), "reason", w.StateReason)
	}
	return nil
}

// onlySingletonsOn reports whether all that is left on a worker is executors of
// singleton applications, and at least one.
func onlySingletonsOn(v *fsm.View, id model.WorkerID) bool {
	singletons := false
	only := true
	v.WorkerExecutors(id, func(e *model.Executor) bool {
		spec, ok := launchSpec(v, e)
		only = ok && spec.Disconnect.Singleton()
		singletons = singletons || only
		return only
	})
	return singletons && only
}

// heardSince reports whether a worker has answered after at.
func (l *leadership) heardSince(id model.WorkerID, at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.workers[id]
	return s != nil && s.answered > at
}
