package fsm

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// Drivers in cluster mode (spark-standalone 1.E, ADR 0035). The process of an
// attempt is a record among the executors, under the driver's id and the number
// of the attempt, so workers, sessions and deadlines treat it as any other. This
// file is the only one that changes drivers and their attempts.

// attemptBit keeps the keys of drivers' attempts apart from those of
// applications' executors.
const attemptBit = 1 << 63

func attemptKey(driver uint64, attempt model.ExecutorID) []byte {
	return executorKey(driver|attemptBit, attempt)
}

func attemptsPrefix(driver uint64) []byte { return numKey(driver | attemptBit) }

func endedDriverKey(d *model.Driver) []byte {
	return append(numKey(uint64(d.EndedTick)), numKey(d.Number)...)
}

// byDriverKey orders the applications of drivers that have not ended.
func byDriverKey(driver, app uint64) []byte { return append(numKey(driver), numKey(app)...) }

func (s *state) driver(id model.DriverID) (*model.Driver, bool) {
	n, err := id.Number()
	if err != nil {
		return nil, false
	}
	d, ok := s.drivers.get(numKey(n))
	if !ok || d.ID != id {
		return nil, false
	}
	return d, true
}

// attempt finds the process of an attempt: the present one, or one of the ended
// ones that its driver still keeps.
func (s *state) attempt(ref model.ExecutorRef) (*model.Executor, bool) {
	d, ok := s.driver(model.DriverID(ref.App))
	if !ok || ref.Executor < 1 {
		return nil, false
	}
	if e, live := s.executors.get(attemptKey(d.Number, ref.Executor)); live {
		return e, true
	}
	for _, e := range d.Finished {
		if e.ID == ref.Executor {
			return e, true
		}
	}
	return nil, false
}

func (t *tx) findDriver(id model.DriverID) (*model.Driver, bool) {
	n, err := id.Number()
	if err != nil {
		return nil, false
	}
	d, ok := t.drivers.get(numKey(n))
	if !ok || d.ID != id {
		return nil, false
	}
	return d, true
}

// editDriver returns the driver for changing; it must exist.
func (t *tx) editDriver(number uint64) *model.Driver {
	d, first := t.drivers.edit(numKey(number))
	if first {
		t.changed(Change{Kind: ChangeDriver, App: d.ID.Owner()})
	}
	d.ChangeIndex = t.index
	return d
}

// addDriver inserts a new driver, which waits.
func (t *tx) addDriver(d *model.Driver) {
	t.drivers.insert(numKey(d.Number), d)
	if d.RequestID != "" {
		t.driverReq.put([]byte(d.RequestID), d.Number)
	}
	t.waiting.put(numKey(d.Number), struct{}{})
	t.changed(Change{Kind: ChangeDriver, App: d.ID.Owner()})
}

// setDriver moves a driver to another state; d must be editable.
func (t *tx) setDriver(d *model.Driver, state model.DriverState, reason string) {
	was := d.State
	d.State, d.Reason = state, model.TrimReason(reason)
	switch {
	case state.Queued() && !was.Queued():
		t.waiting.put(numKey(d.Number), struct{}{})
	case !state.Queued() && was.Queued():
		t.waiting.remove(numKey(d.Number))
	}
	if state.Terminal() {
		t.endDriver(d)
	}
}

// endDriver keeps the list of ended drivers, which it bounds.
func (t *tx) endDriver(d *model.Driver) {
	d.EndedWall, d.EndedTick = t.wall, t.tick
	d.BackoffUntil, d.Backoff, d.Failures = 0, 0, nil
	t.endedDrivers.put(endedDriverKey(d), d.Number)
	for t.endedDrivers.n > model.MaxEndedDrivers {
		key, n, ok := t.endedDrivers.first()
		if !ok {
			return
		}
		t.endedDrivers.remove(key)
		if old, found := t.drivers.get(numKey(n)); found {
			t.driverReq.remove([]byte(old.RequestID))
			t.drivers.remove(numKey(n))
			t.changed(Change{Kind: ChangeDriver, App: old.ID.Owner()})
		}
	}
}

// presentAttempt finds the unfinished process of an attempt and its driver.
func (t *tx) presentAttempt(ref model.ExecutorRef) (*model.Executor, *model.Driver, bool) {
	d, ok := t.findDriver(model.DriverID(ref.App))
	if !ok || ref.Executor < 1 {
		return nil, d, false
	}
	e, ok := t.executors.get(attemptKey(d.Number, ref.Executor))
	return e, d, ok
}

// editAttempt returns the present attempt for changing; it must exist.
func (t *tx) editAttempt(d *model.Driver, id model.ExecutorID) *model.Executor {
	e, first := t.executors.edit(attemptKey(d.Number, id))
	if first {
		t.changed(Change{Kind: ChangeExecutor, App: d.ID.Owner(), Executor: id, Worker: e.Worker})
	}
	e.ChangeIndex = t.index
	return e
}

