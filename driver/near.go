package driver

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// Locality says where a task had better run: on one of these executors, on an
// executor of one of these workers, or on one of these hosts, all alike. The task
// waits for a free slot there as long as Wait says, from its submission on, and
// then runs anywhere; if no such executor is there at all it does not wait.
// (Spark's spark.locality.wait, with one level instead of three.)
type Locality struct {
	Executors []model.ExecutorID
	Workers   []model.WorkerID
	Hosts     []string
	// Wait bounds the wait; 0 = DefaultLocalityWait.
	Wait time.Duration
}

func (l *Locality) empty() bool {
	return len(l.Executors) == 0 && len(l.Workers) == 0 && len(l.Hosts) == 0
}

// check bounds the index; errors wrap model.ErrTooLarge.
func (l *Locality) check() error {
	if n := len(l.Executors) + len(l.Workers) + len(l.Hosts); n > MaxPlaces {
		return fmt.Errorf("submit task: %w: it had better run at one of %d places, the limit is %d", model.ErrTooLarge, n, MaxPlaces)
	}
	return nil
}

// fits reports whether an executor is one of those that are preferred.
func (l *Locality) fits(m *member) bool {
	return slices.Contains(l.Executors, m.info.ID) || slices.Contains(l.Workers, m.info.Worker) ||
		slices.Contains(l.Hosts, m.info.Host)
}

// place is one key of the index: a profile, and exactly one of the other fields.
type place struct {
	profile  int
	executor model.ExecutorID // from 1 up: the id plus one
	worker   model.WorkerID
	host     string
}

// nearTask is a task that waits for its place.
type nearTask struct {
	*task
	where Locality
	lane  *lane // set while it waits
	until time.Time
	pos   int // in nearQueue.byTime; -1 = it does not wait there
}

// newNear is the part of a task's record that says where it had better run; nil =
// it does not matter.
func newNear(t *task, l *Locality) *nearTask {
	if l == nil || l.empty() {
		return nil
	}
	return &nearTask{task: t, where: *l, pos: -1}
}

// nearQueue holds the tasks that wait for a place of their own, beside the queue
// of those that run anywhere. A task is in the list of each of its places and in
// one heap by the end of its wait; lists are cleaned when they are read. Owned by
// the loop.
type nearQueue struct {
	byPlace map[place][]*nearTask
	byTime  nearHeap
	timer   *time.Timer // of the first end; nil = never needed yet
}

// push takes a task that is worth a wait.
func (q *nearQueue) push(n *nearTask, now time.Time) {
	l := &n.where
	wait := l.Wait
	if wait <= 0 {
		wait = DefaultLocalityWait
	}
	n.until, n.state = now.Add(wait), taskQueued
	if q.byPlace == nil {
		q.byPlace = make(map[place][]*nearTask)
	}
	add := func(p place) {
		p.profile = n.profile
		q.byPlace[p] = append(q.byPlace[p], n)
	}
	for _, id := range l.Executors {
		add(place{executor: id + 1})
	}
	for _, id := range l.Workers {
		add(place{worker: id})
	}
	for _, host := range l.Hosts {
		add(place{host: host})
	}
	heap.Push(&q.byTime, n)
}

// size is how many tasks wait.
func (q *nearQueue) size() int { return len(q.byTime) }

// pop takes the task that has waited longest for this executor; nil = none.
func (q *nearQueue) pop(m *member) *task {
	n := q.oldest(m)
	if n == nil {
		return nil
	}
	heap.Remove(&q.byTime, n.pos)
	q.shrink()
	return n.task
}

// waits reports whether a task waits for this executor.
func (q *nearQueue) waits(m *member) bool { return q.oldest(m) != nil }

func (q *nearQueue) oldest(m *member) (best *nearTask) {
	for _, p := range []place{{executor: m.info.ID + 1}, {worker: m.info.Worker}, {host: m.info.Host}} {
		p.profile = m.lane.profile
		if n := q.first(p); n != nil && (best == nil || n.spec.ID < best.spec.ID) {
			best = n
		}
	}
	return best
}

