package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/pages"
	"github.com/hearthd/hearth/model"
)

// confirmer is what the loop needs of the session with the leader.
type confirmer interface {
	Confirm(ids ...model.ExecutorID)
}

var _ confirmer = (*client.DriverSession)(nil)

// loop is the state of a running driver. It belongs to the goroutine of run.
type loop struct {
	d       *Driver
	session confirmer
	kills   *killList

	members map[model.ExecutorID]*member
	order   []*member // connected ones, by id: tasks are handed out along it
	byConn  map[*conn]*member
	gone    goneSet
	parked  []parked
	unknown map[model.ExecutorID]time.Time // first seen, not announced

	tasks   pages.Table[model.TaskID, task] // without a result
	rules   loadRules
	lanes   []*lane   // what waits, by profile; the default one first
	near    nearQueue // those that wait for an executor of their choice
	running int
	// ended are the results of this turn, touched the executors that have
	// something to be told at its end.
	ended   []Result
	touched []*member
	back    []*task // given back in this turn

	finishing bool // no task is handed out any more
	stop      bool // the run ends
}

// parked is an executor that came before the leader announced it.
type parked struct {
	helloMsg
	since time.Time
}

func newLoop(d *Driver, session confirmer) *loop {
	l := &loop{
		d: d, session: session,
		kills:   newKillList(),
		members: make(map[model.ExecutorID]*member),
		byConn:  make(map[*conn]*member),
		unknown: make(map[model.ExecutorID]time.Time),
		tasks:   pages.New[model.TaskID, task](taskPageBits, 1),
	}
	l.lane(model.ProfileDefault)
	return l
}

// run handles one thing after the other until the driver is to end.
func (l *loop) run(ctx context.Context, sessionEnded, serverEnded <-chan error) error {
	tick := time.NewTicker(min(time.Second, l.d.cfg.SuspectAfter/4, l.d.cfg.AnnounceWait/2))
	defer tick.Stop()
	defer l.near.stop()
	for {
		l.endTurn()
		select {
		case <-ctx.Done():
			l.stopExecutors()
			return fmt.Errorf("driver of %s: %w", l.d.App(), ctx.Err())
		case <-l.d.wake:
			for _, msg := range l.d.mail.drain() {
				l.handle(msg)
			}
			l.takeSubmitted()
		case <-l.d.news.wake:
			if ended := l.readNews(); ended != nil {
				return l.endedBy(*ended)
			}
			l.decommission()
		case <-tick.C:
			l.age(time.Now())
			l.rebalance(time.Now())
			l.starve(time.Now())
			l.decommission()
			for _, m := range l.order {
				m.ackNow = len(m.acks) > 0
				l.touch(m)
			}
		case <-l.near.wake():
			l.pushFront(l.near.expired(time.Now()))
		case err := <-sessionEnded:
			if ended := l.readNews(); ended != nil {
				return l.endedBy(*ended)
			}
			if l.finishing { // the leader has forgotten what we are ending
				sessionEnded = nil
				continue
			}
			return fmt.Errorf("driver of %s: the leader refuses it: %w", l.d.App(), err)
		case err := <-serverEnded:
			return fmt.Errorf("driver of %s: %w", l.d.App(), err)
		case fn := <-l.d.calls:
			l.takeSubmitted() // it must not miss what was submitted before it
			fn(l)
			if l.stop {
				l.stopExecutors()
				return nil
			}
		}
	}
}

// endedBy is the end that the leader tells. While Finish runs it is our own.
func (l *loop) endedBy(e model.DriverEnded) error {
	l.stopExecutors()
	if l.finishing {
		return nil
	}
	return &AppEndedError{App: l.d.App(), State: e.State, Reason: e.Reason}
}

// stopExecutors says Stop to every executor and gives them stopGrace to go.
func (l *loop) stopExecutors() {
	for _, m := range l.order {
		m.conn.out.put(func(o *outbox) { o.stop = true })
	}
	t := time.NewTimer(stopGrace)
	defer t.Stop()
	for len(l.byConn) > 0 {
		select {
		case <-t.C:
			return
		case <-l.d.wake:
		}
		for _, msg := range l.d.mail.drain() {
			if m, ok := msg.(brokenMsg); ok {
				l.disconnect(m.c)
				continue
			}
			refuse(msg)
		}
	}
}

