package executor

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hearthd/hearth/internal/pages"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// heldTask is one task from its arrival until the driver has taken its result.
// What is not said to be otherwise is guarded by registry.mu.
type heldTask struct {
	spec model.ExecTask
	// outcome is what the first kill makes of the task.
	outcome model.TaskOutcome
	// stop is closed by that kill, after which outcome may be read without mu.
	// nil for calls.
	stop chan struct{}
	// abandoned: nobody wants the result.
	abandoned bool

	over   bool // result is there
	sent   bool // on the present session
	result model.TaskResult
	output [2]*capture // stdout, stderr; set with result

	call
	prev, next *heldTask // in registry.results
}

// isCall tells a call of a function from a process.
func (t *heldTask) isCall() bool { return t.spec.Function != "" }

// registry holds the tasks of an executor across sessions. Safe for concurrent
// use.
type registry struct {
	mu      sync.Mutex
	held    pages.Table[model.TaskID, heldTask]
	records records
	results resultList // that wait for the driver
	closed  bool
	running sync.WaitGroup
	run     func(*heldTask) // runs a process and calls finish
	// waiting are processes until a slot is free: busy of them run.
	waiting []*heldTask
	busy    int
	discard func(*capture)
	calls   callQueue
	// lingerTold is what the driver was last told of calls.lingering.
	lingerTold int
	// batch is the most results in one message; 0 = no limit.
	batch int
	// ready has one value when there may be something to send.
	ready chan struct{}
	// flush wakes the sender for results that were not worth a message yet.
	flush *time.Timer
}

func newRegistry(run func(*heldTask), discard func(*capture)) *registry {
	r := &registry{
		held: pages.New[model.TaskID, heldTask](heldPageBits, maxSparePages),
		run:  run, discard: discard, ready: make(chan struct{}, 1),
	}
	r.calls.work.L = &r.mu
	r.calls.ending = make(map[*heldTask]struct{})
	r.flush = time.AfterFunc(time.Hour, r.wake)
	r.flush.Stop()
	return r
}

// errTooMany ends an executor whose driver ignores what it is told.
var errTooMany = fmt.Errorf("%w: the driver sent more than %d tasks without taking their results", model.ErrTooLarge, 2*MaxHeldTasks)

// add takes tasks from the driver and runs them. A repeated attempt is not run
// again; a later attempt replaces an earlier one, whose result nobody wants.
// The tasks become the registry's.
func (r *registry) add(tasks []model.ExecTask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range tasks {
		spec := &tasks[i]
		if r.closed {
			return nil
		}
		if old := r.held.Get(spec.ID); old != nil {
			if old.spec.Attempt >= spec.Attempt {
				if old.over { // the driver may have missed the result
					r.results.again(old)
					r.wake()
				}
				continue
			}
			r.dropLocked(old)
		}
		if r.held.Len() >= 2*MaxHeldTasks {
			return errTooMany
		}
		t := r.records.get()
		t.spec = *spec
		full := r.held.Len() >= MaxHeldTasks
		r.held.Put(spec.ID, t)
		if full {
			r.finishLocked(t, &model.TaskResult{
				Outcome: model.TaskNotRun, ExitCode: -1,
				Error: fmt.Sprintf("the executor holds %d tasks already", MaxHeldTasks),
			}, [2]*capture{})
			r.wake()
			continue
		}
		if t.isCall() {
			r.calls.push(t)
			continue
		}
		t.stop = make(chan struct{})
		r.waiting = append(r.waiting, t)
	}
	r.staffLocked()
	r.startLocked()
	return nil
}

// startLocked starts the processes for which there are slots.
func (r *registry) startLocked() {
	for len(r.waiting) > 0 && r.busy < r.calls.slots && !r.closed {
		t := r.waiting[0]
		r.waiting[0] = nil
		if r.waiting = r.waiting[1:]; t.over || t.abandoned {
			continue
		}
		t.started = true
		r.busy++
		r.running.Go(func() { r.run(t) })
	}
}

// recall gives tasks back that have not begun.
func (r *registry) recall(ids []model.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if t := r.held.Get(id); t != nil && !t.over && !t.started {
			r.finishLocked(t, &model.TaskResult{Outcome: model.TaskReturned, ExitCode: -1}, [2]*capture{})
			r.wake()
		}
	}
}

// finish records the result of a process; id and attempt are filled in.
func (r *registry) finish(t *heldTask, res model.TaskResult, output [2]*capture) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy--
	r.finishLocked(t, &res, output)
	r.startLocked()
	r.wake()
}

func (r *registry) finishLocked(t *heldTask, res *model.TaskResult, output [2]*capture) {
	t.output, t.over = output, true
	if t.abandoned {
		r.discardOutput(t)
		return
	}
	res.ID, res.Attempt = t.spec.ID, t.spec.Attempt
	if res.Error != "" {
		// Names of files and programs may be anything; a text that travels is not.
		res.Error = model.TrimReason(strings.ToValidUTF8(res.Error, "\uFFFD"))
	}
	t.result = *res
	if !t.lapsed { // a function that has not returned may read them yet
		t.spec.Files, t.spec.Env, t.spec.Argument = nil, nil, nil // no longer needed; may be large
	}
	r.results.push(t)
}

