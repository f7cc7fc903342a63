package fsm

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func (t *tx) submitDriver(c *replogv1.Command, p *replogv1.SubmitDriver) Result {
	spec := DriverSpecFromProto(p.GetSpec())
	if err := spec.Validate(); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	number := t.meta.lastDriver + 1
	d := &model.Driver{
		ID: model.DriverIDFor(t.wall, number), Number: number,
		RequestID: c.GetRequestId(), Principal: c.GetPrincipal(), Spec: spec, State: model.DriverSubmitted,
		SubmittedWall: t.wall, SubmittedTick: t.tick, ChangeIndex: t.index,
	}
	t.meta.lastDriver = number
	t.addDriver(d)
	t.auditLine(c, "submit driver", string(d.ID))
	return Result{Driver: d.ID}
}

// placeDrivers judges each placement on its own against the state as the
// earlier ones have left it.
func (t *tx) placeDrivers(p *replogv1.PlaceDrivers) Result {
	res := Result{Placements: make([]PlacementVerdict, 0, len(p.GetPlacements()))}
	for _, pp := range p.GetPlacements() {
		res.Placements = append(res.Placements, t.placeDriver(DriverPlacementFromProto(pp)))
	}
	return res
}

func (t *tx) placeDriver(p model.DriverPlacement) PlacementVerdict {
	refuse := func(r model.Rejection, format string, args ...any) PlacementVerdict {
		return PlacementVerdict{Rejection: r, Text: model.TrimReason(fmt.Sprintf(format, args...))}
	}
	d, ok := t.findDriver(p.Driver)
	if !ok {
		return refuse(model.RejectUnknownDriver, "driver %q is not known", p.Driver)
	}
	w, ok := t.findWorker(p.Worker)
	if !ok {
		return refuse(model.RejectUnknownWorker, "worker %q is not registered", p.Worker)
	}
	placed := t.drivers.n - t.endedDrivers.n - t.waiting.n
	limit := t.meta.settings.MaxDrivers
	switch {
	case d.State.Terminal():
		return refuse(model.RejectDriverEnded, "driver %s is %s", d.ID, d.State)
	case !d.State.Queued():
		return refuse(model.RejectTransition, "driver %s is %s on worker %s", d.ID, d.State, d.Worker)
	case t.tick < d.BackoffUntil:
		return refuse(model.RejectBlocked, "driver %s is launched again in %d ms", d.ID, d.BackoffUntil-t.tick)
	case limit > 0 && placed >= limit:
		return refuse(model.RejectOverTarget, "%d drivers are placed, the limit is %d", placed, limit)
	case p.Secret == "" || len(p.Secret) > maxTokenBytes:
		return refuse(model.RejectInvalid, "driver %s: the secret has %d bytes, want 1 to %d", d.ID, len(p.Secret), maxTokenBytes)
	case d.Attempt >= maxExecutorID:
		return refuse(model.RejectOverTarget, "driver %s has used up its attempts", d.ID)
	}
	if over, cores, most := t.overDriverShare(d); over {
		return refuse(model.RejectOverCores, "drivers hold %d cores; %d more would pass their share of %d", cores, d.Spec.Cores, most)
	}
	prof := d.Spec.Profile()
	if r, why := t.checkWorker(w, prof, model.Placement{
		App: d.ID.Owner(), Worker: p.Worker, Incarnation: p.Incarnation, Cores: prof.Cores, MemoryMiB: prof.MemoryMiB, Resources: p.Resources,
	}); r != model.RejectNone {
		return refuse(r, "worker %s: %s", w.ID, why)
	}
	return PlacementVerdict{Executor: t.launchDriver(t.editDriver(d.Number), w, p)}
}

// launchDriver begins the next attempt, which fences those before it.
func (t *tx) launchDriver(d *model.Driver, w *model.Worker, p model.DriverPlacement) model.ExecutorID {
	d.Attempt++
	d.Worker, d.BackoffUntil = w.ID, 0
	if d.StartedWall == 0 {
		d.StartedWall = t.wall
	}
	t.endAppsOf(d, model.AppFailed, 1, fmt.Sprintf("its driver %s begins attempt %d", d.ID, d.Attempt))
	e := &model.Executor{
		App: d.ID.Owner(), ID: model.ExecutorID(d.Attempt), Worker: w.ID, Incarnation: w.Incarnation,
		Cores: d.Spec.Cores, MemoryMiB: d.Spec.MemoryMiB, Resources: p.Resources, Secret: p.Secret,
		State: model.ExecutorPlaced, ExitCode: -1,
		PlacedTick: t.tick, StateTick: t.tick, PlacedWall: t.wall, ChangeIndex: t.index,
	}
	t.addAttempt(d, e)
	t.setDriver(d, model.DriverRunning, "")
	t.meta.driverCursor = w.ID
	return e.ID
}

