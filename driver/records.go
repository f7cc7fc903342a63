package driver

import "sync"

// slab is the memory of the records of tasks that were submitted together. The loop
// owns it from then on, and gives it back when all of them have their results.
type slab struct {
	tasks []task
	over  int // of them
}

// recordPool keeps slabs for the next tasks. Safe for concurrent use.
type recordPool struct{ one, many sync.Pool }

// maxPooledRecords bounds a slab that is kept, and leastRecords is the smallest that
// is made for several tasks.
const (
	maxPooledRecords = 4096
	leastRecords     = 64
)

// get returns clear records.
func (p *recordPool) get(n int) []task {
	from, size := &p.many, max(n, leastRecords)
	if n == 1 {
		from, size = &p.one, 1
	}
	s, ok := from.Get().(*slab)
	if !ok || cap(s.tasks) < n {
		s = &slab{tasks: make([]task, size)}
	}
	s.tasks, s.over = s.tasks[:n], 0
	for i := range s.tasks {
		s.tasks[i].slab = s
	}
	return s.tasks
}

// put takes the record of a task that is over.
func (p *recordPool) put(t *task) {
	s := t.slab
	if s == nil {
		return
	}
	if s.over++; s.over < len(s.tasks) {
		return
	}
	clear(s.tasks)
	switch n := cap(s.tasks); {
	case n == 1:
		p.one.Put(s)
	case n <= maxPooledRecords:
		p.many.Put(s)
	}
}
