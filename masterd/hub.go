package masterd

import (
	"maps"
	"slices"
	"sync"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/scheduler"
)

// poke is a wake-up without content: the woken side reads the view and
// compares. Signals coalesce; sending never blocks.
type poke chan struct{}

// maxWatchedRefs bounds what one session is told by name.
const maxWatchedRefs = 1 << 16

func newPoke() poke { return make(poke, 1) }

func (p poke) wake() {
	select {
	case p <- struct{}{}:
	default:
	}
}

// hub carries "something changed" from the apply thread to those who compare.
// It holds no state of the cluster. publish runs on the apply thread and never
// blocks; everything else may be called from anywhere.
type hub struct {
	mu      sync.Mutex
	workers map[model.WorkerID]map[*executorWatch]struct{}
	drivers map[model.AppID]map[*executorWatch]struct{}
	apps    map[model.AppID]map[poke]struct{}
	any     map[poke]struct{} // wakes on each entry that changed something
	touched map[*touchedSet]struct{}
	records map[*changedRecords]struct{}
}

// executorWatch wakes one session when something on its worker, or of its
// application, changes, and says which executors that were.
type executorWatch struct {
	poke
	mu   sync.Mutex
	refs []model.ExecutorRef // in the order of their changes, some twice
	all  bool                // look at every executor
}

// changedRecords collects the applications and workers that changed since it
// was last drained, and wakes who drains it.
type changedRecords struct {
	poke
	mu      sync.Mutex
	apps    map[model.AppID]struct{}
	workers map[model.WorkerID]struct{}
	all     bool // everything may have changed
}

// touchedSet collects the executors that changed since it was last drained.
type touchedSet struct {
	mu   sync.Mutex
	refs map[model.ExecutorRef]struct{}
	all  bool // everything may have changed: scan the view
}

func newHub() *hub {
	return &hub{
		workers: make(map[model.WorkerID]map[*executorWatch]struct{}),
		drivers: make(map[model.AppID]map[*executorWatch]struct{}),
		apps:    make(map[model.AppID]map[poke]struct{}),
		any:     make(map[poke]struct{}),
		touched: make(map[*touchedSet]struct{}),
		records: make(map[*changedRecords]struct{}),
	}
}

// publish wakes whoever watches one of the changed things. nil changes mean
// that a snapshot was restored: everybody is woken. An entry that changed
// nothing wakes nobody.
func (h *hub) publish(_ uint64, changes []fsm.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if changes != nil && len(changes) == 0 {
		return
	}
	for p := range h.any {
		p.wake()
	}
	for t := range h.touched {
		t.add(changes)
	}
	for r := range h.records {
		r.add(changes)
	}
	if changes == nil {
		h.wakeAllLocked()
		return
	}
	for _, c := range changes {
		for w := range h.workers[c.Worker] {
			w.add(c)
		}
		for w := range h.drivers[c.App] {
			w.add(c)
		}
		for p := range h.apps[c.App] {
			p.wake()
		}
	}
}

func (h *hub) wakeAllLocked() {
	for _, m := range h.workers {
		for w := range m {
			w.addAll()
		}
	}
	for _, m := range h.drivers {
		for w := range m {
			w.addAll()
		}
	}
	for _, m := range h.apps {
		for p := range m {
			p.wake()
		}
	}
}

func (w *executorWatch) add(c fsm.Change) {
	if c.Kind == fsm.ChangeExecutor {
		w.mu.Lock()
		if len(w.refs) < maxWatchedRefs {
			w.refs = append(w.refs, model.ExecutorRef{App: c.App, Executor: c.Executor})
		} else {
			w.all = true // its session is slow: it looks at everything once
		}
		w.mu.Unlock()
	}
	w.wake()
}

func (w *executorWatch) addAll() {
	w.mu.Lock()
	w.all = true
	w.mu.Unlock()
	w.wake()
}

