package driver

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// member is one executor in the table. Owned by the loop.
type member struct {
	info    model.DriverExecutor
	conn    *conn // nil: not connected
	ready   bool  // has proven itself once
	suspect bool
	retired bool // it was idle and is to end: no new tasks
	pid     int
	heard   time.Time // last word; zero until ready
	slots   int
	busy    int // tasks in state taskRunning
	held    map[model.TaskID]*task
}

func newMember(info model.DriverExecutor, coresPerTask int) *member {
	m := &member{held: make(map[model.TaskID]*task)}
	m.update(info, coresPerTask)
	return m
}

func (m *member) update(info model.DriverExecutor, coresPerTask int) {
	m.info = info
	m.slots = min(info.Cores/coresPerTask, MaxSlots)
}

// leaving reports whether the leader is ending the executor.
func (m *member) leaving() bool {
	return m.info.State == model.ExecutorKilling || m.info.State == model.ExecutorStuck
}

// free is how many more tasks the executor may get now.
func (m *member) free() int {
	if m.conn == nil || m.suspect || m.retired || m.leaving() {
		return 0
	}
	return max(0, min(m.slots-m.busy, m.slots+MaxFetching-len(m.held)))
}

func (m *member) state() ExecutorState {
	switch {
	case m.leaving():
		return ExecutorLeaving
	case !m.ready:
		return ExecutorAnnounced
	case m.suspect:
		return ExecutorSuspect
	case m.conn == nil:
		return ExecutorAway
	}
	return ExecutorReady
}

// take gives the executor a task; put ends that.
func (m *member) take(t *task) {
	t.state, t.at = taskRunning, m
	m.held[t.spec.ID] = t
	m.busy++
}

func (m *member) put(t *task) {
	if t.state == taskRunning {
		m.busy--
	}
	t.at = nil
	delete(m.held, t.spec.ID)
}

// toFetching frees the slot of a task whose output is being fetched;
// toRunning is its reverse, when the result is to come again.
func (m *member) toFetching(t *task) {
	if t.state == taskRunning {
		t.state = taskFetching
		m.busy--
	}
}

func (m *member) toRunning(t *task) {
	if t.state == taskFetching {
		t.state = taskRunning
		m.busy++
	}
}

// tasks lists what the executor holds, oldest first.
func (m *member) tasks() []*task {
	out := make([]*task, 0, len(m.held))
	for _, t := range m.held {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *task) int {
		if a.spec.ID < b.spec.ID {
			return -1
		}
		return 1
	})
	return out
}

// goneSet remembers which executors have ended. Ids are allotted in order, so
// the lowest are the ones to forget.
type goneSet struct {
	ids   map[model.ExecutorID]struct{}
	order []model.ExecutorID
}

func (g *goneSet) add(id model.ExecutorID) {
	if g.ids == nil {
		g.ids = make(map[model.ExecutorID]struct{})
	}
	if _, ok := g.ids[id]; ok {
		return
	}
	g.ids[id] = struct{}{}
	g.order = append(g.order, id)
	if len(g.order) > maxGone {
		delete(g.ids, g.order[0])
		g.order = g.order[1:]
	}
}

func (g *goneSet) has(id model.ExecutorID) bool {
	_, ok := g.ids[id]
	return ok
}
