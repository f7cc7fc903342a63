//go:build linux

package workerd

import (
	"context"
	"time"

	"github.com/hearthd/hearth/model"
)

// do runs f in the agent's goroutine and waits for it, and until what it has recorded is in the journal.
func (a *agent) do(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	select {
	case a.calls <- func() { f(); a.waiting = append(a.waiting, ran) }:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.done:
		return errAgentEnded
	}
	<-ran // it was taken, and functions never block for long
	return nil
}

// together runs first, and whatever else waits for the agent by now, and then writes the journal once
// for all of it. Only after that is anything started or reported, and do returns.
func (a *agent) together(first func()) {
	began := time.Now()
	a.busy.Store(&began)
	defer a.busy.Store(nil)
	a.gathering = true
	a.journal.gather()
	first()
	for n := 1; n < maxTogether; n++ {
		select {
		case f := <-a.calls:
			f()
			continue
		case d := <-a.orders:
			a.obey(d)
			continue
		default:
		}
		break
	}
	err := a.journal.flush()
	a.gathering = false
	effects := a.effects
	a.effects = nil
	if err != nil {
		a.log.Error("journal not written: a restart now would not know of this", "err", err)
		effects = a.withoutStarts(effects, err)
	}
	a.perform(effects)
	for _, ran := range a.waiting {
		close(ran)
	}
	clear(a.waiting)
	a.waiting = a.waiting[:0]
}

// withoutStarts takes back the launches that are not in the journal: a process that the next start does not
// know would be nobody's.
func (a *agent) withoutStarts(effects []effect, err error) []effect {
	var out []effect
	for _, e := range effects {
		if e.kind == effectStart {
			out = append(out, a.table.startFailed(e.ref, err, false)...)
			continue
		}
		out = append(out, e)
	}
	return out
}

// order implements sessionOwner. It waits while maxDownQueue orders have not been looked at, and for
// an agent that has been at one thing, or a sync of the journal that has taken, for longer than
// agentPatience: with a disk that hangs the session must hang too, or the leader would take this worker
// for one that can launch.
func (a *agent) order(ctx context.Context, d model.WorkerDown) error {
	if ended := a.journal.log.Stuck(agentPatience); ended != nil {
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.done:
			return errAgentEnded
		}
	}
	if since := a.busy.Load(); since != nil && time.Since(*since) > agentPatience {
		if err := a.do(ctx, func() {}); err != nil {
			return err
		}
	}
	select {
	case a.orders <- d:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-a.done:
		return errAgentEnded
	}
}

// finishOrders obeys what an ended session has left, before the next one begins.
func (a *agent) finishOrders() {
	for {
		select {
		case d := <-a.orders:
			a.obey(d)
		default:
			return
		}
	}
}
