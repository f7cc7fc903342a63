package executor

// recordSlab is how many records, or contexts, are made at once.
const recordSlab = 64

// records keep the memory of tasks for the next ones. Guarded by registry.mu.
type records struct {
	free     *heldTask // linked by next
	contexts []callContext
}

// get returns a clear record.
func (r *records) get() *heldTask {
	if r.free == nil {
		slab := make([]heldTask, recordSlab)
		for i := range slab[1:] {
			slab[i].next = &slab[i+1]
		}
		r.free = &slab[0]
	}
	t := r.free
	r.free, t.next = t.next, nil
	return t
}

// put takes the record of a task that is dropped, unless somebody may still refer
// to it: a goroutine that runs it, the queue of calls that wait, or a timer.
func (r *records) put(t *heldTask) {
	if !t.isCall() || !t.started || !t.over || t.lapsed || t.timer != nil {
		return
	}
	*t = heldTask{}
	t.next = r.free
	r.free = t
}

// context returns a new context. It is never used again, because the function may
// have given it to somebody who outlives the call.
func (r *records) context() *callContext {
	if len(r.contexts) == 0 {
		r.contexts = make([]callContext, recordSlab)
	}
	c := &r.contexts[0]
	r.contexts = r.contexts[1:]
	return c
}