// first is the oldest task that waits for a place.
func (q *nearQueue) first(p place) *nearTask {
	list := q.byPlace[p]
	for len(list) > 0 && list[0].pos < 0 {
		list = list[1:]
	}
	if len(list) == 0 {
		delete(q.byPlace, p)
		return nil
	}
	q.byPlace[p] = list
	return list[0]
}

// drop forgets a task that was cancelled; false if it does not wait here.
func (q *nearQueue) drop(t *task) bool {
	if t.near == nil || t.near.pos < 0 {
		return false
	}
	heap.Remove(&q.byTime, t.near.pos)
	t.state = taskOver
	q.shrink()
	return true
}

// expired takes the tasks whose wait is over, oldest first.
func (q *nearQueue) expired(now time.Time) []*task {
	var out []*task
	for len(q.byTime) > 0 && !q.byTime[0].until.After(now) {
		n, _ := heap.Pop(&q.byTime).(*nearTask)
		out = append(out, n.task)
	}
	slices.SortFunc(out, func(a, b *task) int {
		if a.spec.ID < b.spec.ID {
			return -1
		}
		return 1
	})
	q.shrink()
	return out
}

// shrink gives the index back once nothing waits.
func (q *nearQueue) shrink() {
	if len(q.byTime) == 0 {
		q.byPlace = nil
	}
}

// wake is a channel that has a value when the next wait is over; nil = nothing
// waits.
func (q *nearQueue) wake() <-chan time.Time {
	if len(q.byTime) == 0 {
		return nil
	}
	d := max(0, time.Until(q.byTime[0].until))
	if q.timer == nil {
		q.timer = time.NewTimer(d)
	} else {
		q.timer.Reset(d)
	}
	return q.timer.C
}

func (q *nearQueue) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// enqueue lets a new task wait for its place or, without one that exists, for any.
func (l *loop) enqueue(t *task) {
	ln := l.lanes[0]
	if t.profile != ln.profile {
		ln = l.lane(t.profile)
	}
	ln.used = true
	if t.near != nil {
		for _, m := range l.members {
			if m.lane == ln && !m.leaving() && !m.retired && t.near.where.fits(m) {
				t.near.lane = ln
				l.near.push(t.near, time.Now())
				return
			}
		}
	}
	ln.queue.push(t)
}

// dequeue takes a task for an executor with a free slot: one that waits for it,
// or else any.
func (l *loop) dequeue(m *member) *task {
	if l.near.size() > 0 && m.busy < m.slots-m.lingering {
		if t := l.near.pop(m); t != nil {
			return t
		}
	}
	return m.lane.queue.pop()
}

// unqueue forgets a task that waits.
func (l *loop) unqueue(t *task) {
	if !l.near.drop(t) {
		l.lane(t.profile).queue.drop(t)
	}
}

// nearest is the executor for the next task: while some wait for a place of
// their own, one that has a free slot and such a task, else the idlest. A place in
// the executor's own queue is no free slot: there the wait would have no end.
func (l *loop) nearest() *member {
	if l.near.size() > 0 {
		for _, m := range l.order {
			if m.busy < m.slots-m.lingering && m.free() > 0 && l.near.waits(m) {
				return m
			}
		}
	}
	return l.idlest()
}

// nearHeap orders by the end of the wait.
type nearHeap []*nearTask

func (h nearHeap) Len() int           { return len(h) }
func (h nearHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h nearHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push is heap.Interface's.
func (h *nearHeap) Push(x any) {
	n, _ := x.(*nearTask)
	n.pos = len(*h)
	n.lane.near++
	*h = append(*h, n)
}

// Pop is heap.Interface's.
func (h *nearHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	n.pos = -1
	n.lane.near--
	return n
}
