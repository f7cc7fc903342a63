package simulate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/why"
)

// Result is what came of a scenario: after each step the placements of one
// scheduling pass, and how things stand at the end. Its JSON is a promise.
type Result struct {
	Steps []Step `json:"steps"`
	Final Final  `json:"final"`
}

// Step is one step of the scenario, counted from 0.
type Step struct {
	Step       int         `json:"step"`
	Placements []Placement `json:"placements"` // in the order in which they are made
}

// Placement is of a driver, if it names one, or of an executor.
type Placement struct {
	Driver    string              `json:"driver,omitempty"`
	App       string              `json:"app,omitempty"`
	Executor  *model.ExecutorID   `json:"executor,omitempty"`
	Worker    model.WorkerID      `json:"worker"`
	Cores     int                 `json:"cores"`
	MemoryMiB int64               `json:"memory_mib"`
	Profile   *int                `json:"profile,omitempty"`
	Resources map[string][]string `json:"resources"` // addresses; {} for none
}

// Final is the end.
type Final struct {
	Apps    []App    `json:"apps"`    // in order of submission, ended ones included
	Drivers []Driver `json:"drivers"` // the same
	Workers []Worker `json:"workers"` // those that are there, by id
}

// App is an application at the end.
type App struct {
	App       string             `json:"app"`
	State     model.AppState     `json:"state"`
	Cores     int                `json:"cores"`     // of live executors
	Executors []model.ExecutorID `json:"executors"` // live ones, ascending
	Why       string             `json:"why"`       // it waits; "" if it does not
}

// Driver is a driver at the end.
type Driver struct {
	Driver string            `json:"driver"`
	State  model.DriverState `json:"state"`
	Worker model.WorkerID    `json:"worker"` // "" while it is queued, or if it ended so
	Why    string            `json:"why"`    // it waits; "" if it does not
}

// Worker is a worker at the end.
type Worker struct {
	ID            model.WorkerID      `json:"id"`
	CoresUsed     int                 `json:"cores_used"`
	MemoryUsedMiB int64               `json:"memory_used_mib"`
	ResourcesUsed map[string][]string `json:"resources_used"` // {} for none
}

// Run plays a scenario. An error of a step is a *StepError.
func (s *Scenario) Run() (*Result, error) {
	w, err := newWorld(s.settings)
	if err != nil {
		return nil, err
	}
	out := &Result{Steps: make([]Step, 0, len(s.steps))}
	for i, st := range s.steps {
		w.tick += w.step
		if err := st.do(w); err != nil {
			return nil, &StepError{Step: i, Op: st.op, Err: err}
		}
		w.noteEnded()
		placed, err := w.pass()
		if err != nil {
			return nil, &StepError{Step: i, Op: st.op, Err: err}
		}
		out.Steps = append(out.Steps, Step{Step: i, Placements: placed})
	}
	out.Final = w.final()
	return out, nil
}

func (w *world) final() Final {
	view := w.state.View()
	// Nothing that waits for a time is left to wait for, unless time counts.
	x := why.New(view.At(w.tick+w.step), why.Options{})
	out := Final{
		Apps: make([]App, 0, len(w.appOrder)), Drivers: make([]Driver, 0, len(w.driverOrder)),
		Workers: make([]Worker, 0, len(w.workers)),
	}
	for _, name := range w.appOrder {
		out.Apps = append(out.Apps, w.finalApp(view, x, name))
	}
	for _, name := range w.driverOrder {
		out.Drivers = append(out.Drivers, w.finalDriver(view, x, name))
	}
	view.Workers(func(rec *model.Worker) bool {
		if _, present := w.workers[string(rec.ID)]; present {
			u := view.Usage(rec.ID)
			out.Workers = append(out.Workers, Worker{rec.ID, u.Cores, u.MemoryMiB, inOrder(rec.Offer.Resources, u.Resources)})
		}
		return true
	})
	return out
}

func (w *world) finalApp(view *fsm.View, x *why.Explainer, name string) App {
	out := App{App: name, State: model.AppFinished, Executors: []model.ExecutorID{}}
	a, kept := view.App(w.apps[name])
	if !kept {
		return out // it ended long ago
	}
	out.State = a.State
	view.Executors(a.ID, func(e *model.Executor) bool {
		if e.State.Live() {
			out.Executors = append(out.Executors, e.ID)
			out.Cores += e.Cores
		}
		return true
	})
	if !a.State.Terminal() {
		if y := x.App(a); y.Waiting {
			out.Why = w.inItsWords(y.Text)
		}
	}
	return out
}

func (w *world) finalDriver(view *fsm.View, x *why.Explainer, name string) Driver {
	d, kept := view.Driver(w.drivers[name])
	if ended, known := w.ended[name]; known {
		return ended
	}
	if !kept { // more ended with their worker at once than the state keeps
		return Driver{Driver: name, State: model.DriverError, Worker: w.ranOn[name]}
	}
	out := Driver{Driver: name, State: d.State, Worker: d.Worker}
	if d.State.Queued() {
		out.Worker, out.Why = "", w.inItsWords(x.Driver(d).Text)
	}
	return out
}

// inItsWords puts what the scenario calls things in the place of ids.
func (w *world) inItsWords(text string) string {
	if w.words == nil {
		var pairs []string
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(w.names))) { // the longer of two before its beginning
			pairs = append(pairs, id, w.names[id])
		}
		w.words = strings.NewReplacer(pairs...)
	}
	return w.words.Replace(text)
}

// inOrder is what is used of each resource, in the order in which it is
// offered; names of which nothing is used are left out.
func inOrder(offered, used model.Resources) map[string][]string {
	out := make(map[string][]string, len(used))
	for name, addrs := range used {
		if len(addrs) > 0 {
			list := slices.Clone(addrs)
			slices.SortFunc(list, func(a, b string) int {
				return cmp.Compare(slices.Index(offered[name], a), slices.Index(offered[name], b))
			})
			out[name] = list
		}
	}
	return out
}