func (t *tx) killDriver(c *replogv1.Command, p *replogv1.KillDriver) Result {
	d, ok := t.findDriver(model.DriverID(p.GetDriver()))
	switch {
	case !ok:
		return reject(model.RejectUnknownDriver, "driver %q is not known", p.GetDriver())
	case c.GetOwnOnly() && c.GetPrincipal() != d.Principal:
		return reject(model.RejectNotOwner, "driver %s belongs to %s; %s may end only what it has submitted itself: ask %s or an operator",
			d.ID, d.Principal, c.GetPrincipal(), d.Principal)
	case d.State == model.DriverKilled || d.State == model.DriverKilling:
		return Result{Driver: d.ID, Repeated: true}
	case d.State.Terminal():
		return reject(model.RejectDriverEnded, "driver %s is %s already: %s", d.ID, d.State, d.Reason)
	}
	t.stopDriver(c, d, p.GetReason())
	return Result{Driver: d.ID}
}

func (t *tx) killDrivers(c *replogv1.Command, p *replogv1.KillDrivers) Result {
	for _, d := range t.drivers.collect(nil) {
		if !d.State.Terminal() && d.State != model.DriverKilling && (!c.GetOwnOnly() || c.GetPrincipal() == d.Principal) {
			t.stopDriver(c, d, p.GetReason())
		}
	}
	return Result{}
}

// expireDrivers ends drivers that have been there for longer than they may.
func (t *tx) expireDrivers(c *replogv1.Command, p *replogv1.ExpireDrivers) Result {
	for _, id := range p.GetDrivers() {
		d, ok := t.findDriver(model.DriverID(id))
		if !ok || d.State.Terminal() || d.State == model.DriverKilling || !d.Overtime(t.tick) {
			continue // it ended, or is about to, before the leader's word came here
		}
		t.auditLine(c, "expire driver", string(d.ID))
		t.halt(d, model.DriverFailed, exitTimedOut, fmt.Sprintf("ran longer than %s", model.FormatMilli(d.Spec.MaxRuntimeMilli)))
	}
	return Result{}
}

// stopDriver ends a driver on somebody's word.
func (t *tx) stopDriver(c *replogv1.Command, d *model.Driver, reason string) {
	if reason == "" {
		reason = "killed"
	}
	t.auditLine(c, "kill driver", string(d.ID))
	t.halt(d, model.DriverKilled, exitKilled, reason)
}

// halt ends a driver that waits as end, and has the process of another one ended;
// once that is gone the driver is what the exit code of its work says: see
// haltedAs.
func (t *tx) halt(d *model.Driver, end model.DriverState, exitCode int, reason string) {
	own := t.editDriver(d.Number)
	e, running := t.executors.get(attemptKey(d.Number, model.ExecutorID(d.Attempt)))
	if !running {
		t.concludeDriver(own, end, exitCode, reason)
		return
	}
	own.ExitCode = exitCode
	t.setDriver(own, model.DriverKilling, reason)
	if e.State.Live() {
		t.moveAttempt(own, e.ID, model.ExecutorKilling, reason)
	}
}

// haltedAs is what a driver in KILLING becomes when e, its process, is gone. Exit code
// 0 makes it FINISHED even so, unless its time was up.
func haltedAs(d *model.Driver, e *model.Executor) (model.DriverState, int) {
	switch {
	case d.ExitCode == exitTimedOut:
		return model.DriverFailed, exitTimedOut
	case obeyed(e):
		return model.DriverFinished, 0
	}
	return model.DriverKilled, exitKilled
}

// killAttempts is killExecutors for the present attempt of a driver: what the
// leader orders when it does not come up in time.
func (t *tx) killAttempts(c *replogv1.Command, p *replogv1.KillExecutors) Result {
	d, ok := t.findDriver(model.DriverID(p.GetApp()))
	if !ok {
		return reject(model.RejectUnknownDriver, "driver %q is not known", p.GetApp())
	}
	if c.GetRequestId() != "" || !p.GetFailedToStart() {
		return reject(model.RejectInvalid, "an attempt of driver %s cannot be ended by itself: kill the driver", d.ID)
	}
	for _, id := range p.GetExecutors() {
		e, _, alive := t.presentAttempt(d.ID.Ref(int(id)))
		if !alive || !e.State.Live() {
			continue
		}
		t.moveAttempt(d, e.ID, model.ExecutorKilling, p.GetReason()).Cause = model.CauseStart
		t.auditLine(c, "kill executor", e.Ref().String())
	}
	return Result{}
}

