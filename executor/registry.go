package executor

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hearthd/hearth/model"
)

// heldTask is one task from its arrival until the driver has taken its result.
type heldTask struct {
	spec model.ExecTask
	// stop is closed by the first kill; outcome is what it makes of the task.
	stop    chan struct{}
	outcome model.TaskOutcome // guarded by registry.mu until stop is closed
	// abandoned: nobody wants the result.
	abandoned bool

	result *model.TaskResult // nil while it runs
	sent   bool              // on the present session
	output [2]*capture       // stdout, stderr; set with result
}

// registry holds the tasks of an executor across sessions. Safe for concurrent
// use.
type registry struct {
	mu      sync.Mutex
	held    map[model.TaskID]*heldTask
	order   []model.TaskID // of results that wait for the driver, oldest first
	closed  bool
	running sync.WaitGroup
	run     func(*heldTask) // runs a task and calls finish
	discard func(*capture)
	// ready has one value when there may be results to send.
	ready chan struct{}
}

func newRegistry(run func(*heldTask), discard func(*capture)) *registry {
	return &registry{
		held: make(map[model.TaskID]*heldTask), run: run, discard: discard,
		ready: make(chan struct{}, 1),
	}
}

// errTooMany ends an executor whose driver ignores what it is told.
var errTooMany = fmt.Errorf("%w: the driver sent more than %d tasks without taking their results", model.ErrTooLarge, 2*MaxHeldTasks)

// add takes tasks from the driver and runs them. A repeated attempt is not run
// again; a later attempt replaces an earlier one, whose result nobody wants.
func (r *registry) add(tasks []model.ExecTask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, spec := range tasks {
		if r.closed {
			return nil
		}
		if old := r.held[spec.ID]; old != nil {
			if old.spec.Attempt >= spec.Attempt {
				old.sent = false // the driver may have missed the result
				r.wake()
				continue
			}
			r.dropLocked(old)
		}
		if len(r.held) >= 2*MaxHeldTasks {
			return errTooMany
		}
		t := &heldTask{spec: spec, stop: make(chan struct{})}
		full := len(r.held) >= MaxHeldTasks
		r.held[spec.ID] = t
		if full {
			r.finishLocked(t, model.TaskResult{
				Outcome: model.TaskNotRun, ExitCode: -1,
				Error: fmt.Sprintf("the executor holds %d tasks already", MaxHeldTasks),
			}, [2]*capture{})
			continue
		}
		r.running.Go(func() { r.run(t) })
	}
	return nil
}

// finish records the result of a task; id and attempt are filled in.
func (r *registry) finish(t *heldTask, res model.TaskResult, output [2]*capture) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finishLocked(t, res, output)
}

func (r *registry) finishLocked(t *heldTask, res model.TaskResult, output [2]*capture) {
	t.output = output
	if t.abandoned {
		r.discardOutput(t)
		return
	}
	res.ID, res.Attempt = t.spec.ID, t.spec.Attempt
	// Names of files and programs may be anything; a text that travels is not.
	res.Error = model.TrimReason(strings.ToValidUTF8(res.Error, "\uFFFD"))
	t.result = &res
	t.spec.Files, t.spec.Env = nil, nil // no longer needed; may be large
	r.order = append(r.order, t.spec.ID)
	r.wake()
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
	out := make([]model.TaskID, 0, len(r.held))
	for id := range r.held {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

// adopt starts a new session: what the driver does not want any more is
// dropped, all results are to be sent again. Tasks that were not in the Hello
// cannot exist: only a session brings new ones.
func (r *registry) adopt(wanted []model.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := make(map[model.TaskID]bool, len(wanted))
	for _, id := range wanted {
		keep[id] = true
	}
	for id, t := range r.held {
		t.sent = false
		if !keep[id] {
			r.dropLocked(t)
		}
	}
	r.wake()
}

// ack drops results that the driver has taken.
func (r *registry) ack(ids []model.TaskID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if t := r.held[id]; t != nil && t.result != nil {
			r.dropLocked(t)
		}
	}
}

// dropLocked forgets a task; a running one is killed and its result thrown away.
func (r *registry) dropLocked(t *heldTask) {
	delete(r.held, t.spec.ID)
	if t.result == nil {
		t.abandoned = true
		r.killLocked(t, model.TaskKilled)
		return
	}
	if i := slices.Index(r.order, t.spec.ID); i >= 0 {
		r.order = slices.Delete(r.order, i, i+1)
	}
	r.discardOutput(t)
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
		if t := r.held[id]; t != nil && t.result == nil {
			r.killLocked(t, model.TaskKilled)
		}
	}
}

func (r *registry) killLocked(t *heldTask, outcome model.TaskOutcome) {
	if t.outcome == "" {
		t.outcome = outcome
		close(t.stop)
	}
}

// unsent takes a batch of results that were not sent on this session, at most
// about maxResultBatchBytes, and marks them as sent.
func (r *registry) unsent() []model.TaskResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []model.TaskResult
	size := 0
	for _, id := range r.order {
		t := r.held[id]
		if t.sent {
			continue
		}
		n := len(t.result.Stdout) + len(t.result.Stderr)
		if len(out) > 0 && size+n > maxResultBatchBytes {
			r.wake() // the rest
			break
		}
		t.sent = true
		size += n
		out = append(out, *t.result)
	}
	return out
}

// fetch reads a piece of the output of an ended task.
func (r *registry) fetch(f model.OutputFetch) model.OutputChunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := model.OutputChunk{ID: f.ID, Stderr: f.Stderr, Offset: f.Offset}
	t := r.held[f.ID]
	switch {
	case t == nil:
		out.Error = fmt.Sprintf("task %d: %v: its result was acknowledged or it never ran here", f.ID, model.ErrNotFound)
		return out
	case t.result == nil:
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
	for _, t := range r.held {
		r.dropLocked(t)
	}
	r.mu.Unlock()
	ch := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ch)
	}()
	return ch
}
