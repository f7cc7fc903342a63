package masterd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// Limits of the quarantine.
const (
	// quarantineFirst and quarantineMax bound how long an application is left
	// alone before the leader looks at it again; each failure doubles it.
	quarantineFirst = time.Minute
	quarantineMax   = 10 * time.Minute
	// maxQuarantined bounds the applications in quarantine: if more fail, it is
	// not they that are at fault.
	maxQuarantined = 100
)

// quarantine holds the applications at which a part of this leader has
// panicked. They get no placements, so that one application that hits a fault
// of ours does not stop the work for all others, on one master after the other.
// It is soft state of a term; the reason is committed, and so shown everywhere.
type quarantine struct {
	changed poke

	mu   sync.Mutex
	apps map[model.AppID]*quarantined
}

type quarantined struct {
	reason string
	until  time.Time // then it is looked at again
	pause  time.Duration
}

func newQuarantine() *quarantine {
	return &quarantine{changed: newPoke(), apps: make(map[model.AppID]*quarantined)}
}

// add puts an application into quarantine. It reports false if it cannot, since
// too many are in it.
func (q *quarantine) add(id model.AppID, reason string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.apps[id]
	switch {
	case e == nil && len(q.apps) >= maxQuarantined:
		return false
	case e == nil:
		e = &quarantined{pause: quarantineFirst}
		q.apps[id] = e
	case now.Before(e.until):
		return true
	default:
		e.pause = min(2*e.pause, quarantineMax)
	}
	e.reason, e.until = reason, now.Add(e.pause)
	q.changed.wake()
	return true
}

// holds reports whether an application is to be left alone.
func (q *quarantine) holds(id model.AppID, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.apps[id]
	return e != nil && now.Before(e.until)
}

// any reports whether an application is in quarantine, or was a moment ago.
func (q *quarantine) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.apps) > 0
}

// notes returns the reasons by application, and lets go those that have been
// looked at again without a failure.
func (q *quarantine) notes(now time.Time) map[model.AppID]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[model.AppID]string, len(q.apps))
	for id, e := range q.apps {
		if now.Sub(e.until) > 2*loopTick {
			delete(q.apps, id)
			continue
		}
		out[id] = e.reason
	}
	return out
}

// shield lets a part of the leader look at one application. If it panics, the
// application is put into quarantine and the part goes on with the others.
func (l *leadership) shield(id model.AppID, what string, look func()) {
	log := l.log
	if l.quarantine.holds(id, time.Now()) {
		log = hclog.NewNullLogger() // it has been said
	}
	err := guard(log, what, func() error {
		l.m.deps.seams.lookAt(id)
		look()
		return nil
	})
	if err != nil && !l.isolate(id, err) {
		panic(err) // not this application's fault
	}
}

// isolate puts an application into quarantine because of a panic.
func (l *leadership) isolate(id model.AppID, err error) bool {
	if !l.quarantine.add(id, model.TrimReason(fmt.Sprintf("left alone by the leader, which looks at it again from time to time: %v", err)), time.Now()) {
		l.log.Error("too many applications are in quarantine", "app", string(id), "limit", maxQuarantined)
		return false
	}
	return true
}

// plan makes one plan without the applications in quarantine. One at which the
// scheduler panics joins them, and the others are planned anew, by an index
// that reads everything again.
func (p *planner) plan(view *fsm.Scheduling, changed scheduler.Changes) (plan scheduler.Outcome, err error) {
	l := p.l
	for {
		v := &shieldedView{Scheduling: view, l: l}
		opt := scheduler.Options{MaxPlacements: maxPlacementsPass, WorkerBlocked: l.workerBlocked, AppHeld: v.held}
		err := guard(l.log, "the scheduler", func() error {
			plan = p.index.Pass(v, changed, opt)
			return nil
		})
		if err == nil {
			return plan, nil
		}
		p.index = scheduler.NewIndex()
		if v.at == "" || !l.isolate(v.at, err) {
			return scheduler.Outcome{}, err
		}
	}
}

// shieldedView is what the scheduler sees; it knows which application is being
// planned.
type shieldedView struct {
	*fsm.Scheduling
	l  *leadership
	at model.AppID // "" = none
}

// ActiveApps leaves out what is in quarantine.
func (v *shieldedView) ActiveApps(f func(*model.App) bool) {
	v.Scheduling.ActiveApps(func(a *model.App) bool {
		if v.held(a.ID) {
			return true
		}
		more := f(a)
		v.at = ""
		return more
	})
}

// ActiveApp leaves out what is in quarantine.
func (v *shieldedView) ActiveApp(id model.AppID) (*model.App, bool) {
	if v.held(id) {
		return nil, false
	}
	return v.Scheduling.ActiveApp(id)
}

// held reports whether an application is left alone; else it is the one that is
// being planned from now on.
func (v *shieldedView) held(id model.AppID) bool {
	if v.l.quarantine.holds(id, time.Now()) {
		return true
	}
	v.at = id
	v.l.m.deps.seams.lookAt(id)
	return false
}

// runQuarantine commits why applications are left alone, and that they are not
// any more. What an earlier leader wrote is taken back if this one has looked at
// the application without a failure. While none is left alone it waits for a change.
func (l *leadership) runQuarantine(ctx context.Context) error {
	pace, unpace := l.m.hub.newPace()
	defer unpace()
	pace.urgent = l.quarantine.changed
	restless := true
	for pace.next(ctx, restless) {
		wrote, err := l.commitNotes(ctx)
		if errors.Is(err, model.ErrNotLeader) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("could not note which applications are left alone", "err", err)
		}
		restless = wrote || err != nil || l.quarantine.any()
	}
	return nil
}

// commitNotes brings the reasons in the state in line; wrote says whether there
// was anything to do.
func (l *leadership) commitNotes(ctx context.Context) (wrote bool, err error) {
	notes := l.quarantine.notes(time.Now())
	var cmds []*replogv1.Command
	l.m.fsm.View().ActiveApps(func(a *model.App) bool {
		if a.Reason != notes[a.ID] {
			cmds = append(cmds, noteAppCommand(a.ID, notes[a.ID]))
		}
		return len(cmds) < maxVerdictsCmd
	})
	if len(cmds) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	_, err = l.m.node.ProposeAll(ctx, cmds)
	return true, err
}
