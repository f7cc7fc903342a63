package masterd

import (
	"fmt"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
)

// launchSpec is the description of the process that an executor record stands
// for: of its application, or of its driver in cluster mode.
func launchSpec(v *fsm.View, e *model.Executor) (model.AppSpec, bool) {
	if model.IsDriver(e.App) {
		d, ok := v.Driver(model.DriverID(e.App))
		if !ok {
			return model.AppSpec{}, false
		}
		return d.Spec.Launch(), true
	}
	a, ok := v.App(e.App)
	if !ok {
		return model.AppSpec{}, false
	}
	return a.Spec, true
}

// driverActive reports whether the owner of processes is a driver that has not
// ended.
func driverActive(v *fsm.View, owner model.AppID) bool {
	d, ok := v.Driver(model.DriverID(owner))
	return ok && !d.State.Terminal()
}

// driverViews lists drivers: those that have not ended in order of submission,
// then, if asked for, ended ones, the newest first.
func driverViews(v *fsm.View, ended bool) []model.DriverView {
	out := []model.DriverView{}
	place := 0
	v.ActiveDrivers(func(d *model.Driver) bool {
		view := driverView(v, d)
		if d.State.Queued() {
			place++
			view.QueuePosition = place
		}
		out = append(out, view)
		return true
	})
	if ended {
		v.EndedDrivers(func(d *model.Driver) bool {
			out = append(out, driverView(v, d))
			return true
		})
	}
	return out
}

// driverView describes a driver without its attempts and place in the queue.
func driverView(v *fsm.View, d *model.Driver) model.DriverView {
	view := model.DriverView{
		Version: model.ViewVersion, ID: d.ID, Name: d.Spec.Name, User: d.Spec.User,
		State: d.State, Active: !d.State.Terminal(), Terminal: d.State.Terminal(), Reason: d.Reason, ExitCode: d.ExitCode,
		Attempt: d.Attempt, Worker: d.Worker, Cores: d.Spec.Cores, MemoryMiB: d.Spec.MemoryMiB, Resources: d.Spec.Resources,
		Supervise: d.Spec.Supervise, Disconnect: string(d.Spec.Disconnect.Effective()), Failures: len(d.Failures),
		MaxRuntimeMilli: d.Spec.MaxRuntimeMilli,
		Command:         model.Redact(d.Spec.Command.Argv),
		SubmittedAt:     model.RFC3339(d.SubmittedWall), StartedAt: model.RFC3339(d.StartedWall), EndedAt: model.RFC3339(d.EndedWall),
		Apps: []model.AppID{}, ChangeIndex: d.ChangeIndex,
	}
	if view.Resources == nil {
		view.Resources = map[string]int{}
	}
	if d.State.Queued() && d.BackoffUntil > v.Tick() {
		view.BackoffLeft = d.BackoffUntil - v.Tick()
	}
	v.DriverApps(d.ID, func(a *model.App) bool {
		view.Apps = append(view.Apps, a.ID)
		return true
	})
	return view
}

// driverDetail describes a driver with its attempts, by number.
func driverDetail(v *fsm.View, d *model.Driver) model.DriverView {
	view := driverView(v, d)
	if d.State.Queued() {
		v.QueuedDrivers(func(q *model.Driver) bool {
			view.QueuePosition++
			return q.Number != d.Number
		})
	}
	view.Attempts = []model.ExecutorView{}
	for _, e := range d.Finished {
		view.Attempts = append(view.Attempts, executorView(e))
	}
	if e, ok := v.Attempt(d); ok {
		view.Attempts = append(view.Attempts, executorView(e))
	}
	return view
}

// findDriver resolves a whole id or a unique prefix.
func findDriver(v *fsm.View, id string) (*model.Driver, error) {
	if d, ok := v.Driver(model.DriverID(id)); ok {
		return d, nil
	}
	ids := v.DriverByPrefix(id)
	switch {
	case id == "" || len(ids) == 0:
		return nil, fmt.Errorf("%w: driver %q", model.ErrNotFound, id)
	case len(ids) > 1:
		return nil, fmt.Errorf("%w: %q fits %d drivers, among them %s and %s: give more of the id", model.ErrInvalid, id, len(ids), ids[0], ids[1])
	}
	d, ok := v.Driver(ids[0])
	if !ok {
		return nil, fmt.Errorf("%w: driver %q", model.ErrNotFound, id)
	}
	return d, nil
}
