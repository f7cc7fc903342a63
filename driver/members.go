package driver

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hearthd/hearth/model"
)

// readNews takes what the leader says; the result is not nil once the
// application is over.
func (l *loop) readNews() *model.DriverEnded {
	executors, ended := l.d.news.drain()
	for _, e := range executors {
		l.announced(e)
	}
	return ended
}

// announced takes the leader's word on one executor.
func (l *loop) announced(e model.DriverExecutor) {
	m := l.members[e.ID]
	if e.Ended() {
		l.kills.drop(e.ID)
	}
	switch {
	case l.gone.has(e.ID):
		return
	case e.Ended():
		if m == nil {
			l.gone.add(e.ID)
			break
		}
		m.info.State = e.State
		l.lose(m, endOf(e))
	case m == nil:
		m = newMember(e, l.lane(e.Profile), &l.rules)
		l.members[e.ID] = m
		l.event(m, Event{Kind: EventExecutorAdded})
		if m.slots == 0 {
			l.d.log.Warn("an executor is too small for any task", "executor", int(e.ID), "cores", e.Cores, "cores_per_task", m.lane.taskCores)
		}
	default:
		m.update(e)
	}
	delete(l.unknown, e.ID)
	l.unpark(e.ID)
}

// endOf says in words how an executor ended.
func endOf(e model.DriverExecutor) string {
	how := ""
	switch {
	case e.Signal != 0:
		how = fmt.Sprintf("signal %d", e.Signal)
	case e.ExitCode > 0:
		how = fmt.Sprintf("exit code %d", e.ExitCode)
	}
	text := string(e.State)
	if how != "" && !strings.Contains(e.Reason, how) { // most reasons say it
		text += ", " + how
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// event reports something about an executor.
func (l *loop) event(m *member, e Event) {
	e.At, e.App = time.Now(), l.d.App()
	if m != nil {
		e.Executor, e.Worker, e.Host = m.info.ID, m.info.Worker, m.info.Host
	}
	l.d.cfg.Observer(e)
}

// hello decides on an executor that has connected.
func (l *loop) hello(h helloMsg) {
	id := h.hello.Executor
	if h.hello.App != l.d.App() {
		h.reply <- fmt.Errorf("%w: executor %d of application %s came to the driver of %s", model.ErrRefused, id, h.hello.App, l.d.App())
		return
	}
	if l.gone.has(id) {
		h.reply <- fmt.Errorf("executor %d: %w", id, errEnded)
		return
	}
	m := l.members[id]
	if m == nil {
		l.park(h)
		return
	}
	if err := prove(m, h.hello.Secret); err != nil {
		l.d.log.Warn("refused an executor", "executor", int(id), "host", h.hello.Host, "err", err)
		h.reply <- err
		return
	}
	l.accept(m, h)
}

func prove(m *member, secret model.Secret) error {
	switch {
	case m.info.Secret == "":
		return fmt.Errorf("executor %d: %w: %w", m.info.ID, model.ErrUnauthenticated, errNoSecret)
	case !m.info.Secret.Is(secret):
		return fmt.Errorf("executor %d: %w: wrong secret", m.info.ID, model.ErrUnauthenticated)
	}
	return nil
}

// park keeps an unknown executor waiting for its announcement.
func (l *loop) park(h helloMsg) {
	id := h.hello.Executor
	now := time.Now()
	since, seen := l.unknown[id]
	if !seen {
		since = now
	}
	if len(l.parked) >= maxParked || !seen && len(l.unknown) >= maxParked {
		h.reply <- fmt.Errorf("executor %d: %w: too many executors wait to be announced", id, model.ErrUnavailable)
		return
	}
	l.unknown[id] = since
	p := parked{helloMsg: h, since: since}
	if l.awaited(since, now) >= l.d.cfg.AnnounceWait {
		l.turnAway(p)
		return
	}
	l.parked = append(l.parked, p)
}

// awaited is how long the leader has had to announce an executor that came at
// since. While there is no session with a leader nobody could: an executor that
// was launched just before all masters went down is none the worse for it
// (ADR 0022).
func (l *loop) awaited(since, now time.Time) time.Duration {
	linked := l.d.news.linkedSince()
	switch {
	case linked.IsZero():
		return 0
	case linked.After(since):
		since = linked
	}
	return now.Sub(since)
}

func (l *loop) turnAway(p parked) {
	p.reply <- fmt.Errorf("executor %d: %w: the leader has not announced it", p.hello.Executor, model.ErrNotFound)
}

// unpark decides on the executors with this id that wait.
func (l *loop) unpark(id model.ExecutorID) {
	var due []parked
	l.parked = slices.DeleteFunc(l.parked, func(p parked) bool {
		if p.hello.Executor == id {
			due = append(due, p)
			return true
		}
		return false
	})
	for _, p := range due {
		l.hello(p.helloMsg)
	}
}

// accept makes the stream that of the executor. What it still holds and the
// driver still wants is adopted; what it has never received is sent again.
func (l *loop) accept(m *member, h helloMsg) {
	if m.conn != nil {
		m.conn.cancel(errReplaced)
		l.disconnect(m.conn)
	}
	holds := make(map[model.TaskID]bool, len(h.hello.Running))
	for _, id := range h.hello.Running {
		holds[id] = true
	}
	welcome := &model.ExecutorWelcome{BeatMilli: beatInterval.Milliseconds(), Slots: m.slots, Batch: l.d.cfg.MaxBatch}
	var again []model.ExecTask
	var cancels []model.TaskID
	for _, t := range m.tasks() {
		if t.state == taskFetching { // its result comes again
			m.toRunning(t)
			l.running++
		}
		if t.cancelled {
			cancels = append(cancels, t.spec.ID)
		}
		if holds[t.spec.ID] {
			welcome.Adopted = append(welcome.Adopted, t.spec.ID)
		} else {
			again = append(again, t.spec)
		}
	}
	m.conn, m.pid = h.c, h.hello.PID
	m.deep, m.lingering = h.hello.Holds > 2*maxAhead, 0 // it tells of those that linger
	m.queues, m.progress = h.hello.Queues, time.Now()
	l.byConn[h.c] = m
	i, _ := slices.BinarySearchFunc(l.order, m.info.ID, func(o *member, id model.ExecutorID) int { return int(o.info.ID - id) })
	l.order = slices.Insert(l.order, i, m)
	h.c.out.put(func(o *outbox) {
		o.together = h.hello.Holds > 0
		o.welcome, o.tasks, o.cancels = welcome, again, cancels
	})
	h.reply <- nil
	kind := EventExecutorReady
	if m.ready {
		kind = EventExecutorBack
	}
	m.ready, m.suspect, m.heard = true, false, time.Now()
	if !m.info.State.Confirmed() {
		l.session.Confirm(m.info.ID)
	}
	l.d.log.Info("executor connected", "executor", int(m.info.ID), "host", m.info.Host, "slots", m.slots, "adopted", len(welcome.Adopted))
	l.event(m, Event{Kind: kind})
}

// disconnect notes that a stream has ended; the executor may come back.
func (l *loop) disconnect(c *conn) {
	m := l.byConn[c]
	if m == nil {
		return
	}
	delete(l.byConn, c)
	m.conn = nil
	m.forget()
	l.order = slices.DeleteFunc(l.order, func(o *member) bool { return o == m })
}

// alive notes a word of an executor.
func (l *loop) alive(m *member) {
	m.heard = time.Now()
	if m.suspect {
		m.suspect = false
		l.event(m, Event{Kind: EventExecutorBack, Reason: "it speaks again"})
	}
}

// age acts on silence.
func (l *loop) age(now time.Time) {
	var lost []*member
	for _, m := range l.members {
		silent := now.Sub(m.heard)
		switch {
		case !m.ready: // the leader has deadlines for those
		case silent >= l.d.cfg.ExecutorTimeout:
			lost = append(lost, m)
		case silent >= l.d.cfg.SuspectAfter && !m.suspect:
			m.suspect = true
			l.event(m, Event{Kind: EventExecutorSuspect, Reason: fmt.Sprintf("silent for %s", silent.Round(time.Millisecond))})
		}
	}
	for _, m := range lost {
		l.kills.add(m.info.ID, silentTooLong)
		l.lose(m, fmt.Sprintf("silent for %s", now.Sub(m.heard).Round(time.Millisecond)))
	}
	for id, since := range l.unknown {
		if l.awaited(since, now) >= 2*l.d.cfg.AnnounceWait {
			delete(l.unknown, id)
		}
	}
	l.parked = slices.DeleteFunc(l.parked, func(p parked) bool {
		if l.awaited(p.since, now) < l.d.cfg.AnnounceWait {
			// It must not take the driver for gone meanwhile.
			p.c.out.put(func(o *outbox) { o.beat = &model.Beat{} })
			return false
		}
		l.turnAway(p)
		return true
	})
}

// lose removes an executor and puts its tasks back, in one step: from here on
// nothing is assigned to it, and nothing it says counts.
func (l *loop) lose(m *member, reason string) {
	if m.conn != nil {
		c := m.conn
		l.disconnect(c)
		c.cancel(errEnded)
	}
	delete(l.members, m.info.ID)
	l.gone.add(m.info.ID)
	held := m.tasks()
	l.d.log.Info("executor ended", "executor", int(m.info.ID), "host", m.info.Host, "tasks", len(held), "reason", reason)
	l.event(m, Event{Kind: EventExecutorEnded, Tasks: len(held), Ready: m.ready, Reason: reason})
	var again []*task
	for _, t := range held {
		l.release(t)
		switch {
		case t.cancelled:
			l.drop(t, model.TaskKilled, "cancelled; its executor has ended: "+reason)
		case t.reruns >= MaxReruns:
			why := fmt.Sprintf("lost with its executor %d times; the last one: %s", t.reruns+1, reason)
			l.drop(t, model.TaskNotRun, why)
		default:
			t.reruns++
			t.spec.Attempt++
			again = append(again, t)
			l.event(m, Event{Kind: EventTaskRerun, Task: t.spec.ID, Attempt: t.spec.Attempt, Reason: reason})
		}
	}
	l.pushFront(again)
}
