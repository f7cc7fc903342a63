package driver

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// rebalance asks for what waits in executors that have ended nothing for recallAfter,
// if there is room elsewhere and nothing else to fill it. What was sent ahead, when
// all tasks were short, must not wait for the end of a long one.
func (l *loop) rebalance(now time.Time) {
	if l.finishing {
		return
	}
	for _, m := range l.order {
		waiting := m.busy - max(0, m.slots-m.lingering)
		if waiting <= 0 || !m.queues || now.Sub(m.progress) < recallAfter || m.lane.queue.size > 0 || !l.idle(m.lane) {
			continue
		}
		m.stalled = true
		var ids []model.TaskID
		// The last ones first: what has begun was among the first.
		for t := m.held; t != nil && len(ids) < waiting; t = t.next {
			if t.state == taskRunning && !t.cancelled {
				ids = append(ids, t.spec.ID)
			}
		}
		m.conn.out.put(func(o *outbox) { o.recall = ids })
	}
}

// idle reports whether an executor of a profile has a free slot.
func (l *loop) idle(ln *lane) bool {
	return slices.ContainsFunc(l.order, func(m *member) bool { return m.lane == ln && m.free() > 0 && m.busy < m.slots-m.lingering })
}

// returned takes back a task that has not begun. Its attempt is still the same one.
func (l *loop) returned(m *member, t *task) {
	l.ack(m, t.spec.ID, true, 0)
	l.release(t)
	if t.cancelled {
		l.drop(t, model.TaskKilled, "cancelled before it ran")
		return
	}
	t.state = taskQueued
	l.back = append(l.back, t)
}

// requeue puts what was given back in this turn at the head of the queue, oldest
// first.
func (l *loop) requeue() {
	if len(l.back) == 0 {
		return
	}
	slices.SortFunc(l.back, func(a, b *task) int {
		if a.spec.ID < b.spec.ID {
			return -1
		}
		return 1
	})
	l.pushFront(l.back)
	l.back = nil
}
