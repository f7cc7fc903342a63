package masterd

import (
	"sync"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// poke is a wake-up without content: the woken side reads the view and
// compares. Signals coalesce; sending never blocks.
type poke chan struct{}

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
	workers map[model.WorkerID]map[poke]struct{}
	apps    map[model.AppID]map[poke]struct{}
	any     map[poke]struct{} // wakes on each entry that changed something
	touched map[*touchedSet]struct{}
}

// touchedSet collects the executors that changed since it was last drained.
type touchedSet struct {
	mu   sync.Mutex
	refs map[model.ExecutorRef]struct{}
	all  bool // everything may have changed: scan the view
}

func newHub() *hub {
	return &hub{
		workers: make(map[model.WorkerID]map[poke]struct{}),
		apps:    make(map[model.AppID]map[poke]struct{}),
		any:     make(map[poke]struct{}),
		touched: make(map[*touchedSet]struct{}),
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
	if changes == nil {
		h.wakeAllLocked()
		return
	}
	for _, c := range changes {
		for p := range h.workers[c.Worker] {
			p.wake()
		}
		for p := range h.apps[c.App] {
			p.wake()
		}
	}
}

func (h *hub) wakeAllLocked() {
	for _, m := range h.workers {
		for p := range m {
			p.wake()
		}
	}
	for _, m := range h.apps {
		for p := range m {
			p.wake()
		}
	}
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

func watch[K comparable](h *hub, m map[K]map[poke]struct{}, key K) (poke, func()) {
	p := newPoke()
	h.mu.Lock()
	defer h.mu.Unlock()
	if m[key] == nil {
		m[key] = make(map[poke]struct{})
	}
	m[key][p] = struct{}{}
	return p, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(m[key], p)
		if len(m[key]) == 0 {
			delete(m, key)
		}
	}
}

// watchWorker wakes the poke when an executor on the worker, or its record,
// changes. The returned function ends the watch.
func (h *hub) watchWorker(id model.WorkerID) (poke, func()) { return watch(h, h.workers, id) }

// watchApp wakes the poke when the application or one of its executors changes.
func (h *hub) watchApp(id model.AppID) (poke, func()) { return watch(h, h.apps, id) }

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
