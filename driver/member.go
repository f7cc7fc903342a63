package driver

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// member is one executor in the table. Owned by the loop.
type member struct {
	info    model.DriverExecutor
	lane    *lane
	conn    *conn // nil: not connected
	ready   bool  // has proven itself once
	suspect bool
	retired bool // it was idle and is to end: no new tasks
	spared  bool // its worker is drained, and there is no other executor yet
	pid     int
	heard   time.Time // last word; zero until ready
	slots   int
	busy    int // tasks in state taskRunning
	// held tasks, linked through the tasks, and their number.
	held  *task
	count int
	// bytes are the arguments of the held calls.
	bytes int
	// deep: the executor keeps calls that wait for a slot; pace is about how many
	// microseconds its calls take, negative = not known.
	deep bool
	pace float64
	// queues: it keeps processes that wait, and gives back what has not begun.
	queues bool
	// progress is when it last got something to do or ended something. stalled: what
	// waited there was asked for since.
	progress time.Time
	stalled  bool
	// lingering slots are taken by functions whose tasks are over.
	lingering int
	load      *loadRules
	// batch and acks are to be sent at the end of the loop's turn.
	touched bool
	batch   []*task // calls
	others  []*task // processes
	acks    []model.TaskID
	ackNow  bool
	ackSize int
}

func newMember(info model.DriverExecutor, ln *lane, load *loadRules) *member {
	m := &member{lane: ln, load: load, pace: -1}
	m.update(info)
	return m
}

func (m *member) update(info model.DriverExecutor) {
	m.info = info
	m.slots = min(info.Cores/m.lane.taskCores, MaxSlots)
}

// leaving reports whether the leader is ending the executor, or its worker is
// drained and there are others.
func (m *member) leaving() bool {
	return m.decommissioning() && !m.spared || m.info.State == model.ExecutorKilling || m.info.State == model.ExecutorStuck
}

// free is how many more tasks the executor may get now.
func (m *member) free() int {
	if m.conn == nil || m.suspect || m.retired || m.leaving() {
		return 0
	}
	slots := m.slots - m.lingering
	return max(0, min(m.window()-m.busy, slots+MaxFetching+m.ahead()-m.count))
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
	t.prev, t.next = nil, m.held
	if m.held != nil {
		m.held.prev = t
	}
	m.held = t
	m.count++
	m.busy++
	m.bytes += len(t.spec.Argument)
}

func (m *member) put(t *task) {
	if t.state == taskRunning {
		m.busy--
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		m.held = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.at, t.prev, t.next = nil, nil, nil
	m.count--
	m.bytes -= len(t.spec.Argument)
}

// tell sends what has come together for the executor in a turn.
func (m *member) tell() {
	if m.conn == nil {
		m.forget()
		return
	}
	if len(m.batch) == 0 && len(m.others) == 0 && !m.ackNow && len(m.acks) < fullBatch && m.ackSize < maxAckBytes {
		return // acknowledgements that can wait for tasks
	}
	m.conn.out.put(func(o *outbox) {
		o.add(m.acks, m.batch)
		for _, t := range m.others {
			o.tasks = append(o.tasks, t.spec)
		}
	})
	m.forget()
}

// give notes that a task is to be sent at the end of the loop's turn.
func (m *member) give(t *task) {
	m.take(t)
	if t.isCall() {
		m.batch = append(m.batch, t)
	} else {
		m.others = append(m.others, t)
	}
}

// forget drops what was to be told: it was, or the stream is gone.
func (m *member) forget() {
	clear(m.batch)
	clear(m.others)
	m.batch, m.others, m.acks = m.batch[:0], m.others[:0], m.acks[:0]
	m.ackNow, m.ackSize = false, 0
}

// holds returns a task that the executor holds, nil if it does not.
func (l *loop) holds(m *member, id model.TaskID) *task {
	if t := l.tasks.Get(id); t != nil && t.at == m {
		return t
	}
	return nil
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
	out := make([]*task, 0, m.count)
	for t := m.held; t != nil; t = t.next {
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
