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
	mu    sync.Mutex
	tasks []*task // not yet seen by the loop
	spare []*task // the slice that the loop had last
	last  model.TaskID
	shut  bool // nothing is taken any more
	// first is for the tasks of the default profile, others for the rest: those of
	// one without executors must not keep out all.
	first  intakeLane
	others map[int]*intakeLane // by profile
	wake   chan<- struct{}
}

// intakeLane counts the tasks of one profile.
type intakeLane struct {
	fresh  int           // not yet seen by the loop
	queued int           // in the loop's queue
	space  chan struct{} // closed when there may be room again; nil = nobody waits
}

func (in *intake) lane(profile int) *intakeLane {
	if profile == model.ProfileDefault {
		return &in.first
	}
	ln := in.others[profile]
	if ln == nil {
		ln = new(intakeLane)
		if in.others == nil {
			in.others = make(map[int]*intakeLane)
		}
		in.others[profile] = ln
	}
	return ln
}

// put numbers tasks, one after the other from first on, and takes as many as there
// is room for, all of the first one's profile. What it takes is the loop's. space
// is nil if there is room for more.
func (in *intake) put(tasks []task) (first model.TaskID, taken int, space <-chan struct{}) {
	same := 1
	for same < len(tasks) && tasks[same].profile == tasks[0].profile {
		same++
	}
	in.mu.Lock()
	ln := in.lane(tasks[0].profile)
	if !in.shut {
		taken = max(0, min(same, MaxQueued-ln.queued-ln.fresh))
	}
	ln.fresh += taken
	first = in.last + 1
	for i := range tasks[:taken] {
		in.last++
		tasks[i].spec.ID = in.last
		in.tasks = append(in.tasks, &tasks[i])
	}
	if taken < same {
		if ln.space == nil {
			ln.space = make(chan struct{})
		}
		space = ln.space
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
	in.first.seen()
	for _, ln := range in.others {
		ln.seen()
	}
	return out
}

// seen notes that the loop has taken what is new.
func (ln *intakeLane) seen() { ln.queued, ln.fresh = ln.queued+ln.fresh, 0 }

// left notes how many tasks wait in the loop's queues, and lets in as many as
// there is room for.
func (in *intake) left(lanes []*lane) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, of := range lanes {
		ln := in.lane(of.profile)
		ln.queued = of.waiting()
		if ln.space != nil && !in.shut && ln.queued+ln.fresh < MaxQueued-MaxQueued/8 {
			close(ln.space)
			ln.space = nil
		}
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
		if space == nil {
			continue // the next ones are of another profile
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
