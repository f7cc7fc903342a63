package driver

import "sync"

// slab is the memory of the records of tasks that were submitted together. The loop
// owns it from then on, and gives it back when all of them have their results.
type slab struct {
	tasks []task
	over  int // of them
}

// recordPool keeps slabs for the next tasks. Safe for concurrent use.
type recordPool struct {
	mu   sync.Mutex
	one  []*slab // for one task
	many []*slab // for slabRecords
}

// slabRecords is the size of a slab for several tasks. Of either kind as many are
// kept as make about MaxQueued records and those that executors hold.
const (
	slabRecords = 256
	maxOnes     = 4096
	maxSlabs    = 64
)

// get returns up to slabRecords clear records.
func (p *recordPool) get(n int) []task {
	s := p.kept(n)
	s.tasks, s.over = s.tasks[:n], 0
	for i := range s.tasks {
		s.tasks[i].slab = s
	}
	return s.tasks
}

func (p *recordPool) kept(n int) *slab {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, size := &p.many, slabRecords
	if n == 1 {
		list, size = &p.one, 1
	}
	last := len(*list) - 1
	if last < 0 {
		return &slab{tasks: make([]task, size)}
	}
	s := (*list)[last]
	*list = (*list)[:last]
	return s
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
	p.mu.Lock()
	defer p.mu.Unlock()
	switch cap(s.tasks) {
	case 1:
		if len(p.one) < maxOnes {
			p.one = append(p.one, s)
		}
	default:
		if len(p.many) < maxSlabs {
			p.many = append(p.many, s)
		}
	}
}
