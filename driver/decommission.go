package driver

import "github.com/hearthd/hearth/model"

// decommissioned is the reason by which an executor ends whose worker is drained.
const decommissioned = "its worker is drained, and it has no task left"

// decommissioning reports whether the worker of the executor is drained.
func (m *member) decommissioning() bool { return m.info.State == model.ExecutorDecommissioning }

// decommission lets executors on drained workers go, as Spark's driver does
// (spark-standalone 1.O), but not before there is another one: they get no new
// tasks then, and end when they have none left.
func (l *loop) decommission() {
	var leave []*member
	for _, m := range l.members {
		if m.decommissioning() && m.ready {
			leave = append(leave, m)
		}
	}
	if len(leave) == 0 {
		return
	}
	others := make(map[*lane]bool)
	for _, m := range l.order {
		if !m.decommissioning() && !m.leaving() && !m.suspect && !m.retired {
			others[m.lane] = true
		}
	}
	for _, m := range leave {
		others := others[m.lane]
		m.spared = !others
		if others && m.count == 0 && !m.retired {
			m.retired = true
			l.kills.add(m.info.ID, decommissioned)
		}
	}
}
