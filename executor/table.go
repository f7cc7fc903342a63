package executor

import (
	"slices"

	"github.com/hearthd/hearth/model"
)

// pageTasks is how many numbers a page of the table covers: a driver hands tasks
// out in runs of about half as many.
const pageTasks = 64

// maxSparePages bounds the empty pages that are kept for the next numbers.
const maxSparePages = 64

// heldTable finds tasks by their numbers, which come mostly in order: pages cost
// less than a map. Guarded by registry.mu.
type heldTable struct {
	pages map[model.TaskID]*heldPage
	last  *heldPage // the one looked at last
	spare []*heldPage
	size  int
}

type heldPage struct {
	number model.TaskID
	tasks  [pageTasks]*heldTask
	used   int
}

func (tb *heldTable) page(id model.TaskID) *heldPage {
	n := id / pageTasks
	if tb.last != nil && tb.last.number == n {
		return tb.last
	}
	p := tb.pages[n]
	if p != nil {
		tb.last = p
	}
	return p
}

func (tb *heldTable) get(id model.TaskID) *heldTask {
	if p := tb.page(id); p != nil {
		return p.tasks[id%pageTasks]
	}
	return nil
}

// put adds a task whose number is not in the table.
func (tb *heldTable) put(t *heldTask) {
	id := t.spec.ID
	p := tb.page(id)
	if p == nil {
		if n := len(tb.spare); n > 0 {
			p, tb.spare = tb.spare[n-1], tb.spare[:n-1]
		} else {
			p = new(heldPage)
		}
		p.number = id / pageTasks
		if tb.pages == nil {
			tb.pages = make(map[model.TaskID]*heldPage)
		}
		tb.pages[p.number], tb.last = p, p
	}
	p.tasks[id%pageTasks] = t
	p.used++
	tb.size++
}

// remove forgets a task that is in the table.
func (tb *heldTable) remove(t *heldTask) {
	id := t.spec.ID
	p := tb.page(id)
	p.tasks[id%pageTasks] = nil
	tb.size--
	if p.used--; p.used > 0 {
		return
	}
	delete(tb.pages, p.number)
	tb.last = nil
	if len(tb.spare) < maxSparePages {
		tb.spare = append(tb.spare, p)
	}
}

// all lists the tasks by their numbers.
func (tb *heldTable) all() []*heldTask {
	out := make([]*heldTask, 0, tb.size)
	for _, p := range tb.pages {
		for _, t := range p.tasks {
			if t != nil {
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b *heldTask) int {
		if a.spec.ID < b.spec.ID {
			return -1
		}
		return 1
	})
	return out
}
