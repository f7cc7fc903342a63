package why

import (
	"cmp"
	"fmt"

	"github.com/hearthd/hearth/model"
)

// waitingDrivers makes the line of drivers, once.
func (x *Explainer) waitingDrivers() *line {
	if x.driverQueue != nil {
		return x.driverQueue
	}
	x.driverQueue = newLine()
	x.v.QueuedDrivers(func(d *model.Driver) bool {
		x.drivers = append(x.drivers, d)
		h := model.WhyHolder{ID: string(d.ID), Name: d.Spec.Name, User: d.Spec.User, Amount: 1}
		x.driverQueue.add(h, d.BackoffUntil <= x.v.Tick())
		return true
	})
	return x.driverQueue
}

// Driver explains one driver in cluster mode. The fields Version and Staleness
// are left to the caller.
func (x *Explainer) Driver(d *model.Driver) model.Why {
	out := model.Why{
		ID: string(d.ID), Kind: model.WhyDriver, Name: d.Spec.Name, User: d.Spec.User, State: string(d.State),
		Reasons: []model.WhyReason{}, Wanted: 1, SubmittedAt: model.RFC3339(d.SubmittedWall),
	}
	switch {
	case d.State.Terminal():
		out.Text = fmt.Sprintf("%s: %s", d.State, cmp.Or(d.Reason, "it has ended"))
		return out
	case d.State.Queued():
		out.Waiting = true
		out.AgeMilli = max(0, x.v.Tick()-driverSince(d))
		return finish(out, x.queued(d))
	}
	out.Live, out.Cores = 1, d.Spec.Cores
	return finish(out, x.process(d))
}

// driverSince is when a driver began to wait.
func driverSince(d *model.Driver) int64 {
	since := d.SubmittedTick
	for _, e := range d.Finished {
		since = max(since, e.StateTick)
	}
	return since
}

// process says how far the process of a driver is that has a place.
func (x *Explainer) process(d *model.Driver) []model.WhyReason {
	e, ok := x.v.Attempt(d)
	if !ok {
		return nil
	}
	at := model.WhyReason{Workers: 1, WorkerIDs: []model.WorkerID{e.Worker}, Have: 1}
	switch e.State {
	case model.ExecutorPlaced, model.ExecutorLaunching:
		at.Code, at.Text = model.WhyStarting, fmt.Sprintf("it is starting on %s", e.Worker)
	case model.ExecutorKilling, model.ExecutorStuck:
		at.Code, at.Text = model.WhyEnding, fmt.Sprintf("its process on %s is being ended (%s)", e.Worker, e.State)
	case model.ExecutorRunning, model.ExecutorDecommissioning,
		model.ExecutorExited, model.ExecutorFailed, model.ExecutorKilled, model.ExecutorLost:
		return nil
	}
	return []model.WhyReason{at}
}

func (x *Explainer) queued(d *model.Driver) []model.WhyReason {
	var out []model.WhyReason
	if x.opt.NoLeader {
		out = append(out, model.WhyReason{Code: model.WhyNoLeader, Text: textNoLeader})
	}
	if left := d.BackoffUntil - x.v.Tick(); left > 0 {
		out = append(out, model.WhyReason{
			Code: model.WhyBackoff, LeftMilli: left,
			Text: fmt.Sprintf("is launched again in %s: %s", seconds(left), cmp.Or(d.Reason, "its last attempt has ended")),
		})
	}
	if len(out) > 0 {
		return out
	}
	ahead := x.waitingDrivers().ahead(string(d.ID), "driver")
	n := needOfDriver(d)
	if out = x.driverLimits(&n); len(out) > 0 {
		return append(out, ahead...)
	}
	room, out := x.place(&n, nil)
	switch {
	case room:
		return x.next(string(d.ID), ahead, out)
	case lists(out, false):
		return append(out, ahead...)
	}
	return out
}

// driverLimits explains the limits for all drivers together.
func (x *Explainer) driverLimits(n *need) []model.WhyReason {
	var out []model.WhyReason
	if most, placed := x.settings.MaxDrivers, x.v.PlacedDrivers(); most > 0 && placed >= most {
		out = append(out, model.WhyReason{
			Code: model.WhyMaxDrivers, Need: 1, Have: int64(placed), Missing: int64(placed - most + 1), Limit: int64(most),
			Text: fmt.Sprintf("%s placed; max_drivers is %d", isAre(placed, "driver"), most),
		})
	}
	if x.settings.DriverShareMilli == 0 {
		return out
	}
	if cores, most := x.v.DriverCores(); cores+n.cores > most {
		out = append(out, model.WhyReason{
			Code: model.WhyDriverShare, Resource: model.ResourceCores, Need: int64(n.cores), Have: int64(cores),
			Missing: int64(cores + n.cores - most), Limit: int64(most), Never: n.cores > most,
			Text: fmt.Sprintf("drivers hold %d of the %s that driver_share %s leaves them; it needs %d",
				cores, count(int64(most), "core"), model.FormatShare(x.settings.DriverShareMilli), n.cores),
		})
	}
	return out
}
