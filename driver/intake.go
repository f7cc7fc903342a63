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

// put numbers tasks and takes as many as there is room for.
func (in *intake) put(tasks []task) (taken int, space <-chan struct{}) {
	in.mu.Lock()
	if !in.shut {
		taken = max(0, min(len(tasks), MaxQueued-in.queued-len(in.tasks)))
	}
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
	return taken, space
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

// submit hands over all tasks, in order, waiting for room where there is none.
func (d *Driver) submit(ctx context.Context, tasks []task) (taken int, err error) {
	for {
		n, space := d.intake.put(tasks[taken:])
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
