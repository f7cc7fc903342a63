package driver

import (
	"time"

	"github.com/hearthd/hearth/model"
)

// The window of an executor is how many tasks it may have at once. Processes
// run as soon as they arrive: their window is the slots. Calls of functions
// wait in the executor for a slot, so that it never idles while a result and
// the next task are on their way: about aheadTime of them are sent ahead, judged
// by how long the last ones took. That is thousands of calls that take a
// microsecond and none that takes longer than aheadTime, so that long calls are
// spread over all executors, those that come later included. Of short processes one
// for each slot is sent ahead. What waits behind something long all the same is
// taken back when there is room elsewhere (recall.go).

// loadRules is what the windows of all executors depend on.
type loadRules struct {
	// tasks are those without a result, processes those of them that are processes.
	// While there are both, nothing is sent ahead: they share the slots.
	tasks, processes int
	// bounded: the executors have more slots than there may be tasks at once
	// (Config.MaxRunning).
	bounded bool
	// strict: Config.StartFree.
	strict bool
}

// look brings the rules up to date.
func (r *loadRules) look(l *loop) {
	r.tasks, r.strict = l.tasks.Len(), l.d.cfg.StartFree
	if most := l.d.cfg.MaxRunning; most > 0 {
		slots := 0
		for _, m := range l.members {
			slots += m.slots
		}
		r.bounded = slots > most
	}
}

// window is how many tasks the executor may have in its slots and before them.
func (m *member) window() int { return m.slots - m.lingering + m.ahead() }

// ahead is how many tasks may wait in the executor.
func (m *member) ahead() int {
	slots := m.slots - m.lingering
	if !m.deep || m.pace < 0 || slots <= 0 || m.stalled || m.load.strict || m.load.bounded || m.bytes >= maxAheadBytes {
		return 0
	}
	if m.load.processes > 0 {
		if !m.queues || m.load.processes < m.load.tasks || m.pace > aheadProcess {
			return 0
		}
		return slots
	}
	if m.pace < 1 {
		return maxAhead
	}
	return min(maxAhead, int(float64(slots)*aheadMicro/m.pace))
}

// observe takes the times of the calls of one message. Slower ones count at
// once, faster ones little by little.
func (m *member) observe(results []model.TaskResult) {
	sum, n := 0.0, 0
	for i := range results {
		if results[i].Outcome == model.TaskDone || results[i].Outcome == model.TaskFailed {
			sum += float64(results[i].RuntimeMicro)
			n++
		}
	}
	if n == 0 {
		return
	}
	m.progress, m.stalled = time.Now(), false
	mean := sum / float64(n)
	if m.pace < 0 || mean > m.pace {
		m.pace = mean
		return
	}
	m.pace += (mean - m.pace) / 4
}

// worthwhile reports whether the executor should get tasks now: one that has
// plenty to do waits until there is a message's worth of them.
func (m *member) worthwhile(waiting int) bool {
	free := m.free()
	return free > 0 && (m.busy <= m.slots+m.ahead()/2 || min(free, waiting) >= fullBatch)
}
