//go:build linux

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/workerd"
)

// Kinds of record that the list verbs show.
const (
	kindApp      = "application"
	kindExecutor = "executor"
	kindDriver   = "driver"
	kindWorker   = "worker"
)

// shelf asks the list verbs of a cluster in virtual time what there is, and notes the states that each of them has shown.
type shelf struct {
	t    *testing.T
	c    *testcluster.Cluster
	s    Streams
	addr string
	seen map[string]map[string]bool // by kind and state
	over map[string]bool            // ids of what has ended and was read since
}

func newShelf(t *testing.T, c *testcluster.Cluster, m *testcluster.Master) *shelf {
	s := &shelf{t: t, c: c, addr: m.GRPCAddr(), seen: make(map[string]map[string]bool), over: make(map[string]bool)}
	s.s.In, s.s.Env, s.s.dialer = strings.NewReader(""), []string{"HOME=/nonexistent"}, c.Net.Host("operator").Dial
	return s
}

// run gives a command line, which must succeed, and returns what it prints.
func (s *shelf) run(args ...string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	streams := s.s
	streams.Out, streams.Err = &out, &errs
	if code := execute(context.Background(), append(args, "--masters", s.addr), streams); code != exitOK {
		s.t.Fatalf("hearth %s: exit code %d: %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// asked is run with -o json.
func asked[T any](s *shelf, args ...string) T {
	s.t.Helper()
	var v T
	if err := json.Unmarshal([]byte(s.run(append(args, "-o", "json")...)), &v); err != nil {
		s.t.Fatalf("hearth %s: %v", strings.Join(args, " "), err)
	}
	return v
}

// record is what a list says of one thing. Column is where a table has the state, from 0.
type record struct {
	kind, id, state  string
	column           int
	active, terminal bool
}

// rows counts the rows of a table that begin with an id and have the state in its column; and all that begin with the id.
func rows(table string, r record) (right, all int) {
	for line := range strings.Lines(table) {
		cells := strings.Fields(line)
		if len(cells) <= r.column || cells[0] != r.id {
			continue
		}
		all++
		if cells[r.column] == r.state {
			right++
		}
	}
	return right, all
}

// listed says whether what has not ended is in the list of what is active and in no other, what has ended is among the
// ended only, and both formats say the same of it.
func listed(active, every []record, activeTable, everyTable string) error {
	var errs []error
	count := func(list []record, id string) (n int) {
		for _, r := range list {
			if r.id == id {
				n++
			}
		}
		return n
	}
	for _, r := range every {
		inActive := 0
		if r.active {
			inActive = 1
		}
		if n, m := count(every, r.id), count(active, r.id); n != 1 || m != inActive || r.active == r.terminal {
			errs = append(errs, fmt.Errorf("%s %s, %s: listed %d times in all and %d times as active, with active %t and terminal %t", r.kind, r.id, r.state, n, m, r.active, r.terminal))
		}
		if right, all := rows(everyTable, r); right != 1 || all != 1 {
			errs = append(errs, fmt.Errorf("%s %s, %s: %d rows with that state of %d in\n%s", r.kind, r.id, r.state, right, all, everyTable))
		}
		if right, all := rows(activeTable, r); right != inActive || all != inActive {
			errs = append(errs, fmt.Errorf("%s %s, %s: %d rows with that state of %d among the active in\n%s", r.kind, r.id, r.state, right, all, activeTable))
		}
	}
	return errors.Join(errs...)
}

func appRecords(list []model.AppView) []record {
	var out []record
	for _, a := range list {
		out = append(out, record{kindApp, string(a.ID), string(a.State), 3, a.Active, a.Terminal})
	}
	return out
}

func driverRecords(list []model.DriverView) []record {
	var out []record
	for _, d := range list {
		out = append(out, record{kindDriver, string(d.ID), string(d.State), 3, d.Active, d.Terminal})
	}
	return out
}

// attemptRecords are the executors of an application, or the attempts of a driver, of which there is one list.
func attemptRecords(list []model.ExecutorView) (active, every []record) {
	for _, e := range list {
		r := record{kindExecutor, fmt.Sprint(e.ID), string(e.State), 1, e.Active, e.Terminal}
		every = append(every, r)
		if r.active {
			active = append(active, r)
		}
	}
	return active, every
}

// withoutEnded drops the rows of what has ended from a table.
func withoutEnded(table string, every []record) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		cells := strings.Fields(line)
		ended := len(cells) > 1 && slices.ContainsFunc(every, func(r record) bool { return r.id == cells[0] && r.terminal })
		if !ended {
			b.WriteString(line)
		}
	}
	return b.String()
}

// read asks every list verb once.
func (s *shelf) read() (found []record, err error) {
	var errs []error
	note := func(active, every []record, activeTable, everyTable string) {
		errs = append(errs, listed(active, every, activeTable, everyTable))
		found = append(found, every...)
	}
	apps := asked[appsView](s, "apps", "--all").Apps
	note(appRecords(asked[appsView](s, "apps").Apps), appRecords(apps), s.run("apps"), s.run("apps", "--all"))
	for _, a := range apps {
		if s.over[string(a.ID)] {
			continue
		}
		s.over[string(a.ID)] = a.Terminal && a.Cores == 0
		active, every := attemptRecords(asked[model.AppView](s, "app", string(a.ID)).Executors)
		table := s.run("app", string(a.ID))
		note(active, every, withoutEnded(table, every), table)
	}
	drivers := asked[driversView](s, "drivers", "--all").Drivers
	note(driverRecords(asked[driversView](s, "drivers").Drivers), driverRecords(drivers), s.run("drivers"), s.run("drivers", "--all"))
	for _, d := range drivers {
		if s.over[string(d.ID)] {
			continue
		}
		s.over[string(d.ID)] = d.Terminal
		active, every := attemptRecords(asked[model.DriverView](s, "driver", "status", string(d.ID)).Attempts)
		table := s.run("driver", "status", string(d.ID))
		note(active, every, withoutEnded(table, every), table)
	}
	// Workers have one list, which status shows too.
	var workers []record
	for _, w := range asked[workersView](s, "workers").Workers {
		if gone := w.State == model.WorkerDead || w.State == model.WorkerLeft; w.Active == gone {
			errs = append(errs, fmt.Errorf("worker %s is %s with active %t", w.ID, w.State, w.Active))
		}
		workers = append(workers, record{kindWorker, string(w.ID), string(w.State), 1, true, false})
	}
	note(workers, workers, s.run("status"), s.run("workers"))
	return found, errors.Join(errs...)
}

// look reads the lists at one moment of the cluster's life.
func (s *shelf) look() {
	s.t.Helper()
	for range 100 {
		before := s.c.View().Index()
		found, err := s.read()
		if s.c.View().Index() != before {
			continue // something has changed between two of the verbs
		}
		if err != nil {
			s.t.Error(err)
		}
		for _, r := range found {
			if s.seen[r.kind] == nil {
				s.seen[r.kind] = make(map[string]bool)
			}
			s.seen[r.kind][r.state] = true
		}
		return
	}
	s.t.Error("the cluster does not come to rest for as long as its lists are read")
}

// await waits until something is in a state, and reads the lists then.
func await[S ~string](s *shelf, what string, want S, now func(v *fsm.View) S) {
	s.t.Helper()
	s.c.Until(what+" is "+string(want), 40*time.Second, func() error {
		if got := now(s.c.View()); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	s.look()
}

func (s *shelf) app(id model.AppID, want model.AppState) {
	s.t.Helper()
	await(s, string(id), want, func(v *fsm.View) model.AppState {
		a, ok := v.App(id)
		if !ok {
			return ""
		}
		return a.State
	})
}

// executor awaits a state of an application's first executor.
func (s *shelf) executor(id model.AppID, want model.ExecutorState) {
	s.t.Helper()
	await(s, string(id)+"/0", want, func(v *fsm.View) model.ExecutorState {
		if e, ok := v.Executor(model.ExecutorRef{App: id}); ok {
			return e.State
		}
		if a, ok := v.App(id); ok && len(a.Finished) > 0 {
			return a.Finished[0].State
		}
		return ""
	})
}

func (s *shelf) driver(id model.DriverID, want model.DriverState) {
	s.t.Helper()
	await(s, string(id), want, func(v *fsm.View) model.DriverState {
		d, ok := v.Driver(id)
		if !ok {
			return ""
		}
		return d.State
	})
}

func (s *shelf) worker(w model.WorkerID, want model.WorkerState) {
	s.t.Helper()
	await(s, string(w), want, func(v *fsm.View) model.WorkerState {
		x, ok := v.Worker(w)
		if !ok {
			return ""
		}
		return x.State
	})
}

// submit submits one copy of a command.
func (s *shelf) submit(name string, p model.Profile, restart model.Restart, argv ...string) model.AppID {
	s.t.Helper()
	spec := testcluster.Sleepers(name, 1)
	spec.Profile, spec.Restart, spec.Command.Argv = p, restart, argv
	return s.c.Submit(spec)
}

func (s *shelf) submitDriver(supervise bool, cores int, memoryMiB int64, argv ...string) model.DriverID {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := s.c.Client().SubmitDriver(ctx, model.DriverSpec{
		Name: "driver", Cores: cores, MemoryMiB: memoryMiB, Supervise: supervise, Command: model.Command{Argv: argv},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Driver
}

// restarting says hello as a worker and then that its process is about to be replaced, which is the last word of it.
func (s *shelf) restarting(w model.WorkerID, window time.Duration) {
	s.t.Helper()
	conn, err := rpc.Dial(s.addr, rpc.DialConfig{Dial: s.s.dialer})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		s.t.Fatal(err)
	}
	say := func(up model.WorkerUp, heard func(model.WorkerDown) bool) {
		if err := session.Send(up); err != nil {
			s.t.Fatal(err)
		}
		for {
			d, err := session.Recv()
			if err != nil {
				s.t.Fatal(err)
			}
			if heard(d) {
				return
			}
		}
	}
	say(model.WorkerUp{Hello: &model.WorkerHello{
		Worker: w, Incarnation: 1, BootID: "boot",
		Offer: model.Offer{Hostname: "w9", GRPCAddr: s.c.Addr("w9") + ":7071", SerfAddr: s.c.Addr("w9") + ":7946", Cores: 1, MemoryMiB: 16},
	}}, func(d model.WorkerDown) bool { return d.Welcome != nil })
	say(model.WorkerUp{Restart: &model.WorkerRestart{WindowMilli: window.Milliseconds()}}, func(d model.WorkerDown) bool { return d.RestartOK != nil })
}

// Every state of an application, an executor, a driver and a worker is brought about on a cluster. Whatever there is stands
// in exactly one of the two lists of its kind, active or ended, in both formats, and at the end each state of the enums has
// been shown.
func TestEveryStateIsShownByExactlyOneList(t *testing.T) {
	small, tall := model.Profile{Cores: 1, MemoryMiB: 64}, model.Profile{Cores: 1, MemoryMiB: 8192}
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(1)
		m := c.Settled(20 * time.Second)
		s := newShelf(t, c, m)
		w1 := c.StartWorkerOn("w1", workerd.Config{Cores: 4, MemoryMiB: 1024})
		c.AwaitWorkers(1, 10*time.Second)
		s.worker(w1.ID(), model.WorkerAlive)

		waits := s.submit("waits", tall, model.RestartAlways, "sleep", "forever")
		s.app(waits, model.AppWaiting)
		c.Net.Partition(m.Host, w1.Host) // what is granted now is not acknowledged
		runs := s.submit("runs", small, model.RestartAlways, "sleep", "forever")
		s.executor(runs, model.ExecutorPlaced)
		c.Net.HealLink(m.Host, w1.Host)
		s.executor(runs, model.ExecutorLaunching)
		s.executor(runs, model.ExecutorRunning)
		s.app(runs, model.AppRunning)

		s.drainAndDie(w1, runs)
		s.ends(small)
		s.drivers()
		s.workers(m, w1, waits)

		for kind, states := range map[string][]string{
			kindApp: words(model.AppStates()), kindExecutor: words(model.ExecutorStates()),
			kindDriver: words(model.DriverStates()), kindWorker: words(model.WorkerStates()),
		} {
			for _, state := range states {
				if !s.seen[kind][state] {
					t.Errorf("no list has shown a record of kind %s that is %s", kind, state)
				}
				delete(s.seen[kind], state)
			}
			for state := range s.seen[kind] {
				t.Errorf("a record of kind %s is %s, which no enum has", kind, state)
			}
		}
	})
}

func words[S ~string](states []S) []string {
	out := make([]string, len(states))
	for i, s := range states {
		out[i] = string(s)
	}
	return out
}

// drainAndDie drains the only worker under what runs there, ends the drain, and ends that.
func (s *shelf) drainAndDie(w *testcluster.Worker, runs model.AppID) {
	s.t.Helper()
	s.run("drain", string(w.ID()))
	s.worker(w.ID(), model.WorkerDraining)
	s.executor(runs, model.ExecutorDecommissioning)
	s.run("undrain", string(w.ID()))
	s.worker(w.ID(), model.WorkerAlive)
	s.run("kill", string(runs))
	s.executor(runs, model.ExecutorKilled)
	s.app(runs, model.AppKilled)
}

// ends brings applications to their ends.
func (s *shelf) ends(p model.Profile) {
	s.t.Helper()
	done := s.submit("done", p, model.RestartNever, "sleep", "2")
	s.executor(done, model.ExecutorExited)
	s.app(done, model.AppFinished)
	broken := s.submit("broken", p, model.RestartNever, "fail", "3")
	s.executor(broken, model.ExecutorFailed)
	s.app(broken, model.AppFailed)
	hangs := s.submit("hangs", p, model.RestartAlways, "undead", "20")
	s.executor(hangs, model.ExecutorRunning)
	s.run("kill", string(hangs))
	s.executor(hangs, model.ExecutorKilling)
	s.executor(hangs, model.ExecutorStuck)
	s.executor(hangs, model.ExecutorKilled)
}

// drivers takes drivers through their lives.
func (s *shelf) drivers() {
	s.t.Helper()
	waits := s.submitDriver(false, 4, 4096, "sleep", "forever")
	s.driver(waits, model.DriverSubmitted)
	s.run("kill", string(waits))
	s.driver(waits, model.DriverKilled)
	hangs := s.submitDriver(false, 1, 64, "undead", "2")
	s.driver(hangs, model.DriverRunning)
	s.run("driver", "kill", string(hangs))
	s.driver(hangs, model.DriverKilling)
	s.driver(hangs, model.DriverKilled)
	again := s.submitDriver(true, 1, 64, "fail", "3")
	s.driver(again, model.DriverRelaunching)
	s.run("kill", string(again))
	s.driver(again, model.DriverKilled)
	s.driver(s.submitDriver(false, 1, 64, "sleep", "1"), model.DriverFinished)
	s.driver(s.submitDriver(false, 1, 64, "fail", "3"), model.DriverFailed)
}

// workers takes workers through the other states, and what runs on one that dies with it.
func (s *shelf) workers(m *testcluster.Master, w1 *testcluster.Worker, waits model.AppID) {
	s.t.Helper()
	s.run("drain", string(w1.ID()))
	s.worker(w1.ID(), model.WorkerDrained)
	s.restarting("worker-restarting", 30*time.Second)
	s.worker("worker-restarting", model.WorkerRestarting)

	w2 := s.c.StartWorkerOn("w2", workerd.Config{Cores: 2, MemoryMiB: 16384})
	s.executor(waits, model.ExecutorRunning) // it has waited for this
	d := s.submitDriver(false, 1, 4096, "sleep", "forever")
	s.driver(d, model.DriverRunning)
	await(s, "the process of "+string(d), model.ExecutorRunning, func(v *fsm.View) model.ExecutorState {
		rec, _ := v.Driver(d)
		e, ok := v.Attempt(rec)
		if !ok {
			return ""
		}
		return e.State
	})
	s.c.KillWorker(w2)
	s.driver(d, model.DriverError)
	s.executor(waits, model.ExecutorLost)
	s.worker(w2.ID(), model.WorkerDead)
	s.run("kill", string(waits))

	w3 := s.c.StartWorkerOn("w3", workerd.Config{Cores: 1, MemoryMiB: 64})
	s.c.Until("w3 has an id", 10*time.Second, func() error {
		if w3.ID() == "" {
			return errors.New("it has none")
		}
		return nil
	})
	s.worker(w3.ID(), model.WorkerAlive)
	s.c.Net.Reset(m.Host, w3.Host)
	s.c.Net.Partition(m.Host, w3.Host)
	s.worker(w3.ID(), model.WorkerUnreachable)
	s.c.Net.HealLink(m.Host, w3.Host)
	s.worker(w3.ID(), model.WorkerAlive)
	s.c.StopWorker(w3)
	s.worker(w3.ID(), model.WorkerLeft)
}
