//go:build linux

package testcluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// submission is one registration of an application and what its caller was told.
type submission struct {
	name    string
	request string
	app     model.AppID
	err     error
}

// ledger is what the world outside the masters knows. Safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	subs     []submission
	starts   map[string]string // executor -> host that started it
	living   map[string]int    // processes of an executor
	faults   []string          // rules that were broken as it happened
	single   map[string]int    // living processes of a singleton, by application
	dials    map[string]int    // of executors, by their host
	alive    map[string]int    // living processes of an application, or attempts of a driver
	most     map[string]int    // highest alive so far
	launched int
}

func (l *ledger) init() {
	l.starts, l.living = make(map[string]string), make(map[string]int)
	l.single, l.dials = make(map[string]int), make(map[string]int)
	l.alive, l.most = make(map[string]int), make(map[string]int)
}

func (l *ledger) submitted(s submission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subs = append(l.subs, s)
}

// started checks that an executor id is launched once, ever, anywhere, and that nothing that runs under a lease, because
// there may be only one of it, has a second copy. Applications of this package with the policy "singleton" want one executor.
func (l *ledger) started(host, executor string, leased bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, twice := l.starts[executor]; twice {
		l.faults = append(l.faults, fmt.Sprintf("executor %s was launched on %s and again on %s", executor, before, host))
	}
	l.starts[executor] = host
	l.living[executor]++
	l.launched++
	app, _, _ := strings.Cut(executor, "/")
	l.alive[app]++
	l.most[app] = max(l.most[app], l.alive[app])
	if leased {
		if l.single[app]++; l.single[app] > 1 {
			l.faults = append(l.faults, fmt.Sprintf("singleton %s was started on %s while another copy ran", executor, host))
		}
	}
}

func (l *ledger) ended(executor string, leased bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.living[executor]--
	app, _, _ := strings.Cut(executor, "/")
	l.alive[app]--
	if leased {
		l.single[app]--
	}
}

func (l *ledger) dialled(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials[host]++
}

// Dials is how often the executors on a host have dialled their drivers.
func (c *Cluster) Dials(host string) int {
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	return c.books.dials[host]
}

// Starts is how many processes were started so far on all workers.
func (c *Cluster) Starts() int {
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	return c.books.launched
}

// MostAtOnce is how many processes of an application, or attempts of a driver, lived at once so far.
func (c *Cluster) MostAtOnce(app model.AppID) int {
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	return c.books.most[string(app)]
}

// Told sums up what callers were told so far.
func (c *Cluster) Told() string {
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	acknowledged := 0
	for _, s := range c.books.subs {
		if s.err == nil {
			acknowledged++
		}
	}
	return fmt.Sprintf("%d of %d registrations were acknowledged", acknowledged, len(c.books.subs))
}

// Rest heals the network, starts the masters that are down, and waits until nothing is left to do: masters agree, books
// balance, whoever wants executors has them or nothing is free.
func (c *Cluster) Rest() {
	c.t.Helper()
	c.Net.Heal()
	c.calm()
	for host := range c.dark {
		c.Net.Isolate(host)
	}
	for _, m := range c.masters {
		if !m.Up() {
			c.RestartMaster(m)
		}
	}
	if len(c.masters) == 0 {
		return
	}
	c.Settled(restBound)
	c.Until("the cluster is at rest", restBound, func() error {
		return errors.Join(c.agreed(), c.balanced(), c.idle(), c.served())
	})
}

// served says whether an application waits for something that is free. It looks at applications without a driver that ask
// for one core per executor, as those of this package do.
func (c *Cluster) served() error {
	v := c.View()
	free := 0
	v.Workers(func(w *model.Worker) bool {
		if w.State == model.WorkerAlive {
			free += w.Offer.Cores - v.Usage(w.ID).Cores
		}
		return true
	})
	var errs []error
	v.ActiveApps(func(a *model.App) bool {
		if a.Spec.Kind == model.AppKindCommand && a.Spec.Completions == 0 && a.Live[0] < a.Spec.Executors && free > 0 {
			errs = append(errs, fmt.Errorf("%s (%s) has %d of %d executors, and %d cores are free", a.ID, a.Spec.Name, a.Live[0], a.Spec.Executors, free))
		}
		return true
	})
	return errors.Join(errs...)
}

