package driver

import (
	"context"
	"fmt"
	"sync"

	"github.com/hearthd/hearth/model"
)

// intake takes tasks from those who submit them, without a turn of the loop for
// each. Safe for concurrent use.
type intake struct {
	mu     sync.Mutex
	tasks  []*task // not yet seen by the loop
	spare  []*task // the slice that the loop had last
	last   model.TaskID
	queued int           // tasks in the loop's queue
	shut   bool          // nothing is taken any more
	space  chan struct{} // closed when there may be room again; nil = nobody waits
	wake   chan<- struct{}
}

// put numbers tasks, one after the other from first on, and takes as many as there
// is room for. What it takes is the loop's.
func (in *intake) put(tasks []task) (first model.TaskID, taken int, space <-chan struct{}) {
	in.mu.Lock()
	if !in.shut {
		taken = max(0, min(len(tasks), MaxQueued-in.queued-len(in.tasks)))
	}
	first = in.last + 1
	for i := range tasks[:taken] {
		in.last++
		tasks[i].spec.ID = in.last
		in.tasks = append(in.tasks, &tasks[i])
	}
	if taken < len(tasks) {
		if in.space == nil {
			in.space = make(chan struct{})
		}
		space = in.space
	}
	in.mu.Unlock()
	if taken > 0 {
		ring(in.wake)
	}
	return first, taken, space
}

// drain takes the new tasks. The result is valid until the next drain.
func (in *intake) drain() []*task {
	in.mu.Lock()
	defer in.mu.Unlock()
	clear(in.spare)
	out := in.tasks
	in.tasks, in.spare = in.spare[:0], out
	in.queued += len(out)
	return out
}

// left notes how many tasks wait in the loop's queue, and lets in as many as
// there is room for.
func (in *intake) left(queued int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queued = queued
	if in.space != nil && !in.shut && queued+len(in.tasks) < MaxQueued-MaxQueued/8 {
		close(in.space)
		in.space = nil
	}
}

// close takes no more tasks: who waits goes on waiting for the driver's end.
func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut = true
}

// submit hands over all tasks, in order, waiting for room where there is none. What
// it has taken is the loop's, and its numbers are in ids, if that is not nil.
func (d *Driver) submit(ctx context.Context, tasks []task, ids []model.TaskID) (taken int, err error) {
	for {
		first, n, space := d.intake.put(tasks[taken:])
		for i := 0; ids != nil && i < n; i++ {
			ids[taken+i] = first + model.TaskID(i) //nolint:gosec // an index
		}
		if taken += n; taken == len(tasks) {
			select {
			case <-d.done: // nobody looks at them any more
				return taken - n, fmt.Errorf("submit task: %w", d.endError())
			default:
				return taken, nil
			}
		}
		select {
		case <-space:
		case <-d.done:
			return taken, fmt.Errorf("submit task: %w", d.endError())
		case <-ctx.Done():
			return taken, fmt.Errorf("submit task: %w", ctx.Err())
		}
	}
}
