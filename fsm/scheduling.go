package fsm

import "github.com/hearthd/hearth/model"

// Scheduling is what the scheduler sees of a View at one point of the cluster
// clock: flags instead of times. It is immutable.
type Scheduling struct {
	s    *state
	tick int64
}

// Settings are the scheduler's settings.
func (v *Scheduling) Settings() model.Settings { return *v.s.meta.settings }

// SchedulableWorkers visits, by id, the workers that may get new executors,
// with what is in use there, until visit returns false. They are ALIVE and
// hold no more than they offer.
func (v *Scheduling) SchedulableWorkers(visit func(w *model.Worker, used model.Usage) bool) {
	v.s.workers.walk(nil, func(w *model.Worker) bool { return !schedulable(w) || visit(w, v.s.used(w.ID)) })
}

// SchedulableWorker finds one of them.
func (v *Scheduling) SchedulableWorker(id model.WorkerID) (w *model.Worker, used model.Usage, ok bool) {
	w, ok = v.s.worker(id)
	if !ok || !schedulable(w) {
		return nil, model.Usage{}, false
	}
	return w, v.s.used(id), true
}

func schedulable(w *model.Worker) bool { return w.State == model.WorkerAlive && !w.Overcommitted }

// ActiveApps visits the applications that have not ended, in order of
// registration, until visit returns false.
func (v *Scheduling) ActiveApps(visit func(a *model.App) bool) { (&View{s: v.s}).ActiveApps(visit) }

// ActiveApp finds one of them.
func (v *Scheduling) ActiveApp(id model.AppID) (*model.App, bool) {
	a, ok := v.s.app(id)
	return a, ok && !a.State.Terminal()
}

// AppBlocked reports whether the application's back-off is running.
func (v *Scheduling) AppBlocked(app model.AppID) bool {
	a, ok := v.s.app(app)
	return ok && blocked(a, v.tick)
}

// Excluded reports whether the application must not use the worker for now.
func (v *Scheduling) Excluded(app model.AppID, w model.WorkerID) bool {
	a, ok := v.s.app(app)
	return ok && excluded(a, w, v.tick)
}

// QueueCores are the cores that count against the cap of a queue.
func (v *Scheduling) QueueCores(queue string) int { return v.s.heldCores(queueKey(queue)) }

// UserCores are the cores that count against the cap of a user.
func (v *Scheduling) UserCores(user string) int { return v.s.heldCores(userKey(user)) }

// DueGangs visits the gangs without any executor that have waited for as long
// as the settings say, in order of registration, until visit returns false.
func (v *Scheduling) DueGangs(visit func(a *model.App) bool) {
	v.ActiveApps(func(a *model.App) bool {
		due := gangDue(a, v.s.meta.settings)
		return due == 0 || due > v.tick || blocked(a, v.tick) || visit(a)
	})
}

// gangDue is the tick from which on cores are kept for the application; 0 =
// never.
func gangDue(a *model.App, s *model.Settings) int64 {
	if s.GangAfterMilli == 0 || a.State != model.AppWaiting || model.GangNeeds(a) == 0 {
		return 0
	}
	return a.SubmittedTick + s.GangAfterMilli
}

// DriverCores are the cores of the drivers that are placed, and how many all of
// them may hold together; both 0 where Settings.DriverShareMilli sets no limit.
func (v *Scheduling) DriverCores() (cores, most int) {
	if v.s.meta.settings.DriverShareMilli == 0 {
		return 0, 0
	}
	return v.s.sums.driverCores, maxDriverCores(v.s.meta.settings, v.s.sums.offered)
}

// NextWake is the next tick at which a flag changes by time alone; 0 = none.
func (v *Scheduling) NextWake() int64 {
	next := v.nextDriverWake()
	v.ActiveApps(func(a *model.App) bool {
		next = sooner(next, v.nextWake(a))
		return true
	})
	return next
}

// NextWakeOf is NextWake for the flags of one application or driver.
func (v *Scheduling) NextWakeOf(id model.AppID) int64 {
	if d, ok := v.s.driver(model.DriverID(id)); ok && d.State.Queued() && d.BackoffUntil > v.tick {
		return d.BackoffUntil
	}
	a, ok := v.ActiveApp(id)
	if !ok {
		return 0
	}
	return v.nextWake(a)
}

func (v *Scheduling) nextWake(a *model.App) int64 {
	var next int64
	if a.BackoffUntil > v.tick {
		next = a.BackoffUntil
	}
	for _, x := range a.Excluded {
		if x.UntilTick > v.tick {
			next = sooner(next, x.UntilTick)
		}
	}
	if due := gangDue(a, v.s.meta.settings); due > v.tick {
		next = sooner(next, due)
	}
	return next
}

// sooner is the earlier of two ticks, of which 0 is none.
func sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func blocked(a *model.App, tick int64) bool { return tick < a.BackoffUntil }

func excluded(a *model.App, w model.WorkerID, tick int64) bool {
	for _, x := range a.Excluded {
		if x.Worker == w && tick < x.UntilTick {
			return true
		}
	}
	return false
}
