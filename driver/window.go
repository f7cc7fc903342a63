package driver

import "github.com/hearthd/hearth/model"

// The window of an executor is how many tasks it may have at once. Processes
// run as soon as they arrive: their window is the slots. Calls of functions
// wait in the executor for a slot, so that it never idles while a result and
// the next task are on their way: about aheadTime of them are sent ahead, judged
// by how long the last ones took. That is thousands of calls that take a
// microsecond and none that takes longer than aheadTime, so that long calls are
// spread over all executors, those that come later included.

// loadRules is what the windows of all executors depend on.
type loadRules struct {
	// processes are the tasks without a result that are processes. While there
	// are any, calls are not sent ahead: a process does not wait for its slot in
	// the executor.
	processes int
	// bounded: the tasks at once over all executors are bounded (Config.MaxRunning).
	bounded bool
}

// window is how many tasks the executor may have in its slots and before them.
func (m *member) window() int { return m.slots - m.lingering + m.ahead() }

// ahead is how many calls may wait in the executor.
func (m *member) ahead() int {
	slots := m.slots - m.lingering
	if !m.deep || m.pace < 0 || slots <= 0 || m.load.processes > 0 || m.load.bounded || m.bytes >= maxAheadBytes {
		return 0
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