// abandon frees what nobody will take.
func (l *loop) abandon() {
	for c := range l.byConn {
		c.cancel(errClosing)
	}
	for _, p := range l.parked {
		p.reply <- errClosing
	}
	for i := range l.ended {
		closeFiles([2]io.WriteCloser{l.ended[i].StdoutFile, l.ended[i].StderrFile})
	}
	l.ended = nil
}

// takeSubmitted queues new tasks.
func (l *loop) takeSubmitted() {
	for _, t := range l.d.intake.drain() {
		l.tasks.Put(t.spec.ID, t)
		if !t.isCall() {
			l.rules.processes++
		}
		l.enqueue(t)
	}
}

// endTurn passes on what a turn of the loop has brought: all results at once,
// and to each executor all tasks and acknowledgements.
func (l *loop) endTurn() {
	if len(l.ended) > 0 {
		l.ended = l.d.out.add(l.ended)
	}
	l.requeue()
	l.dispatch()
	l.d.intake.left(l.lanes)
	for _, m := range l.touched {
		m.touched = false
		m.tell()
	}
	l.touched = l.touched[:0]
}

// touch notes that an executor may have to be told something.
func (l *loop) touch(m *member) {
	if !m.touched {
		m.touched = true
		l.touched = append(l.touched, m)
	}
}

func (l *loop) handle(msg any) {
	switch m := msg.(type) {
	case helloMsg:
		l.hello(m)
	case brokenMsg:
		l.disconnect(m.c)
		l.parked = slices.DeleteFunc(l.parked, func(p parked) bool { return p.c == m.c })
	case upMsg:
		defer m.c.free(m.up.Results)
		e := l.byConn[m.c]
		if e == nil {
			return // replaced or lost: what it says comes again, or is void
		}
		l.alive(e)
		if m.up.Beat != nil {
			m.c.out.put(func(o *outbox) { o.beat = m.up.Beat })
		}
		if m.up.Lingering != nil {
			e.lingering = max(0, min(*m.up.Lingering, e.slots))
		}
		e.observe(m.up.Results)
		for i := range m.up.Results {
			l.result(e, &m.up.Results[i])
		}
	case fetchedMsg:
		l.fetched(m)
	}
}

// dispatch hands queued tasks out, each to the executor that has the fewest, so
// that few tasks are spread over all.
func (l *loop) dispatch() {
	if l.finishing || l.waiting() == 0 || l.d.out.full() {
		return
	}
	l.rules.look(l)
	for !l.rules.bounded || l.running < l.d.cfg.MaxRunning {
		m := l.nearest()
		if m == nil {
			return
		}
		if m.busy == 0 {
			m.progress = time.Now()
		}
		for n := l.portion(m); n > 0; n-- {
			t := l.dequeue(m)
			if t == nil {
				break
			}
			m.give(t)
			l.running++
		}
		l.touch(m)
	}
}

// maxPortion bounds how many tasks an executor gets before the next one is
// chosen, which costs a look at all.
const maxPortion = 32

func (l *loop) portion(m *member) int {
	if l.rules.bounded || l.near.size() > 0 {
		return 1
	}
	return max(1, min(maxPortion, m.free(), m.lane.queue.size/(2*len(l.order))))
}

// idlest is the executor for the next task, nil if none should get one now.
func (l *loop) idlest() *member {
	var best *member
	for _, m := range l.order {
		if (best == nil || m.busy < best.busy) && m.lane.queue.size > 0 && m.worthwhile(m.lane.queue.size) {
			best = m
		}
	}
	return best
}

// release takes a task from the executor that holds it.
func (l *loop) release(t *task) {
	if t.state == taskRunning {
		l.running--
	}
	t.at.put(t)
}

// deliver gives a task its one result, and returns it for what else is to be in
// it, valid until the next one. Results are large: they are written in place.
func (l *loop) deliver(t *task, res *model.TaskResult) *Result {
	t.state = taskOver
	l.tasks.Remove(t.spec.ID)
	if !t.isCall() {
		l.rules.processes--
	}
	n := len(l.ended)
	if n < cap(l.ended) {
		l.ended = l.ended[:n+1] // what is behind the end is clear
	} else {
		l.ended = append(l.ended, Result{})
	}
	r := &l.ended[n]
	r.TaskResult, r.Tag, r.Reruns = *res, t.tag, t.reruns
	l.d.records.put(t) // it may be another task's from here on
	return r
}

