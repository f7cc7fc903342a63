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
	// order is a heap of the lines that a pass has not given up, by the first
	// that waits there.
	order []*line

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

// want is a profile of which an application has fewer executors than it wants.
type want struct {
	profile      int
	live, wanted int
	line         *line
}

// sizeKey is the size of an executor.
type sizeKey struct {
	cores     int
	memoryMiB int64
	resources string
}

// line is what waits for executors of one size, first come, first served.
type line struct {
	waiting []waiter
	pos     int // the first that the pass has not looked at
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

func newQueue() *queue {
	return &queue{claims: make(map[model.AppID]*claim), sizes: make(map[sizeKey]*line)}
}

func sizeOf(p *model.Profile) sizeKey {
	k := sizeKey{cores: p.Cores, memoryMiB: p.MemoryMiB}
	if len(p.Resources) == 0 {
		return k
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Resources)) {
		fmt.Fprintf(&b, "%q=%d,", name, p.Resources[name])
	}
	k.resources = b.String()
	return k
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
			out = append(out, want{profile: id, live: live, wanted: wanted, line: q.line(&p)})
		}
	}
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.profile, b.profile) })
	}
	q.now = out
	return out
}

func (q *queue) line(p *model.Profile) *line {
	key := sizeOf(p)
	l := q.sizes[key]
	if l == nil {
		l = new(line)
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

// begin starts a pass at the front of each line, and forgets empty ones.
func (q *queue) begin() {
	q.order = q.order[:0]
	for key, l := range q.sizes {
		if len(l.waiting) == 0 {
			delete(q.sizes, key)
			continue
		}
		l.pos = 0
		q.order = append(q.order, l)
	}
	for i := len(q.order)/2 - 1; i >= 0; i-- {
		q.sink(i)
	}
}

// head returns who is next over all lines and the line, or nil when nobody is
// left.
func (q *queue) head() (waiter, *line) {
	if len(q.order) == 0 {
		return waiter{}, nil
	}
	l := q.order[0]
	return l.waiting[l.pos], l
}

// skip goes on behind the head.
func (q *queue) skip() {
	l := q.order[0]
	if l.pos++; l.pos == len(l.waiting) {
		q.drop()
		return
	}
	q.sink(0)
}

// drop gives up the line of the head for this pass.
func (q *queue) drop() {
	last := len(q.order) - 1
	q.order[0] = q.order[last]
	q.order[last] = nil
	q.order = q.order[:last]
	q.sink(0)
}

func (q *queue) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.order); child++ {
			if q.order[child].front().compare(q.order[least].front()) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		q.order[i], q.order[least] = q.order[least], q.order[i]
		i = least
	}
}

func (l *line) front() waiter { return l.waiting[l.pos] }
