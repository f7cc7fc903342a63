//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// ErrRestart is returned by Run after a planned restart was asked for and prepared: the keeper waits
// with everything it runs for the next start of this worker. The caller starts it, best in the same
// process, so that whoever supervises that notices nothing.
var ErrRestart = errors.New("the worker has handed its processes over and is to be started again")

// Windows of planned restarts.
const (
	// DefaultRestartWindow is how long the leader and the keeper wait for the next start.
	DefaultRestartWindow = time.Minute
	// MinRestartWindow leaves time for a start.
	MinRestartWindow = 5 * time.Second
	// MaxRestartWindow is the leader's limit.
	MaxRestartWindow = model.MaxRestartMilli * time.Millisecond
)

// handover is a planned restart, or a stop that keeps the executors, under way: the leader commits
// RESTARTING, launches that have begun are finished, the keeper is told to keep, and the agent ends.
type handover struct {
	// again: Run returns ErrRestart, else nil.
	again  bool
	window time.Duration

	deadline time.Time     // for all of it
	asked    bool          // the leader was, on the present session
	askedAt  time.Duration // CLOCK_BOOTTIME before it was; the leader counts from later
	agreed   bool          // by the leader
	forced   bool          // there is no leader to agree
	keeping  bool          // the keeper is being told
	// done gets the result; capacity 1.
	done chan error
}

// HandOver ends the worker as `hearth worker stop --keep` does: what it runs lives on for the next start, for at most window.
// It returns once the keeper waits for that, and Run soon after; with an error nothing has changed.
func (w *Worker) HandOver(ctx context.Context, window time.Duration) error {
	w.mu.Lock()
	a := w.agent
	w.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: the worker has not started yet", model.ErrConflict)
	}
	return a.handOver(ctx, &handover{window: window, done: make(chan error, 1)}, false)
}

// handOver begins h and waits for its end.
func (a *agent) handOver(ctx context.Context, h *handover, force bool) error {
	var err error
	if doErr := a.do(ctx, func() { err = a.beginHandover(h, force, time.Now()) }); doErr != nil || err != nil {
		return errors.Join(doErr, err)
	}
	select {
	case err := <-h.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginHandover starts h. Its end comes through h.done unless an error is returned.
func (a *agent) beginHandover(h *handover, force bool, now time.Time) error {
	switch {
	case h.window < MinRestartWindow || h.window > MaxRestartWindow:
		return fmt.Errorf("%w: a window of %s: must be %s to %s", model.ErrInvalid, h.window, MinRestartWindow, MaxRestartWindow)
	case a.stop.begun:
		return fmt.Errorf("%w: the worker is stopping", model.ErrConflict)
	case a.hand != nil:
		return fmt.Errorf("%w: a planned restart is under way", model.ErrConflict)
	case a.up == nil && !force:
		return fmt.Errorf("%w: it could not be told of the restart, and might replace the executors meanwhile; --force restarts all the same", model.ErrNoLeader)
	}
	h.forced = a.up == nil
	h.deadline = now.Add(handoverBound)
	a.hand = h
	a.log.Info("planned restart: handing over", "executors", a.table.live(), "window", h.window, "without_leader", h.forced)
	return nil
}

// request returns what is to be said to the leader, nil if nothing.
func (h *handover) request(now time.Duration) *model.WorkerUp {
	if h == nil || h.asked || h.forced {
		return nil
	}
	h.askedAt = now
	return &model.WorkerUp{Restart: &model.WorkerRestart{WindowMilli: h.window.Milliseconds()}}
}

// advance does the next step of a handover.
func (a *agent) advance(now time.Time) {
	h := a.hand
	switch {
	case h == nil || a.over:
	case now.After(h.deadline) && !h.keeping:
		err := fmt.Errorf("%w: launches have not come to an end", context.DeadlineExceeded)
		if !h.agreed && !h.forced {
			err = fmt.Errorf("%w: the leader has not agreed", context.DeadlineExceeded)
		}
		a.abandonHandover(err)
	case (h.agreed || h.forced) && !h.keeping && a.table.starting() == 0:
		h.keeping = true
		a.table.handOver()
		a.job(func(ctx context.Context) {
			err := a.keepAll(ctx, h)
			_ = a.do(context.WithoutCancel(ctx), func() { a.keptAll(h, err) }) //nolint:contextcheck // jobs outlive whoever asks for them, on purpose
		})
	}
}

// keepAll has the keeper wait for the next start. What it runs under a lease ends before the leader
// replaces it: in the window that it agreed to, or as without a restart if none did.
func (a *agent) keepAll(ctx context.Context, h *handover) error {
	k := a.keepers.get()
	if k == nil {
		return keeper.ErrDisconnected
	}
	keep := h.window
	if h.agreed {
		a.contact.handOver(h.askedAt, h.window)
		keep -= a.contact.now() - h.askedAt
	}
	if err := a.contact.renew(ctx, k); err != nil {
		return err
	}
	return k.Keep(ctx, max(keep, time.Second))
}

// keptAll ends the agent, or the handover if it has failed.
func (a *agent) keptAll(h *handover, err error) {
	if a.hand != h {
		// It was abandoned for a stop, which ends everything; a keeper that waits would not hurt then.
		return
	}
	if err != nil {
		a.abandonHandover(fmt.Errorf("tell the keeper to keep: %w", err))
		return
	}
	a.over = true
	a.keepers.kept = true
	a.log.Info("planned restart: the keeper waits for the next start", "executors", a.table.live(), "at_most", h.window)
	h.done <- nil
}

// abandonHandover goes on as if none had been asked for. A leader that has agreed meanwhile learns of
// it by another Hello.
func (a *agent) abandonHandover(err error) {
	h := a.hand
	a.hand = nil
	a.contact.resume()
	a.perform(a.table.takeBack())
	if h.asked && a.anew != nil {
		a.anew()
	}
	a.log.Warn("planned restart given up", "err", err)
	h.done <- err
}