// drop gives a task a result that no executor reports.
func (l *loop) drop(t *task, outcome model.TaskOutcome, why string) {
	res := notDone(t, outcome, why)
	l.deliver(t, &res)
}

func resultBytes(r *Result) int { return len(r.Stdout) + len(r.Stderr) + len(r.Value) }

// result takes one result of a connected executor.
func (l *loop) result(m *member, r *model.TaskResult) {
	t := l.holds(m, r.ID)
	switch {
	case t == nil:
		// Already delivered, or the task runs elsewhere.
		l.ack(m, r.ID, true, 0)
		return
	case t.spec.Attempt != r.Attempt:
		// The executor has this attempt no more; an acknowledgement could hit
		// the present one.
		return
	case t.state == taskFetching:
		return // told twice on one stream
	case r.Outcome == model.TaskReturned:
		l.returned(m, t)
		return
	}
	r.Executor = m.info.ID
	long := r.StdoutBytes > int64(len(r.Stdout)) || r.StderrBytes > int64(len(r.Stderr))
	if long && l.d.cfg.Spill != nil {
		m.toFetching(t)
		l.running--
		m.conn.fetch.push(fetchJob{res: *r, tag: t.tag})
		return
	}
	l.complete(m, t, r)
}

// fetched takes a result with its output.
func (l *loop) fetched(f fetchedMsg) {
	m := l.byConn[f.c]
	if m == nil {
		closeFiles(f.files)
		return
	}
	t := l.holds(m, f.res.ID)
	if t == nil || t.spec.Attempt != f.res.Attempt || t.state != taskFetching {
		closeFiles(f.files)
		return
	}
	r := l.complete(m, t, &f.res)
	r.StdoutFile, r.StderrFile, r.OutputErr = f.files[0], f.files[1], f.err
}

func (l *loop) complete(m *member, t *task, res *model.TaskResult) *Result {
	l.ack(m, t.spec.ID, !t.isCall(), len(res.Value))
	l.release(t)
	r := l.deliver(t, res)
	r.Host = m.info.Host
	return r
}

// ack tells an executor that it may forget a result: at the end of this turn,
// or, as good for a call, with the next tasks.
func (l *loop) ack(m *member, id model.TaskID, now bool, size int) {
	m.acks = append(m.acks, id)
	m.ackNow = m.ackNow || now
	m.ackSize += size
	l.touch(m)
}

// cancelTask ends a task that has no result yet.
func (l *loop) cancelTask(t *task) {
	switch t.state {
	case taskQueued:
		l.unqueue(t)
		t.slab = nil // a queue may refer to it for long
		l.drop(t, model.TaskKilled, "cancelled before it ran")
	case taskRunning:
		if t.cancelled {
			return
		}
		t.cancelled = true
		if t.at.conn != nil {
			t.at.conn.out.put(func(o *outbox) { o.cancels = append(o.cancels, t.spec.ID) })
		}
	case taskFetching, taskOver:
		// It has run; its result stands.
	}
}

// notDone is the result of a task that no executor reports.
func notDone(t *task, outcome model.TaskOutcome, why string) model.TaskResult {
	return model.TaskResult{
		ID: t.spec.ID, Attempt: t.spec.Attempt, Outcome: outcome, ExitCode: -1, Error: why, Executor: -1,
	}
}

func (l *loop) executors() []ExecutorInfo {
	out := make([]ExecutorInfo, 0, len(l.members))
	for _, id := range slices.Sorted(maps.Keys(l.members)) {
		m := l.members[id]
		out = append(out, ExecutorInfo{
			ID: id, Worker: m.info.Worker, Host: m.info.Host, PID: m.pid, Cores: m.info.Cores,
			State: m.state(), Slots: m.slots, Running: m.count, Profile: m.lane.profile,
		})
	}
	return out
}

// errNoSecret refuses an executor for which the leader has given no secret.
var errNoSecret = errors.New("the leader has announced no secret for it")
