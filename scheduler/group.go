package scheduler

import (
	"math"

	"github.com/hearthd/hearth/model"
)

// group is a queue of the settings during a pass. Groups are served one
// executor at a time, whoever comes first by model.Queue.Compare; within one
// it is first come, first served over all its lines.
type group struct {
	conf model.Queue
	used int // cores that count against the cap
	// order is a heap of the lines that the pass has not given up, by the first
	// that waits there.
	order []*line
	// plan is where the executors go that were promised to the first in line and
	// are handed out one by one, because another group takes turns with this one.
	plan plan
}

// plan is the rest of an assignment: shares are workers with steps, taken from
// the front.
type plan struct {
	shares []Share
	demand Demand
}

// begin starts a pass at the front of each line, and forgets empty ones. What
// is the view's of each queue is asked of it.
func (q *queue) begin(v View, settings model.Settings) {
	for _, g := range q.groups {
		g.order, g.plan.shares = g.order[:0], g.plan.shares[:0]
	}
	for key, l := range q.sizes {
		if len(l.waiting) == 0 {
			delete(q.sizes, key)
			continue
		}
		l.pos = 0
		l.group.order = append(l.group.order, l)
	}
	for name, g := range q.groups {
		if len(g.order) == 0 {
			delete(q.groups, name)
			continue
		}
		g.conf = settings.Queue(name)
		if g.used = 0; len(settings.Queues) > 0 {
			g.used = v.QueueCores(name)
		}
		for i := len(g.order)/2 - 1; i >= 0; i-- {
			g.sink(i)
		}
	}
}

// next returns the group whose turn it is, or nil when nobody is left, and
// whether another one takes turns with it.
func (q *queue) next() (first *group, shared bool) {
	for _, g := range q.groups {
		if len(g.order) > 0 && (first == nil || g.conf.Compare(g.used, first.conf, first.used) < 0) {
			first = g
		}
	}
	if first == nil {
		return nil, false
	}
	for _, g := range q.groups {
		if g != first && len(g.order) > 0 && g.conf.Priority == first.conf.Priority {
			return first, true
		}
	}
	return first, false
}

// left is how many more cores the group may hold.
func (g *group) left() int {
	if g.conf.CapCores == 0 {
		return math.MaxInt
	}
	return g.conf.CapCores - g.used
}

// head is who is next in the group.
func (g *group) head() waiter { return g.order[0].front() }

// skip goes on behind the head.
func (g *group) skip() {
	l := g.order[0]
	if l.pos++; l.pos == len(l.waiting) {
		g.drop()
		return
	}
	g.plan.shares = g.plan.shares[:0]
	g.sink(0)
}

// drop gives up the line of the head for this pass.
func (g *group) drop() {
	g.plan.shares = g.plan.shares[:0]
	last := len(g.order) - 1
	g.order[0] = g.order[last]
	g.order[last] = nil
	g.order = g.order[:last]
	g.sink(0)
}

func (g *group) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(g.order); child++ {
			if g.order[child].front().compare(g.order[least].front()) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		g.order[i], g.order[least] = g.order[least], g.order[i]
		i = least
	}
}
