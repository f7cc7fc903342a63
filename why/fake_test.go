package why

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/hearthd/hearth/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// state is a small cluster that satisfies View.
type state struct {
	settings  model.Settings
	tick      int64
	workers   []*model.Worker
	apps      []*model.App
	executors []*model.Executor
	drivers   []*model.Driver
}

var _ View = (*state)(nil)

func newState() *state { return &state{settings: model.DefaultSettings(), tick: 100_000} }

func (s *state) Settings() model.Settings { return s.settings }
func (s *state) Tick() int64              { return s.tick }

func (s *state) used(id model.WorkerID) model.Usage {
	var u model.Usage
	for _, e := range s.executors {
		if e.Worker != id {
			continue
		}
		u.Executors++
		u.Cores += e.Cores
		u.MemoryMiB += e.MemoryMiB
		for name, list := range e.Resources {
			if u.Resources == nil {
				u.Resources = model.Resources{}
			}
			u.Resources[name] = append(u.Resources[name], list...)
		}
	}
	return u
}

func (s *state) PresentWorkers(f func(*model.Worker, model.Usage) bool) {
	for _, w := range s.workers {
		if !w.State.Gone() && !f(w, s.used(w.ID)) {
			return
		}
	}
}

func open(w *model.Worker) bool { return w.State == model.WorkerAlive && !w.Overcommitted }

func (s *state) SchedulableWorkers(f func(*model.Worker, model.Usage) bool) {
	s.PresentWorkers(func(w *model.Worker, u model.Usage) bool { return !open(w) || f(w, u) })
}

func (s *state) SchedulableWorker(id model.WorkerID) (*model.Worker, model.Usage, bool) {
	for _, w := range s.workers {
		if w.ID == id {
			return w, s.used(id), open(w)
		}
	}
	return nil, model.Usage{}, false
}

func (s *state) App(id model.AppID) (*model.App, bool) {
	for _, a := range s.apps {
		if a.ID == id {
			return a, true
		}
	}
	return nil, false
}

func (s *state) ActiveApps(f func(*model.App) bool) {
	for _, a := range s.apps {
		if !a.State.Terminal() && !f(a) {
			return
		}
	}
}

func (s *state) ActiveApp(id model.AppID) (*model.App, bool) {
	a, ok := s.App(id)
	return a, ok && !a.State.Terminal()
}

func (s *state) AppBlocked(id model.AppID) bool {
	a, _ := s.App(id)
	return a.BackoffUntil > s.tick
}

func (s *state) Excluded(id model.AppID, w model.WorkerID) bool {
	a, _ := s.App(id)
	for _, x := range a.Excluded {
		if x.Worker == w && x.UntilTick > s.tick {
			return true
		}
	}
	return false
}

func (s *state) cores(belongs func(*model.App) bool) int {
	n := 0
	s.ActiveApps(func(a *model.App) bool {
		if belongs(a) {
			n += model.CoresCounted(a)
		}
		return true
	})
	return n
}

func (s *state) QueueCores(queue string) int {
	return s.cores(func(a *model.App) bool { return a.Spec.QueueName() == queue })
}

func (s *state) UserCores(user string) int {
	return s.cores(func(a *model.App) bool { return model.AppUser(a) == user })
}

func (s *state) DueGangs(f func(*model.App) bool) {
	s.ActiveApps(func(a *model.App) bool {
		due := a.State == model.AppWaiting && model.GangNeeds(a) > 0 && s.tick-a.SubmittedTick >= s.settings.GangAfterMilli
		return !due || f(a)
	})
}

func (s *state) HoldingExecutors(f func(*model.Executor) bool) {
	for _, e := range s.executors {
		if !f(e) {
			return
		}
	}
}

func (s *state) ExecutorsOf(id model.AppID, f func(*model.Executor) bool) {
	s.HoldingExecutors(func(e *model.Executor) bool { return e.App != id || f(e) })
}

