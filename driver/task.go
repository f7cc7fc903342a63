package driver

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// Task is one process to run.
type Task struct {
	Argv []string
	Env  []string // "NAME=value"
	Dir  string   // absolute; "" = a fresh directory
	// Timeout ends the task; 0 = none.
	Timeout time.Duration
	// Files are written into the task's directory before it starts. Their data
	// is not copied and must not change.
	Files []model.File
	// Tag comes back with the result.
	Tag any
}

// Result is what became of a task: there is exactly one for each.
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
	if len(t.Argv) == 0 || t.Argv[0] == "" {
		return fmt.Errorf("submit task: %w: no program", model.ErrInvalid)
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

// taskState is where a task is. A task that has its result is in no table.
type taskState int

const (
	taskQueued   taskState = iota
	taskRunning            // held by an executor, takes a slot
	taskFetching           // held by an executor, its output is on the way
	taskOver               // has its result
)

// task is the driver's record. Owned by the loop.
type task struct {
	spec      model.ExecTask
	tag       any
	state     taskState
	cancelled bool
	reruns    int
	at        *member // while held
}

func newTask(id model.TaskID, t Task) *task {
	timeout := t.Timeout.Milliseconds()
	if t.Timeout > 0 && timeout == 0 {
		timeout = 1
	}
	return &task{tag: t.Tag, spec: model.ExecTask{
		ID: id, Attempt: 1, Argv: t.Argv, Env: t.Env, Dir: t.Dir, TimeoutMilli: timeout, Files: t.Files,
	}}
}

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
