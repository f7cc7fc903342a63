//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
)

// DecommissionDeadline is how long what runs is left alone when the worker takes itself out of service
// because of a signal (Spark's spark.worker.decommission.signal).
const DecommissionDeadline = time.Hour

// Decommission has the worker ask the leader to take it out of service, and returns once that is
// committed. It fails with model.ErrNoLeader without a session.
func (w *Worker) Decommission(ctx context.Context, t model.DrainTerms) error {
	w.mu.Lock()
	a := w.agent
	w.mu.Unlock()
	if a == nil {
		return fmt.Errorf("%w: the worker has not started yet", model.ErrConflict)
	}
	return a.decommission(ctx, t)
}

// wish is a drain that the worker asks the leader for. It is told once on each session until it is
// answered; whoever asked gives up with its context.
type wish struct {
	terms model.DrainTerms
	told  bool // on the present session
	// done gets the result; capacity 1.
	done chan error
}

// decommission asks the leader to take the worker out of service and waits for the answer.
func (a *agent) decommission(ctx context.Context, t model.DrainTerms) error {
	if err := t.Validate(); err != nil {
		return err
	}
	w := &wish{terms: t, done: make(chan error, 1)}
	var err error
	if doErr := a.do(ctx, func() { err = a.wishFor(w) }); doErr != nil || err != nil {
		return errors.Join(doErr, err)
	}
	defer func() {
		_ = a.do(context.WithoutCancel(ctx), func() {
			if a.wish == w {
				a.wish = nil
			}
		})
	}()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the leader has not answered: %w", ctx.Err())
	}
}

func (a *agent) wishFor(w *wish) error {
	switch {
	case a.wish != nil:
		return fmt.Errorf("%w: the leader is being asked already", model.ErrConflict)
	case a.stop.begun:
		return fmt.Errorf("%w: the worker is stopping", model.ErrConflict)
	case a.up == nil:
		return fmt.Errorf("%w: the worker has no session, so nobody could take it out of service", model.ErrNoLeader)
	}
	a.wish = w
	a.log.Info("asking to be taken out of service", "deadline_ms", w.terms.DeadlineMilli, "idle_only", w.terms.IdleOnly, "reason", w.terms.Reason)
	return nil
}

// request returns what is to be said to the leader, nil if nothing.
func (w *wish) request() *model.WorkerUp {
	if w == nil || w.told {
		return nil
	}
	t := w.terms
	return &model.WorkerUp{Drain: &t}
}

// granted takes the leader's answer.
func (a *agent) granted(d *model.DrainOK) {
	w := a.wish
	if w == nil || !w.told {
		return
	}
	a.wish = nil
	if d.Refused != "" {
		w.done <- fmt.Errorf("%w: %s", model.ErrRefused, d.Refused)
		return
	}
	a.log.Info("taken out of service")
	w.done <- nil
}