func (r *registry) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// ids lists every task that is held, for Hello: those that run and those whose
// result the driver has not acknowledged.
func (r *registry) ids() []model.TaskID {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]model.TaskID, 0, r.held.Len())
	for id := range r.held.All() {
		out = append(out, id)
	}
	return out
}

// adopt starts a new session: what the driver does not want any more is
// dropped, all results are to be sent again. Tasks that were not in the Hello
// cannot exist: only a session brings new ones.
func (r *registry) adopt(w *model.ExecutorWelcome, cores int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := make(map[model.TaskID]bool, len(w.Adopted))
	for _, id := range w.Adopted {
		keep[id] = true
	}
	for _, t := range r.held.All() {
		if !keep[t.spec.ID] {
			r.dropLocked(t)
		}
	}
	r.results.allAgain()
	r.batch = w.Batch
	r.lingerTold = 0
	r.calls.slots = cores
	if w.Slots > 0 {
		r.calls.slots = min(w.Slots, cores)
	}
	r.startLocked()
	r.wake()
}

// ack drops results that the driver has taken.
func (r *registry) ack(ids []model.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if t := r.held.Get(id); t != nil && t.over {
			r.dropLocked(t)
		}
	}
}

// dropLocked forgets a task; a running one is killed and its result thrown away.
func (r *registry) dropLocked(t *heldTask) {
	r.held.Remove(t.spec.ID)
	if !t.over {
		t.abandoned = true
		r.killLocked(t, model.TaskKilled)
		return
	}
	r.results.remove(t)
	r.discardOutput(t)
	r.records.put(t)
}

func (r *registry) discardOutput(t *heldTask) {
	for _, c := range t.output {
		if c != nil {
			r.discard(c)
		}
	}
}

// cancel kills running tasks; their results say KILLED.
func (r *registry) cancel(ids []model.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if t := r.held.Get(id); t != nil && !t.over {
			r.killLocked(t, model.TaskKilled)
		}
	}
}

func (r *registry) killLocked(t *heldTask, outcome model.TaskOutcome) {
	if t.outcome != "" {
		return
	}
	t.outcome = outcome
	switch {
	case t.isCall():
		r.endCallLocked(t)
	case !t.started:
		r.unbegunLocked(t)
	default:
		close(t.stop)
	}
}

// unsent encodes results that were not sent on this session, in messages of one
// batch and about maxFrameBytes at most, and marks them as sent. What is more than
// maxSendBytes together is left for the next time. It returns also how many slots
// are lingering, if the driver does not know.
func (r *registry) unsent(f *rpc.Frames) (lingering *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.results.unsent != nil {
		if f.Len() >= maxSendBytes {
			r.wake() // the rest
			break
		}
		f.Begin()
		for n := 0; r.results.unsent != nil && (n == 0 || n != r.batch && f.MessageLen() < maxFrameBytes); n++ {
			f.Result(&r.results.unsent.result)
			r.results.take()
		}
		f.End()
	}
	if n := r.calls.lingering; n != r.lingerTold {
		r.lingerTold = n
		lingering = &n
	}
	return lingering
}

// fetch reads a piece of the output of an ended task.
func (r *registry) fetch(f model.OutputFetch) model.OutputChunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := model.OutputChunk{ID: f.ID, Stderr: f.Stderr, Offset: f.Offset}
	t := r.held.Get(f.ID)
	switch {
	case t == nil:
		out.Error = fmt.Sprintf("task %d: %v: its result was acknowledged or it never ran here", f.ID, model.ErrNotFound)
		return out
	case !t.over:
		out.Error = fmt.Sprintf("task %d: %v: it is still running", f.ID, model.ErrConflict)
		return out
	}
	c := t.output[0]
	if f.Stderr {
		c = t.output[1]
	}
	if c == nil {
		return out // never ran: no output
	}
	data, err := c.readAt(f.Offset, f.Limit)
	if err != nil {
		out.Error = fmt.Sprintf("task %d: %v", f.ID, err)
	}
	out.Data = data
	return out
}

// close kills everything, takes no more tasks, and closes done when all have
// ended. Spilled output is removed. Call it once.
func (r *registry) close() (done <-chan struct{}) {
	r.mu.Lock()
	r.closed = true
	for _, t := range r.held.All() {
		r.dropLocked(t)
	}
	r.calls.work.Broadcast()
	r.flush.Stop()
	r.mu.Unlock()
	ch := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ch)
	}()
	return ch
}

// functions names the functions that were asked to end and run on.
func (r *registry) functions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for t := range r.calls.ending {
		out = append(out, t.spec.Function)
	}
	return out
}