// reportAttempt applies what a worker says of a driver's process that it holds;
// what is late, illegal or of an older attempt changes nothing.
func (t *tx) reportAttempt(id model.WorkerID, incarnation uint64, rep model.ExecutorReport) {
	e, d, ok := t.presentAttempt(rep.Ref)
	if !ok || e.Worker != id || e.Incarnation != incarnation {
		return
	}
	if rep.State.Terminal() {
		t.endAttempt(d, e.ID, endingOf(e, rep), true)
		return
	}
	reported := rep.State == model.ExecutorLaunching || rep.State == model.ExecutorRunning || rep.State == model.ExecutorStuck
	if reported && rep.PID > 0 && e.PID != rep.PID {
		t.editAttempt(d, e.ID).PID = rep.PID
	}
	switch {
	case reported && e.State.CanBecome(rep.State):
		moved := t.moveAttempt(d, e.ID, rep.State, rep.Reason)
		if rep.State == model.ExecutorRunning {
			moved.Reason = model.TrimReason(rep.Reason) // it waits for its artifacts no more
		}
	case rep.State == model.ExecutorLaunching && e.State == rep.State && rep.Reason != "" && rep.Reason != e.Reason &&
		t.tick-e.PlacedTick <= model.MaxFetchMilli:
		// It gets on: another part of its artifacts has come, so the time in which it
		// must come up begins anew.
		t.moveAttempt(d, e.ID, rep.State, rep.Reason)
	}
}

// takeAttempt compares an attempt that the state says runs on a worker with
// what the worker says in its Hello.
func (t *tx) takeAttempt(e *model.Executor, incarnation uint64, rep model.ExecutorReport, found bool) {
	_, d, ok := t.presentAttempt(e.Ref())
	switch {
	case !ok:
	case found:
		if e.Incarnation != incarnation {
			t.editAttempt(d, e.ID).Incarnation = incarnation
		}
		t.reportAttempt(e.Worker, incarnation, rep)
	case e.Incarnation != incarnation:
		t.loseAttempt(e, "its worker came back without it", true)
	case e.State != model.ExecutorPlaced:
		t.loseAttempt(e, "its worker no longer has it", true)
	}
}

// loseAttempt ends a driver's process through no fault of its own.
func (t *tx) loseAttempt(e *model.Executor, reason string, proved bool) {
	if _, d, ok := t.presentAttempt(e.Ref()); ok {
		t.endAttempt(d, e.ID, ending{state: model.ExecutorLost, cause: model.CauseInfra, exitCode: -1, reason: reason}, proved)
	}
}

// readopt takes back an attempt that was given up because its worker went
// silent, and that the worker brings along before the next one has begun: it runs
// on, or has ended meanwhile as the worker says.
func (t *tx) readopt(id model.WorkerID, incarnation uint64, rep model.ExecutorReport) {
	d, ok := t.findDriver(model.DriverID(rep.Ref.App))
	if !ok || !mayComeBack(d) || rep.Ref != d.Ref() {
		return
	}
	old := d.Finished[len(d.Finished)-1]
	w, ok := t.findWorker(id)
	if !ok || old.Worker != id {
		return
	}
	with := t.usedOn(id).Clone()
	charge(&with, old)
	if !rep.State.Terminal() && (!holds(w.Offer, with) || sharesAddress(t.usedOn(id).Resources, old.Resources)) {
		return // its place is taken: it is ended as a stranger
	}
	own := t.editDriver(d.Number)
	own.Finished = own.Finished[:len(own.Finished)-1]
	own.BackoffUntil = 0
	e := old.Clone()
	e.Incarnation, e.State, e.StateTick, e.EndedWall, e.Cause, e.Reason = incarnation, model.ExecutorLaunching, t.tick, 0, model.CauseNone, ""
	e.ChangeIndex = t.index
	t.addAttempt(own, e)
	t.setDriver(own, model.DriverRunning, "")
	t.reportAttempt(id, incarnation, rep)
}

// stopWaitingFor ends the wait of drivers whose last attempt might have lived on on
// a worker, which is back without it.
func (t *tx) stopWaitingFor(id model.WorkerID, has map[model.ExecutorRef]model.ExecutorReport) {
	var back []*model.Driver
	t.waiting.walkPrefix(nil, func(key string, _ struct{}) bool {
		d, ok := t.drivers.get([]byte(key))
		if !ok || d.BackoffUntil <= t.tick || !mayComeBack(d) || d.Finished[len(d.Finished)-1].Worker != id {
			return true
		}
		if _, brought := has[d.Ref()]; !brought {
			back = append(back, d)
		}
		return true
	})
	for _, d := range back {
		t.relaunch(t.editDriver(d.Number), d.Finished[len(d.Finished)-1], t.tick)
	}
}

// mayComeBack reports whether the last attempt of a driver was given up, nothing has
// followed it, and its worker may still bring it along.
func mayComeBack(d *model.Driver) bool {
	if d.State != model.DriverRelaunching || len(d.Finished) == 0 || d.Spec.Disconnect.Singleton() {
		return false
	}
	last := d.Finished[len(d.Finished)-1]
	return last.Ref() == d.Ref() && last.State == model.ExecutorLost
}

func sharesAddress(used, want model.Resources) bool {
	for name, addrs := range want {
		for _, a := range used[name] {
			if slices.Contains(addrs, a) {
				return true
			}
		}
	}
	return false
}
