package driver

import "github.com/hearthd/hearth/model"

// pageTasks is how many tasks a page of the table holds.
const pageTasks = 1024

// table finds tasks by their numbers, which are given in order: it is made of
// pages that come and go with them, which costs less than a map. Owned by the
// loop.
type table struct {
	pages map[model.TaskID]*page
	last  *page // the one looked at last
	spare *page // an empty one for the next numbers; nil = none
	size  int
}

type page struct {
	number model.TaskID
	tasks  [pageTasks]*task
	used   int
}

func newTable() table { return table{pages: make(map[model.TaskID]*page)} }

func (tb *table) page(id model.TaskID) *page {
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

func (tb *table) get(id model.TaskID) *task {
	if p := tb.page(id); p != nil {
		return p.tasks[id%pageTasks]
	}
	return nil
}

func (tb *table) put(t *task) {
	id := t.spec.ID
	p := tb.page(id)
	if p == nil {
		if p, tb.spare = tb.spare, nil; p == nil {
			p = new(page)
		}
		p.number = id / pageTasks
		tb.pages[p.number] = p
		tb.last = p
	}
	p.tasks[id%pageTasks] = t
	p.used++
	tb.size++
}

// remove forgets a task that is in the table.
func (tb *table) remove(id model.TaskID) {
	p := tb.page(id)
	p.tasks[id%pageTasks] = nil
	tb.size--
	if p.used--; p.used == 0 {
		delete(tb.pages, p.number)
		tb.last, tb.spare = nil, p
	}
}

// all lists the tasks.
func (tb *table) all() []*task {
	out := make([]*task, 0, tb.size)
	for _, p := range tb.pages {
		for _, t := range p.tasks {
			if t != nil {
				out = append(out, t)
			}
		}
	}
	return out
}