func (s *state) Driver(id model.DriverID) (*model.Driver, bool) {
	for _, d := range s.drivers {
		if d.ID == id {
			return d, true
		}
	}
	return nil, false
}

func (s *state) Attempt(d *model.Driver) (*model.Executor, bool) {
	for _, e := range s.executors {
		if e.App == d.ID.Owner() {
			return e, true
		}
	}
	return nil, false
}

func (s *state) QueuedDrivers(f func(*model.Driver) bool) {
	for _, d := range s.drivers {
		if d.State.Queued() && !f(d) {
			return
		}
	}
}

func (s *state) WaitingDrivers(f func(*model.Driver) bool) {
	s.QueuedDrivers(func(d *model.Driver) bool { return d.BackoffUntil > s.tick || f(d) })
}

func (s *state) WaitingDriver(id model.DriverID) (*model.Driver, bool) {
	for _, d := range s.drivers {
		if d.ID == id {
			return d, d.State.Queued() && d.BackoffUntil <= s.tick
		}
	}
	return nil, false
}

func (s *state) PlacedDrivers() int {
	n := 0
	for _, d := range s.drivers {
		if d.State == model.DriverRunning || d.State == model.DriverKilling {
			n++
		}
	}
	return n
}

func (s *state) DriverCursor() model.WorkerID { return "" }

func (s *state) DriverCores() (cores, most int) {
	for _, d := range s.drivers {
		if d.State == model.DriverRunning {
			cores += d.Spec.Cores
		}
	}
	for _, w := range s.workers {
		if open(w) {
			most += w.Offer.Cores
		}
	}
	return cores, most * s.settings.DriverShareMilli / 1000
}

// worker adds an ALIVE worker with so many gpus.
func (s *state) worker(id string, cores int, memoryMiB int64, gpus int) *model.Worker {
	w := &model.Worker{ID: model.WorkerID(id), State: model.WorkerAlive, Incarnation: 1, Offer: model.Offer{Cores: cores, MemoryMiB: memoryMiB}}
	for i := range gpus {
		if w.Offer.Resources == nil {
			w.Offer.Resources = model.Resources{}
		}
		w.Offer.Resources["gpu"] = append(w.Offer.Resources["gpu"], fmt.Sprint(i))
	}
	s.workers = append(s.workers, w)
	return w
}

// app adds one that wants executors.
func (s *state) app(id string, executors, cores int, memoryMiB int64) *model.App {
	p := model.Profile{Cores: cores, MemoryMiB: memoryMiB}
	a := &model.App{
		ID: model.AppID(id), Number: uint64(len(s.apps)) + 1, State: model.AppWaiting, SubmittedTick: s.tick - 7000,
		Spec:     model.AppSpec{Name: "name of " + id, User: "ann", Kind: model.AppKindDriver, Executors: executors, Profile: p},
		Profiles: map[int]model.Profile{0: p}, Targets: map[int]int{0: executors}, Live: map[int]int{},
	}
	s.apps = append(s.apps, a)
	return a
}

// run puts an executor of an application on a worker.
func (s *state) run(a *model.App, worker string, cores int, st model.ExecutorState) *model.Executor {
	e := &model.Executor{
		App: a.ID, ID: a.NextExecutor, Worker: model.WorkerID(worker), Cores: cores, MemoryMiB: a.Spec.Profile.MemoryMiB, State: st,
	}
	a.NextExecutor++
	a.CoresGranted += cores
	a.State = model.AppRunning
	if st.Live() {
		a.Live[0]++
	}
	s.executors = append(s.executors, e)
	return e
}

// driver adds one that waits.
func (s *state) driver(id string, cores int, memoryMiB int64) *model.Driver {
	d := &model.Driver{
		ID: model.DriverID(id), Number: uint64(len(s.drivers)) + 1, State: model.DriverSubmitted, SubmittedTick: s.tick - 5000,
		Spec: model.DriverSpec{Name: "name of " + id, User: "ben", Cores: cores, MemoryMiB: memoryMiB},
	}
	s.drivers = append(s.drivers, d)
	return d
}
