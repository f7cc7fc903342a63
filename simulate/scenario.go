package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// Limits of a scenario.
const (
	// MaxBytes bounds the file.
	MaxBytes = 64 << 20
	// MaxSteps bounds the steps.
	MaxSteps = 100_000
	// MaxAdvanceSeconds bounds the time of one step: a year.
	MaxAdvanceSeconds = 366 * 24 * 3600
)

// defaultMemoryMiB is the memory of executors and drivers that name none, as in
// Spark.
const defaultMemoryMiB = 1024

// Scenario is what is to be played. It is made by Read.
type Scenario struct {
	settings model.Settings
	steps    []step
}

// step is one thing that happens.
type step struct {
	op string
	do func(w *world) error
}

// StepError says which step of a scenario is wrong, or could not be played.
type StepError struct {
	Step int // counted from 0
	Op   string
	Err  error
}

// Error implements error.
func (e *StepError) Error() string {
	if e.Op == "" {
		return fmt.Sprintf("step %d: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("step %d: %s: %v", e.Step, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Read reads a scenario. Names that nobody knows, names given twice and values
// out of range are errors, which wrap model.ErrInvalid and, where a step is
// meant, are a *StepError.
func Read(data []byte) (*Scenario, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: a scenario of %d bytes; the limit is %d", model.ErrTooLarge, len(data), MaxBytes)
	}
	v, err := readJSON(data)
	if err != nil {
		return nil, err
	}
	f := fieldsOf(v)
	s := &Scenario{settings: model.DefaultSettings()}
	if v := f.get("settings"); v != nil {
		if s.settings, err = readSettings(v); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
	}
	if f.o.values["steps"] == nil {
		f.fail("steps", "is missing")
	}
	list := f.list("steps")
	if err := f.done(); err != nil {
		return nil, err
	}
	if len(list) > MaxSteps {
		return nil, fmt.Errorf("%w: %d steps; the limit is %d", model.ErrTooLarge, len(list), MaxSteps)
	}
	for i, v := range list {
		st, err := readStep(v)
		if err != nil {
			return nil, &StepError{Step: i, Op: st.op, Err: err}
		}
		s.steps = append(s.steps, st)
	}
	return s, nil
}

func readSettings(v any) (model.Settings, error) {
	f, s := fieldsOf(v), model.DefaultSettings()
	s.SpreadOutApps = f.boolean("spread_out_apps", s.SpreadOutApps)
	s.WorkerSelectionPolicy = model.SelectionPolicy(f.text("worker_selection_policy", string(s.WorkerSelectionPolicy)))
	s.DefaultCores = atMost(f.number("default_cores", 0, 0), model.MaxCores)
	s.SpreadOutDrivers = f.boolean("spread_out_drivers", s.SpreadOutDrivers)
	s.MaxDrivers = atMost(f.number("max_drivers", 0, 0), model.MaxDriversLimit)
	for i, v := range f.list("queues") {
		q, err := readQueue(v)
		if err != nil {
			f.fail("queues", "%d: %v", i, err)
		}
		s.Queues = append(s.Queues, q)
	}
	model.SortQueues(s.Queues)
	s.UserCores = atMost(f.number("user_cores", 0, 0), model.MaxTotalCores)
	if text := f.text("gang_after", ""); text != "" {
		if err := s.Set(model.SettingGangAfter, text); err != nil {
			f.fail("gang_after", "%v", err)
		}
	}
	if v := f.get("driver_share"); v != nil {
		n, ok := v.(json.Number)
		if !ok {
			f.fail("driver_share", "want a number, not %s", describe(v))
		}
		share, err := model.ParseShare(n.String())
		if ok && err != nil {
			f.fail("driver_share", "%v", err)
		}
		s.DriverShareMilli = share
	}
	if err := f.done(); err != nil {
		return s, err
	}
	return s, s.Validate()
}

func readQueue(v any) (model.Queue, error) {
	f := fieldsOf(v)
	q := model.Queue{Name: f.need("name"), Weight: atMost(f.number("weight", 1, 1), model.MaxQueueWeight)}
	if v := f.get("priority"); v != nil {
		n, err := whole(v)
		if err != nil {
			f.fail("priority", "%v", err)
		}
		q.Priority = int(n)
	}
	q.CapCores = atMost(f.number("cap_cores", 0, 0), model.MaxTotalCores)
	return q, f.done()
}

// atMost cuts what is as good as no limit to what the state can hold.
func atMost(n int64, limit int) int { return int(min(n, int64(limit))) }

func readStep(v any) (step, error) {
	f := fieldsOf(v)
	op := f.need("op")
	if f.err != nil {
		return step{}, f.err
	}
	var do func(w *world) error
	switch op {
	case "add_worker":
		do = readAddWorker(f)
	case "remove_worker":
		id := f.need("id")
		do = func(w *world) error { return w.removeWorker(id) }
	case "submit_app":
		do = readSubmitApp(f)
	case "request_executors":
		do = readRequest(f)
	case "kill_executors":
		do = readKill(f)
	case "finish_app":
		name := f.need("app")
		do = func(w *world) error { return w.finishApp(name) }
	case "submit_driver":
		do = readSubmitDriver(f)
	case "finish_driver":
		name := f.need("driver")
		do = func(w *world) error { return w.finishDriver(name) }
	case "advance":
		do = readAdvance(f)
	default:
		return step{}, fmt.Errorf("%w: unknown op %q", model.ErrInvalid, op)
	}
	return step{op, do}, f.done()
}

func readAddWorker(f *fields) func(w *world) error {
	id := f.need("id")
	o := model.Offer{
		Hostname: id, GRPCAddr: id + ":1", Cores: int(f.number("cores", 1, 0)), MemoryMiB: f.number("memory_mib", 1, 0),
		Resources: f.addresses("resources"), Labels: f.labels("labels"),
	}
	return func(w *world) error { return w.addWorker(id, o) }
}

func readSubmitApp(f *fields) func(w *world) error {
	name := f.need("app")
	spec := model.AppSpec{
		Name: name, Kind: model.AppKindDriver, DriverAddr: "simulated:1", Executors: model.TargetUnlimited,
		Profile: f.profile(model.Profile{MemoryMiB: defaultMemoryMiB}),
		User:    f.text("user", ""),
		Queue:   f.text("queue", ""), Require: f.labels("require"), Prefer: f.labels("prefer"),
	}
	if n, ok := f.optional("cores_max", 1); ok {
		spec.CoresMax = atMost(n, model.MaxCores)
	}
	if n, ok := f.optional("initial_executors", 0); ok {
		spec.Executors = atMost(n, model.MaxExecutors)
	}
	if n, ok := f.optional("min_executors", 0); ok {
		spec.MinExecutors = atMost(n, model.MaxGang+1)
	}
	return func(w *world) error { return w.submitApp(name, spec) }
}

func readAdvance(f *fields) func(w *world) error {
	n := f.number("seconds", 1, 0)
	if n > MaxAdvanceSeconds {
		f.fail("seconds", "%d: must be at most %d", n, MaxAdvanceSeconds)
	}
	return func(w *world) error {
		w.tick += n * 1000
		return nil
	}
}

// profile reads the size of an executor; what is missing is that of base, except
// for custom resources (spark-standalone 1.G).
func (f *fields) profile(base model.Profile) model.Profile {
	p := model.Profile{Cores: base.Cores, MemoryMiB: f.number("executor_memory_mib", 1, base.MemoryMiB), Resources: f.amounts("executor_resources")}
	if n, ok := f.optional("executor_cores", 1); ok {
		p.Cores = f.cores("executor_cores", n)
	}
	return p
}

func readRequest(f *fields) func(w *world) error {
	name := f.need("app")
	totals := map[int]int{}
	f.each("totals", func(key string, v any) error {
		id, err := profileID(key)
		if err != nil {
			return err
		}
		n, err := whole(v)
		if err == nil && n < 0 {
			err = fmt.Errorf("%d: must be at least 0", n)
		}
		totals[id] = atMost(n, model.MaxExecutors)
		return err
	})
	profiles := map[int]any{}
	f.each("profiles", func(key string, v any) error {
		id, err := profileID(key)
		profiles[id] = v
		if err != nil {
			return err
		}
		_, err = readProfile(v, model.Profile{MemoryMiB: defaultMemoryMiB})
		return err
	})
	if f.o.values["totals"] == nil {
		f.fail("totals", "is missing")
	}
	return func(w *world) error { return w.request(name, totals, profiles) }
}

func readProfile(v any, base model.Profile) (model.Profile, error) {
	f := fieldsOf(v)
	p := f.profile(base)
	return p, f.done()
}

// profileID reads the number of a profile as it is written, without zeros in
// front, so that none has two names.
func profileID(key string) (int, error) {
	id, err := strconv.ParseInt(key, 10, 31)
	if err != nil || id < 0 || strconv.FormatInt(id, 10) != key {
		return 0, errors.New("must be the number of a profile")
	}
	return int(id), nil
}

func readKill(f *fields) func(w *world) error {
	name := f.need("app")
	var ids []int64
	for i, v := range f.list("executors") {
		n, err := whole(v)
		if err != nil {
			f.fail("executors", "%d: %v", i, err)
		}
		ids = append(ids, n)
	}
	if f.o.values["executors"] == nil {
		f.fail("executors", "is missing")
	}
	return func(w *world) error { return w.killExecutors(name, ids) }
}

func readSubmitDriver(f *fields) func(w *world) error {
	name := f.need("driver")
	spec := model.DriverSpec{
		Name: name, Cores: f.cores("cores", f.number("cores", 1, 1)), MemoryMiB: f.number("memory_mib", 1, defaultMemoryMiB),
		Resources: f.amounts("resources"), Supervise: f.boolean("supervise", false),
		Command: model.Command{Argv: []string{"simulated"}},
	}
	return func(w *world) error { return w.submitDriver(name, spec) }
}

// addresses reads what a worker offers of custom resources.
func (f *fields) addresses(name string) model.Resources {
	var out model.Resources
	f.each(name, func(key string, v any) error {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("want a list of addresses, not %s", describe(v))
		}
		addrs := []string{}
		for _, a := range list {
			s, ok := a.(string)
			if !ok {
				return fmt.Errorf("an address must be a text, not %s", describe(a))
			}
			addrs = append(addrs, s)
		}
		if out == nil {
			out = model.Resources{}
		}
		out[key] = addrs
		return nil
	})
	return out
}

// amounts reads how many addresses of custom resources are needed.
func (f *fields) amounts(name string) map[string]int {
	var out map[string]int
	f.each(name, func(key string, v any) error {
		n, err := whole(v)
		if err == nil && n < 1 {
			err = fmt.Errorf("%d: must be at least 1", n)
		}
		if err == nil && n > model.MaxAddresses {
			err = fmt.Errorf("%d: must be at most %d", n, model.MaxAddresses)
		}
		if out == nil {
			out = map[string]int{}
		}
		out[key] = int(n)
		return err
	})
	return out
}

// labels reads labels with their values: an object, or a list of "name=value"
// as on the command line.
func (f *fields) labels(name string) map[string]string {
	var out map[string]string
	put := func(key, value string) error {
		if _, twice := out[key]; twice || key == "" {
			return errors.New("has no name, or is given twice")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
		return nil
	}
	if _, ok := f.o.values[name].([]any); ok {
		for _, v := range f.list(name) {
			s, _ := v.(string)
			key, value, found := strings.Cut(s, "=")
			if !found {
				f.fail(name, `want "name=value", not %s`, describe(v))
			} else if err := put(key, value); err != nil {
				f.fail(name, "%q: %v", s, err)
			}
		}
		return out
	}
	f.each(name, func(key string, v any) error {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("the value of a label must be a text, not %s", describe(v))
		}
		return put(key, s)
	})
	return out
}