// drain returns the executors that changed since the last call. What it
// returned before is overwritten.
func (w *executorWatch) drain(into []model.ExecutorRef) (refs []model.ExecutorRef, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	refs, all = append(into[:0], w.refs...), w.all
	w.refs, w.all = w.refs[:0], false
	return refs, all
}

func (r *changedRecords) add(changes []fsm.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = r.all || changes == nil
	for _, c := range changes {
		if c.App != "" {
			r.apps[c.App] = struct{}{}
		}
		if c.Worker != "" {
			r.workers[c.Worker] = struct{}{}
		}
	}
	r.wake()
}

// put takes back what was drained and not looked at.
func (r *changedRecords) put(what scheduler.Changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = r.all || what.All
	for _, id := range what.Apps {
		r.apps[id] = struct{}{}
	}
	for _, id := range what.Workers {
		r.workers[id] = struct{}{}
	}
	r.wake()
}

// drain returns what changed since the last call, sorted: a plan must not depend
// on the order of a map.
func (r *changedRecords) drain() scheduler.Changes {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := scheduler.Changes{All: r.all}
	if !r.all {
		out.Apps, out.Workers = slices.Sorted(maps.Keys(r.apps)), slices.Sorted(maps.Keys(r.workers))
	}
	clear(r.apps)
	clear(r.workers)
	r.all = false
	return out
}

func (t *touchedSet) add(changes []fsm.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if changes == nil {
		t.all = true
	}
	for _, c := range changes {
		if c.Kind == fsm.ChangeExecutor {
			t.refs[model.ExecutorRef{App: c.App, Executor: c.Executor}] = struct{}{}
		}
	}
}

// drain returns what was touched since the last call.
func (t *touchedSet) drain() (refs map[model.ExecutorRef]struct{}, all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	refs, all = t.refs, t.all
	t.refs = make(map[model.ExecutorRef]struct{})
	t.all = false
	return refs, all
}

func watch[K, W comparable](h *hub, m map[K]map[W]struct{}, key K, w W) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m[key] == nil {
		m[key] = make(map[W]struct{})
	}
	m[key][w] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(m[key], w)
		if len(m[key]) == 0 {
			delete(m, key)
		}
	}
}

// watchWorker wakes when an executor on the worker, or its record, changes, and
// begins with everything. The returned function ends the watch.
func (h *hub) watchWorker(id model.WorkerID) (*executorWatch, func()) {
	w := &executorWatch{poke: newPoke(), all: true}
	return w, watch(h, h.workers, id, w)
}

// watchExecutors wakes when the application or one of its executors changes, and
// begins with everything. The returned function ends the watch.
func (h *hub) watchExecutors(id model.AppID) (*executorWatch, func()) {
	w := &executorWatch{poke: newPoke(), all: true}
	return w, watch(h, h.drivers, id, w)
}

// watchApp wakes the poke when the application or one of its executors changes.
func (h *hub) watchApp(id model.AppID) (poke, func()) {
	p := newPoke()
	return p, watch(h, h.apps, id, p)
}

// watchRecords collects the applications and workers that change from now on,
// and begins with everything.
func (h *hub) watchRecords() (*changedRecords, func()) {
	r := &changedRecords{
		poke: newPoke(), all: true,
		apps: make(map[model.AppID]struct{}), workers: make(map[model.WorkerID]struct{}),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records[r] = struct{}{}
	return r, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.records, r)
	}
}

// watchAny wakes the poke after every entry that changed something.
func (h *hub) watchAny() (poke, func()) {
	p := newPoke()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.any[p] = struct{}{}
	return p, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.any, p)
	}
}

// watchTouched collects the executors that change from now on.
func (h *hub) watchTouched() (*touchedSet, func()) {
	t := &touchedSet{
		refs: make(map[model.ExecutorRef]struct{}),
		all:  true,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched[t] = struct{}{}
	return t, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.touched, t)
	}
}