// addAttempt inserts a process of a driver.
func (t *tx) addAttempt(d *model.Driver, e *model.Executor) {
	key := attemptKey(d.Number, e.ID)
	t.executors.insert(key, e)
	t.byWorker.put(byWorkerKey(e.Worker, key), struct{}{})
	charge(t.editUsage(e.Worker), e)
	t.changed(Change{Kind: ChangeExecutor, App: d.ID.Owner(), Executor: e.ID, Worker: e.Worker})
}

// moveAttempt changes the state of an unfinished attempt to another unfinished
// one.
func (t *tx) moveAttempt(d *model.Driver, id model.ExecutorID, state model.ExecutorState, reason string) *model.Executor {
	e := t.editAttempt(d, id)
	t.enter(e, state, reason)
	return e
}

// endAttempt moves an attempt to its final state: what it held is free, and the
// driver ends or waits for the next attempt. proved: nothing of it runs any more.
func (t *tx) endAttempt(d *model.Driver, id model.ExecutorID, how ending, proved bool) {
	e := t.editAttempt(d, id)
	before := e.State
	t.release(e)
	key := attemptKey(d.Number, id)
	t.executors.remove(key)
	t.byWorker.remove(byWorkerKey(e.Worker, key))
	secret := e.Secret
	t.finish(e, how)
	// The attempt may come back (readopt), and a copy that lives on is told by name
	// that it is over; the secret opens nothing else any more (ADR 0041).
	e.Secret = secret
	own := t.editDriver(d.Number)
	own.Finished = append(own.Finished, e)
	if n := len(own.Finished) - model.MaxDriverAttempts; n > 0 {
		own.Finished = slices.Delete(own.Finished, 0, n)
	}
	t.judgeDriver(own, e, before, proved)
}

// judgeDriver settles what the end of an attempt means for its driver (the
// final state rule and supervision of spark-standalone 1.E).
func (t *tx) judgeDriver(d *model.Driver, e *model.Executor, before model.ExecutorState, proved bool) {
	ended := howEnded(e)
	switch {
	case e.State == model.ExecutorExited: // even if a kill was asked for
		t.concludeDriver(d, model.DriverFinished, 0, "exit code 0")
	case d.State == model.DriverKilling:
		end, code := haltedAs(d, e)
		t.concludeDriver(d, end, code, d.Reason)
	case e.Leaving && d.Spec.Supervise: // its worker is drained
		t.relaunch(d, e, t.tick)
	case e.Cause == model.CauseKill && obeyed(e):
		t.concludeDriver(d, model.DriverFinished, 0, ended)
	case e.Cause == model.CauseKill:
		t.concludeDriver(d, model.DriverKilled, exitKilled, ended)
	case e.Cause == model.CauseInfra && !d.Spec.Supervise && obeyed(e):
		// Its worker stopped. Exit code 0 is the end of its work even so; a supervised one
		// is wanted elsewhere, as if its worker were drained.
		t.concludeDriver(d, model.DriverFinished, 0, fmt.Sprintf("exit code 0 on worker %s: %s", e.Worker, e.Reason))
	case e.Cause == model.CauseInfra && before == model.ExecutorPlaced && proved:
		// Its worker could not launch it: nobody's copy has run.
		t.relaunch(d, e, t.tick+model.BackoffFirstMilli)
	case e.Cause == model.CauseInfra && !d.Spec.Supervise:
		t.concludeDriver(d, model.DriverError, exitLost, ended)
	case e.Cause == model.CauseInfra && (proved || d.Spec.Disconnect.Singleton()):
		t.relaunch(d, e, t.tick)
	case e.Cause == model.CauseInfra:
		t.relaunch(d, e, t.tick+model.DriverUnprovedMilli)
	default:
		t.countDriverFailure(d, e)
	}
}

// obeyed reports whether a process that was killed, by an order or because its worker
// stopped, took that as the end of its work: with exit code 0, before the signal
// that cannot be caught. Of what is LOST without a trace the code is -1.
func obeyed(e *model.Executor) bool {
	return (e.State == model.ExecutorKilled || e.State == model.ExecutorLost) && e.ExitCode == 0 && e.Signal == 0
}

// howEnded says how an attempt ended, for a person.
func howEnded(e *model.Executor) string {
	switch {
	case e.Cause != model.CauseInfra && e.Cause != model.CauseKill:
		return describe(e)
	case e.Reason == "":
		return fmt.Sprintf("%s on worker %s", e.State, e.Worker)
	}
	return fmt.Sprintf("%s on worker %s: %s", e.State, e.Worker, e.Reason)
}

// exitLost is the code of a driver that the cluster has lost (design 9).
const exitLost = 255

