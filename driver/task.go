package driver

import (
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/hearthd/hearth/model"
)

// Task is one thing to run: a process (Argv), or a call of a function that the
// executors' program has registered (Function), not both.
type Task struct {
	// Function and Argument are the call; see executor.Function. Env, Dir and
	// Files are for processes only. Argument is not copied and must not change
	// before the result is there.
	Function string
	Argument []byte
	Argv     []string
	Env      []string // "NAME=value"
	Dir      string   // absolute; "" = a fresh directory
	// Timeout ends the task; 0 = none.
	Timeout time.Duration
	// Files are written into the task's directory before it starts. Their data
	// is not copied and must not change.
	Files []model.File
	// Profile is the size of executors on which alone the task runs
	// (Driver.RequestExecutors); 0 = the default.
	Profile int
	// Near says where the task had better run; nil = it does not matter.
	Near *Locality
	// Tag comes back with the result.
	Tag any
}

// Result is what became of a task: there is exactly one for each. That of a
// call has its Value and Outcome DONE, or another outcome and an Error.
type Result struct {
	model.TaskResult
	Tag    any
	Reruns int    // how often the task was lost with an executor before
	Host   string // where it ran
	// StdoutFile and StderrFile are what Config.Spill opened for a stream that
	// is longer than what travels in a result; they hold the whole stream and
	// belong to the consumer now. nil = Stdout and Stderr are all there is.
	StdoutFile io.WriteCloser
	StderrFile io.WriteCloser
	// OutputErr says why spilled output is not complete; the rest is valid.
	OutputErr error
}

// check bounds what travels; errors wrap model.ErrInvalid or ErrTooLarge.
func (t *Task) check() error {
	switch {
	case t.Function != "":
		if err := t.checkCall(); err != nil {
			return err
		}
	case len(t.Argv) == 0 || t.Argv[0] == "":
		return fmt.Errorf("submit task: %w: neither a program nor a function", model.ErrInvalid)
	case t.Argument != nil:
		return fmt.Errorf("submit task: %w: an argument without a function", model.ErrInvalid)
	}
	if t.Near != nil {
		if err := t.Near.check(); err != nil {
			return err
		}
	}
	if t.Profile < 0 || t.Profile > MaxProfile {
		return fmt.Errorf("submit task: %w: profile %d: numbers go from 0 to %d", model.ErrInvalid, t.Profile, MaxProfile)
	}
	if t.Timeout < 0 {
		return fmt.Errorf("submit task: %w: timeout %s is negative", model.ErrInvalid, t.Timeout)
	}
	size := len(t.Dir)
	for _, list := range [][]string{t.Argv, t.Env} {
		for _, s := range list {
			size += len(s)
		}
	}
	if size > model.MaxTaskBytes {
		return fmt.Errorf("submit task: %w: arguments and environment have %d bytes, the limit is %d", model.ErrTooLarge, size, model.MaxTaskBytes)
	}
	size = 0
	for i := range t.Files {
		size += len(t.Files[i].Name) + len(t.Files[i].Data)
	}
	if size > MaxTaskFileBytes {
		return fmt.Errorf("submit task: %w: its files have %d bytes together, the limit is %d", model.ErrTooLarge, size, MaxTaskFileBytes)
	}
	return nil
}

// checkCall does so for a call of a function.
func (t *Task) checkCall() error {
	switch {
	case t.Argv != nil || t.Env != nil || t.Dir != "" || t.Files != nil:
		return fmt.Errorf("submit task: %w: function %.80q: a call has no program, environment, directory or files", model.ErrInvalid, t.Function)
	case len(t.Function) > model.MaxFunctionName:
		return fmt.Errorf("submit task: %w: a function's name of %d bytes, the limit is %d", model.ErrTooLarge, len(t.Function), model.MaxFunctionName)
	case !utf8.ValidString(t.Function):
		return fmt.Errorf("submit task: %w: function %q: the name is not UTF-8", model.ErrInvalid, t.Function)
	case len(t.Argument) > MaxArgument:
		return fmt.Errorf("submit task: %w: function %.80q: an argument of %d bytes, the limit is %d",
			model.ErrTooLarge, t.Function, len(t.Argument), MaxArgument)
	}
	return nil
}

// taskState is where a task is. A task that has its result is in no table.
type taskState int

const (
	taskQueued   taskState = iota
	taskRunning            // held by an executor, takes a slot
	taskFetching           // held by an executor, its output is on the way
	taskOver               // has its result
)

// task is the driver's record. Owned by the loop once it is submitted.
type task struct {
	spec      model.ExecTask
	tag       any
	profile   int
	state     taskState
	cancelled bool
	reruns    int
	at        *member // while held
	// prev and next are in the list of at.
	prev, next *task
	near       *nearTask
	slab       *slab
}

// fill makes the record of a task; its number comes with its submission.
func (rec *task) fill(t *Task) {
	timeout := t.Timeout.Milliseconds()
	if t.Timeout > 0 && timeout == 0 {
		timeout = 1
	}
	rec.tag, rec.profile = t.Tag, t.Profile
	s := &rec.spec // of a record that is clear
	s.Attempt, s.TimeoutMilli, s.Function, s.Argument = 1, timeout, t.Function, t.Argument
	if t.Function == "" {
		s.Argv, s.Env, s.Dir, s.Files = t.Argv, t.Env, t.Dir, t.Files
	}
	if t.Near != nil {
		rec.near = newNear(rec, t.Near)
	}
}

// isCall tells a call of a function from a process.
func (rec *task) isCall() bool { return rec.spec.Function != "" }

// queue holds waiting tasks: those to run again first, then first in, first
// out. Tasks that are over are skipped.
type queue struct {
	again []*task // oldest first
	fresh []*task
	head  int // of fresh
	size  int // tasks that are still queued
}

func (q *queue) push(t *task) {
	t.state = taskQueued
	q.fresh = append(q.fresh, t)
	q.size++
}

// pushFront puts tasks at the head, in their order.
func (q *queue) pushFront(ts []*task) {
	for _, t := range ts {
		t.state = taskQueued
	}
	q.again = slices.Concat(ts, q.again)
	q.size += len(ts)
}

// drop forgets a queued task.
func (q *queue) drop(t *task) {
	t.state = taskOver
	q.size--
}

// pop takes the next task, nil if there is none.
func (q *queue) pop() *task {
	for q.size > 0 {
		var t *task
		if len(q.again) > 0 {
			t, q.again[0] = q.again[0], nil
			q.again = q.again[1:]
		} else {
			t, q.fresh[q.head] = q.fresh[q.head], nil
			if q.head++; q.head > len(q.fresh)/2 {
				q.fresh = append(q.fresh[:0], q.fresh[q.head:]...)
				q.head = 0
			}
		}
		if t.state == taskQueued {
			q.size--
			return t
		}
	}
	q.again, q.fresh, q.head = nil, nil, 0
	return nil
}
