package scheduler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// queue holds what applications want and do not have, by the size of the
// executor. Of one size either all that wait find no worker or none do, so a
// pass looks at the first in line of each size and, if there is no room, at
// none of the others.
type queue struct {
	claims map[model.AppID]*claim
	sizes  map[sizeKey]*line
	// groups are the queues of the settings that anybody has waited in, by name.
	groups map[string]*group
	// several: queues are configured; otherwise all applications are in one.
	several bool

	mark uint64 // counts the times that everything is read
	now  []want // scratch of set
}

// claim is an application that wants something.
type claim struct {
	app    *model.App
	wants  []want // by ascending profile
	left   int    // cores that it may still get; math.MaxInt = no limit
	asleep bool   // blocked: it waits in no line
	// asked is the pass that last asked whether the application may be looked
	// at, and held the answer.
	asked uint64
	held  bool
	mark  uint64 // the queue's, when the application was last set
}

// want finds what the claim wants of a profile; nil for nothing.
func (c *claim) want(profile int) *want {
	for i := range c.wants {
		if c.wants[i].profile == profile {
			return &c.wants[i]
		}
	}
	return nil
}

// took writes down that the claim got an executor in this pass.
func (c *claim) took(profile, cores int) {
	if c.left != math.MaxInt {
		c.left -= cores
	}
	c.want(profile).live++
}

// want is a profile of which an application has fewer executors than it wants.
type want struct {
	profile      int
	live, wanted int
	line         *line
}

// sizeKey is the size of an executor, with what else decides which workers have
// room for it, in one queue of the settings.
type sizeKey struct {
	cores     int
	memoryMiB int64
	resources string
	require   string // labels
	queue     string
	gang      uint64 // number of the application if it waits for several at once
}

// line is what waits for executors of one size, first come, first served.
type line struct {
	waiting []waiter
	pos     int // the first that the pass has not looked at
	group   *group
}

// waiter is one want in a line. Applications go by number, and the profiles of
// one by id, over all lines.
type waiter struct {
	number  uint64
	profile int
	claim   *claim
}

func (w waiter) compare(o waiter) int {
	return cmp.Or(cmp.Compare(w.number, o.number), cmp.Compare(w.profile, o.profile))
}

func newQueue(s model.Settings) *queue {
	return &queue{
		several: len(s.Queues) > 0,
		claims:  make(map[model.AppID]*claim), sizes: make(map[sizeKey]*line), groups: make(map[string]*group),
	}
}

func (q *queue) sizeOf(a *model.App, profile int, p *model.Profile) sizeKey {
	k := sizeKey{cores: p.Cores, memoryMiB: p.MemoryMiB, resources: joined(p.Resources), require: joined(a.Spec.Require)}
	if q.several {
		k.queue = a.Spec.QueueName()
	}
	if profile == model.ProfileDefault && a.Spec.MinExecutors > 1 {
		k.gang = a.Number
	}
	return k
}

// joined spells a map out, in order.
func joined[V any](m map[string]V) string {
	if len(m) == 0 {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%q=%q,", name, fmt.Sprint(m[name]))
	}
	return b.String()
}

// coresLeft is how many more cores the application may hold.
func coresLeft(a *model.App, s model.Settings) int {
	most := model.CoresLimit(a, s)
	if most == 0 {
		return math.MaxInt
	}
	return most - model.CoresCounted(a)
}

// wanting lists the profiles, by ascending id, that want an executor which the
// application's cores allow. They are valid until the next call.
func (q *queue) wanting(a *model.App, left int) []want {
	out := q.now[:0]
	for id, p := range a.Profiles {
		if left < max(p.Cores, 1) {
			continue
		}
		if live, wanted := a.Live[id], model.Wanted(a, id); live < wanted {
			out = append(out, want{profile: id, live: live, wanted: wanted, line: q.line(a, id, &p)})
		}
	}
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.profile, b.profile) })
	}
	q.now = out
	return out
}

func (q *queue) line(a *model.App, profile int, p *model.Profile) *line {
	key := q.sizeOf(a, profile, p)
	l := q.sizes[key]
	if l == nil {
		g := q.groups[key.queue]
		if g == nil {
			g = &group{}
			q.groups[key.queue] = g
		}
		l = &line{group: g}
		q.sizes[key] = l
	}
	return l
}

// set says what an application wants now. One that is blocked, which is only
// asked of those that want something, waits in no line.
func (q *queue) set(a *model.App, left int, blocked func() bool) {
	wants := q.wanting(a, left)
	asleep := len(wants) > 0 && blocked()
	c := q.claims[a.ID]
	if c != nil && c.asleep == asleep && slices.EqualFunc(c.wants, wants, func(x, y want) bool {
		return x.profile == y.profile && x.line == y.line
	}) {
		copy(c.wants, wants) // it keeps its places
		c.app, c.left, c.mark = a, left, q.mark
		return
	}
	q.remove(a.ID)
	if len(wants) == 0 {
		return
	}
	c = &claim{app: a, wants: slices.Clone(wants), left: left, asleep: asleep, mark: q.mark}
	q.claims[a.ID] = c
	if !asleep {
		q.enter(c)
	}
}

func (q *queue) enter(c *claim) {
	for _, w := range c.wants {
		e := waiter{c.app.Number, w.profile, c}
		l := w.line
		if n := len(l.waiting); n == 0 || l.waiting[n-1].compare(e) < 0 {
			l.waiting = append(l.waiting, e) // the newest application comes last
			continue
		}
		i, _ := slices.BinarySearchFunc(l.waiting, e, waiter.compare)
		l.waiting = slices.Insert(l.waiting, i, e)
	}
}

// remove forgets an application; unknown ones are fine.
func (q *queue) remove(id model.AppID) {
	c := q.claims[id]
	if c == nil {
		return
	}
	delete(q.claims, id)
	if !c.asleep {
		q.leave(c)
	}
}

// forget removes those that were not set since the mark was raised.
func (q *queue) forget() {
	for id, c := range q.claims {
		if c.mark != q.mark {
			q.remove(id)
		}
	}
}

func (q *queue) leave(c *claim) {
	for _, w := range c.wants {
		l := w.line
		i, found := slices.BinarySearchFunc(l.waiting, waiter{c.app.Number, w.profile, c}, waiter.compare)
		switch {
		case !found:
			panic(fmt.Sprintf("scheduler: application %s does not wait where it should", c.app.ID))
		case i == 0: // the first in line is who leaves most often
			l.waiting[0] = waiter{}
			l.waiting = l.waiting[1:]
		default:
			l.waiting = slices.Delete(l.waiting, i, i+1)
		}
	}
}

func (l *line) front() waiter { return l.waiting[l.pos] }