func (t *tx) countDriverFailure(d *model.Driver, e *model.Executor) {
	d.ExitCode = exitCodeOf(e)
	d.Failures = slices.DeleteFunc(append(d.Failures, t.tick), func(at int64) bool { return t.tick-at > model.FailureWindowMilli })
	state := model.DriverFailed
	if e.Cause == model.CauseStart {
		state = model.DriverError
	}
	switch {
	case !d.Spec.Supervise:
		t.concludeDriver(d, state, d.ExitCode, describe(e))
		return
	case len(d.Failures) >= model.DriverFailuresLimit:
		t.concludeDriver(d, state, d.ExitCode, fmt.Sprintf("failed %d times within %d minutes; attempt %d: %s",
			len(d.Failures), model.FailureWindowMilli/60000, e.ID, describe(e)))
		return
	}
	d.Backoff = min(max(2*d.Backoff, model.BackoffFirstMilli), model.DriverBackoffMaxMilli)
	if e.LaunchTick > 0 && t.tick-e.LaunchTick > model.DriverStableMilli {
		d.Backoff = model.BackoffFirstMilli
	}
	t.relaunch(d, e, t.tick+d.Backoff)
}

// relaunch queues a driver again, in its old place. Its applications of this
// attempt end now if nothing of it can run any more, else with the next attempt,
// by which the old one is fenced.
func (t *tx) relaunch(d *model.Driver, e *model.Executor, at int64) {
	t.setDriver(d, model.DriverRelaunching, fmt.Sprintf("attempt %d: %s", e.ID, howEnded(e)))
	d.BackoffUntil = at
	if at-t.tick < model.DriverUnprovedMilli {
		t.endAppsOf(d, model.AppFailed, 1, fmt.Sprintf("attempt %d of its driver %s is over: %s", e.ID, d.ID, howEnded(e)))
	}
}

// concludeDriver ends a driver and the applications that it has left open.
func (t *tx) concludeDriver(d *model.Driver, state model.DriverState, exitCode int, reason string) {
	app := model.AppFailed
	switch state {
	case model.DriverFinished:
		app = model.AppFinished
	case model.DriverKilled:
		app = model.AppKilled
	case model.DriverFailed, model.DriverError, model.DriverSubmitted, model.DriverRunning, model.DriverRelaunching, model.DriverKilling:
	}
	t.endAppsOf(d, app, exitCode, fmt.Sprintf("its driver %s is %s: %s", d.ID, state, reason))
	d.ExitCode = exitCode
	t.setDriver(d, state, reason)
}

// linkApp notes that an application which has not ended belongs to a driver.
func (t *tx) linkApp(a *model.App) {
	if a.Spec.Driver == "" {
		return
	}
	if n, err := a.Spec.Driver.Number(); err == nil && !a.State.Terminal() {
		t.byDriver.put(byDriverKey(n, a.Number), a.Number)
	}
}

func (t *tx) unlinkApp(a *model.App) {
	if a.Spec.Driver == "" {
		return
	}
	if n, err := a.Spec.Driver.Number(); err == nil {
		t.byDriver.remove(byDriverKey(n, a.Number))
	}
}

// endAppsOf ends what attempts of a driver have registered and not finished.
func (t *tx) endAppsOf(d *model.Driver, state model.AppState, exitCode int, reason string) {
	var open []uint64
	t.byDriver.walkPrefix(numKey(d.Number), func(_ string, app uint64) bool {
		open = append(open, app)
		return true
	})
	for _, n := range open {
		if a, ok := t.apps.get(numKey(n)); ok && !a.State.Terminal() {
			t.endApp(a, state, exitCode, reason)
		}
	}
}

// callingAttempt is the attempt of a driver that asks for a command, known by its
// certificate (ADR 0041).
func callingAttempt(c *replogv1.Command) (model.ExecutorRef, bool) {
	ref, err := model.ParseExecutorRef(c.GetCredential())
	return ref, err == nil && model.IsDriver(ref.App)
}

// driverMayRegister says whether an attempt may register an application: only the
// present one, which the cluster takes for running.
func (t *tx) driverMayRegister(c *replogv1.Command, spec model.AppSpec) (Result, bool) {
	if ref, is := callingAttempt(c); is && ref != spec.Driver.Ref(spec.Attempt) {
		return reject(model.RejectAttempt, "%s may register only applications of its own, which name it; this one names %q, attempt %d", ref, spec.Driver, spec.Attempt), false
	}
	if spec.Driver == "" {
		return Result{}, true
	}
	d, ok := t.findDriver(spec.Driver)
	switch {
	case !ok:
		return reject(model.RejectUnknownDriver, "driver %q is not known", spec.Driver), false
	case d.State.Terminal():
		return reject(model.RejectDriverEnded, "driver %s is %s already: %s", d.ID, d.State, d.Reason), false
	case spec.Attempt != d.Attempt || d.State != model.DriverRunning:
		return reject(model.RejectAttempt, "driver %s is %s with attempt %d; attempt %d may register no application", d.ID, d.State, d.Attempt, spec.Attempt), false
	}
	return Result{}, true
}