// balanced compares the state with what really runs.
func (c *Cluster) balanced() error {
	v := c.View()
	var errs []error
	seen := make(map[model.WorkerID]bool)
	for _, w := range c.workers {
		seen[w.ID()] = true
		errs = append(errs, c.balancedWorker(v, w))
	}
	v.AllExecutors(func(e *model.Executor) bool {
		if !seen[e.Worker] {
			errs = append(errs, fmt.Errorf("%s is on worker %s, which nobody started", e.Ref(), e.Worker))
		}
		return true
	})
	return errors.Join(errs...)
}

func (c *Cluster) balancedWorker(v *fsm.View, w *Worker) error {
	var errs []error
	if w.Up() {
		switch rec, ok := v.Worker(w.ID()); {
		case !ok:
			errs = append(errs, fmt.Errorf("%s is not registered", w.Host))
		case !rec.State.Up():
			errs = append(errs, fmt.Errorf("%s is %s (%s)", w.Host, rec.State, rec.StateReason))
		}
	}
	cores, memory := 0, int64(0)
	var booked []model.ExecutorRef
	v.WorkerExecutors(w.ID(), func(e *model.Executor) bool {
		booked = append(booked, e.Ref())
		cores += e.Cores
		memory += e.MemoryMiB
		return true
	})
	if used := v.Usage(w.ID()); used.Cores != cores || used.MemoryMiB != memory || used.Executors != len(booked) {
		errs = append(errs, fmt.Errorf("%s: used %+v, executors make %d cores and %d MiB", w.Host, used, cores, memory))
	}
	runs := w.Runs()
	slices.SortFunc(booked, model.ExecutorRef.Compare)
	slices.SortFunc(runs, model.ExecutorRef.Compare)
	if !slices.Equal(booked, runs) {
		errs = append(errs, fmt.Errorf("%s runs %v, the books have %v", w.Host, runs, booked))
	}
	return errors.Join(errs...)
}

// idle says whether every executor has come to where it stays.
func (c *Cluster) idle() error {
	var errs []error
	c.View().AllExecutors(func(e *model.Executor) bool {
		if e.State != model.ExecutorRunning {
			errs = append(errs, fmt.Errorf("%s is %s", e.Ref(), e.State))
		}
		return true
	})
	return errors.Join(errs...)
}

// Check reports every rule that does not hold for a cluster at rest.
func (c *Cluster) Check() {
	c.t.Helper()
	up := c.Masters()
	for _, m := range up {
		if m.Cluster().IsZero() || m.Cluster() != up[0].Cluster() {
			c.t.Errorf("%s belongs to cluster %s, %s to %s", m.Host, m.Cluster(), up[0].Host, up[0].Cluster())
		}
		if err := m.View().CheckInvariants(); err != nil {
			c.t.Errorf("%s: %v", m.Host, err)
		}
		c.checkSubmissions(m)
	}
	for _, w := range c.workers {
		if w.Exited() {
			c.t.Errorf("worker %s ended by itself: %v", w.Host, w.proc.err)
		}
	}
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	for _, f := range c.books.faults {
		c.t.Error(f)
	}
	for _, e := range slices.Sorted(maps.Keys(c.books.living)) {
		if n := c.books.living[e]; n > 1 {
			c.t.Errorf("executor %s runs %d times", e, n)
		}
	}
}

// checkSubmissions compares what callers were told with one replica: what was acknowledged is there, under the id that was
// given, and nothing is there twice. Once as many applications have ended as are kept, those that ended first may be gone.
func (c *Cluster) checkSubmissions(m *Master) {
	c.t.Helper()
	v := m.View()
	byName := make(map[string][]model.AppID)
	note := func(a *model.App) bool {
		byName[a.Spec.Name] = append(byName[a.Spec.Name], a.ID)
		return true
	}
	v.ActiveApps(note)
	v.EndedApps(note)
	full := v.CountEnded() >= model.MaxEndedApps
	c.books.mu.Lock()
	defer c.books.mu.Unlock()
	for _, s := range c.books.subs {
		got := byName[s.name]
		switch {
		case full && len(got) == 0:
		case len(got) > 1:
			c.t.Errorf("%s: %s was submitted once and is there as %v", m.Host, s.name, got)
		case s.err == nil && (len(got) == 0 || got[0] != s.app):
			c.t.Errorf("%s: %s was acknowledged as %s and is there as %v", m.Host, s.name, s.app, got)
		case s.err != nil && len(got) > 0 && !errors.Is(s.err, model.ErrOutcomeUnknown):
			c.t.Errorf("%s: %s was refused (%v) and is there as %v", m.Host, s.name, s.err, got)
		}
	}
}
