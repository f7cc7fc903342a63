package driver

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// lane holds the tasks that wait for executors of one profile. A task runs on
// executors of exactly its profile, whatever room others have (Spark's
// TaskSchedulerImpl.resourceOfferSingleTaskSet). Owned by the loop.
type lane struct {
	profile int
	// taskCores is how many cores one task takes there.
	taskCores int
	// asked is how many executors this driver has asked for; -1 = it never has.
	asked int
	queue queue
	near  int // how many more wait in the nearQueue
	// used: it has had a task.
	used bool
	// starved is since when tasks wait and no executor is there; zero = they do
	// not. told: the user knows.
	starved time.Time
	told    bool
}

func (ln *lane) waiting() int { return ln.queue.size + ln.near }

// lane finds the lane of a profile, or makes it.
func (l *loop) lane(profile int) *lane {
	for _, ln := range l.lanes {
		if ln.profile == profile {
			return ln
		}
	}
	ln := &lane{profile: profile, taskCores: l.d.cfg.CoresPerTask, asked: -1}
	l.lanes = append(l.lanes, ln)
	return ln
}

// queued is how many tasks wait for any executor of their profile, waiting those
// that wait for an executor.
func (l *loop) queued() (n int) {
	for _, ln := range l.lanes {
		n += ln.queue.size
	}
	return n
}

func (l *loop) waiting() int { return l.queued() + l.near.size() }

// pushFront puts tasks at the heads of their queues, in their order.
func (l *loop) pushFront(ts []*task) {
	if len(ts) == 0 {
		return
	}
	if len(l.lanes) == 1 {
		l.lanes[0].queue.pushFront(ts)
		return
	}
	for _, ln := range l.lanes {
		var own []*task
		for _, t := range ts {
			if t.profile == ln.profile {
				own = append(own, t)
			}
		}
		ln.queue.pushFront(own)
	}
}

// starve tells the user, once, of tasks that wait while there is no executor of
// their profile at all. Of the default profile the program itself takes care.
func (l *loop) starve(now time.Time) {
	for _, ln := range l.lanes {
		n := ln.waiting()
		there := slices.ContainsFunc(l.order, func(m *member) bool { return m.lane == ln && !m.leaving() && !m.retired })
		switch {
		case ln.profile == model.ProfileDefault:
		case n == 0 || there:
			ln.starved, ln.told = time.Time{}, false
		case ln.starved.IsZero():
			ln.starved = now
		case !ln.told && now.Sub(ln.starved) >= noticeAfter:
			ln.told = true
			why := "the cluster has not given one yet; hearth why " + string(l.d.App()) + " has the reason"
			if ln.asked <= 0 && !l.d.cfg.dynamic {
				why = "none is asked for: Profile.SetExecutors does"
			}
			l.d.log.Warn("calls wait, there is no executor of their profile", "profile", ln.profile, "calls", n, "why", why)
			l.event(nil, Event{Kind: EventProfileWaits, Profile: ln.profile, Tasks: n, Reason: why})
		}
	}
}
