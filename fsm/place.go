package fsm

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// placeExecutors judges each placement on its own against the state as the
// earlier ones have left it, and those of a gang together.
func (t *tx) placeExecutors(p *replogv1.PlaceExecutors) Result {
	list := p.GetPlacements()
	res := Result{Placements: make([]PlacementVerdict, 0, len(list))}
	if by := p.GetRegisteredBy(); by != "" && !t.allRegisteredBy(by, list) {
		for range list {
			res.Placements = append(res.Placements, PlacementVerdict{
				Rejection: model.RejectUnknownApp, Text: "planned for an application that has not been registered",
			})
		}
		return res
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[0].GetGang() != 0 && list[n].GetGang() == list[0].GetGang() {
			n++
		}
		if list[0].GetGang() != 0 {
			res.Placements = append(res.Placements, t.placeGang(list[:n])...)
		} else {
			res.Placements = append(res.Placements, t.place(PlacementFromProto(list[0]), 1))
		}
		list = list[n:]
	}
	return res
}

// allRegisteredBy reports whether the placements are for the application that a
// request has registered: they were planned when its number was a guess.
func (t *tx) allRegisteredBy(request string, list []*replogv1.Placement) bool {
	return !slices.ContainsFunc(list, func(p *replogv1.Placement) bool {
		a, ok := t.findApp(model.AppID(p.GetApp()))
		return !ok || a.RequestID != request
	})
}

// place places one executor; together is how many of a gang, itself included,
// are placed by this command.
func (t *tx) place(p model.Placement, together int) PlacementVerdict {
	refuse := func(r model.Rejection, format string, args ...any) PlacementVerdict {
		return PlacementVerdict{Rejection: r, Text: model.TrimReason(fmt.Sprintf(format, args...))}
	}
	a, ok := t.findApp(p.App)
	if !ok {
		return refuse(model.RejectUnknownApp, "application %q is not known", p.App)
	}
	w, ok := t.findWorker(p.Worker)
	if !ok {
		return refuse(model.RejectUnknownWorker, "worker %q is not registered", p.Worker)
	}
	if r, why := t.checkApp(a, p, together); r != model.RejectNone {
		return refuse(r, "application %s: %s", a.ID, why)
	}
	if !model.HasLabels(w, a.Spec.Require) {
		return refuse(model.RejectDoesNotFit, "worker %s has not all labels that application %s requires", w.ID, a.ID)
	}
	if r, why := t.checkWorker(w, a.Profiles[p.Profile], p); r != model.RejectNone {
		return refuse(r, "worker %s: %s", w.ID, why)
	}
	app := t.editApp(a.Number)
	e := &model.Executor{
		App: app.ID, ID: app.NextExecutor, Profile: p.Profile, Worker: w.ID, Incarnation: w.Incarnation,
		Cores: p.Cores, MemoryMiB: p.MemoryMiB, Resources: p.Resources, Secret: p.Secret,
		State: model.ExecutorPlaced, ExitCode: -1,
		PlacedTick: t.tick, StateTick: t.tick, PlacedWall: t.wall, ChangeIndex: t.index,
	}
	app.NextExecutor++
	if app.State == model.AppWaiting {
		app.State, app.StartedWall = model.AppRunning, t.wall
	}
	t.addExecutor(app, e)
	return PlacementVerdict{Executor: e.ID}
}

// checkApp says whether the application may have this executor.
func (t *tx) checkApp(a *model.App, p model.Placement, together int) (model.Rejection, string) {
	prof, known := a.Profiles[p.Profile]
	switch {
	case a.State.Terminal():
		return model.RejectAppEnded, fmt.Sprintf("it is %s", a.State)
	case !known:
		return model.RejectInvalid, fmt.Sprintf("profile %d is not known", p.Profile)
	case p.Cores < 1 || p.Cores > model.MaxCores || (prof.Cores > 0 && p.Cores != prof.Cores) || p.MemoryMiB != prof.MemoryMiB:
		return model.RejectInvalid, fmt.Sprintf("%d cores and %d MiB are not the size of profile %d", p.Cores, p.MemoryMiB, p.Profile)
	case p.Secret == "" || len(p.Secret) > maxTokenBytes:
		return model.RejectInvalid, fmt.Sprintf("the secret has %d bytes, want 1 to %d", len(p.Secret), maxTokenBytes)
	case blocked(a, t.tick):
		return model.RejectBlocked, fmt.Sprintf("it backs off for another %d ms", a.BackoffUntil-t.tick)
	case excluded(a, p.Worker, t.tick):
		return model.RejectBlocked, fmt.Sprintf("it stays off worker %s after its failures there", p.Worker)
	case a.Live[p.Profile] >= model.Wanted(a, p.Profile):
		return model.RejectOverTarget, fmt.Sprintf("it has %d executors of profile %d and wants %d", a.Live[p.Profile], p.Profile, model.Wanted(a, p.Profile))
	case a.NextExecutor >= maxExecutorID:
		return model.RejectOverTarget, "it has used up its executor ids"
	}
	if limit := model.CoresLimit(a, *t.meta.settings); limit > 0 && model.CoresCounted(a)+p.Cores > limit {
		return model.RejectOverCores, fmt.Sprintf("it holds %d cores; %d more would pass its limit of %d", a.CoresGranted, p.Cores, limit)
	}
	if r, why := t.checkCaps(a, p.Cores); r != model.RejectNone {
		return r, why
	}
	if need := model.GangNeeds(a); p.Profile == model.ProfileDefault && need > together {
		return model.RejectGang, fmt.Sprintf("%d executors are missing of its gang of %d; %d are placed together", need, a.Spec.MinExecutors, together)
	}
	return model.RejectNone, ""
}

// checkCaps says whether the application's queue and user may hold more cores.
func (t *tx) checkCaps(a *model.App, cores int) (model.Rejection, string) {
	s := t.meta.settings
	if !countsHeld(s) {
		return model.RejectNone, ""
	}
	q := s.Queue(a.Spec.QueueName())
	if held, _ := t.held.get([]byte(queueKey(q.Name))); q.CapCores > 0 && held+cores > q.CapCores {
		return model.RejectOverCores, fmt.Sprintf("queue %s holds %d cores; %d more would pass its cap of %d", q.Name, held, cores, q.CapCores)
	}
	user := model.AppUser(a)
	if held, _ := t.held.get([]byte(userKey(user))); s.UserCores > 0 && held+cores > s.UserCores {
		return model.RejectOverCores, fmt.Sprintf("user %q holds %d cores; %d more would pass the cap of %d", user, held, cores, s.UserCores)
	}
	return model.RejectNone, ""
}

// maxExecutorID keeps executor ids within what the log can carry.
const maxExecutorID = 1<<31 - 1

// checkWorker says whether the worker can hold the executor now.
func (t *tx) checkWorker(w *model.Worker, prof model.Profile, p model.Placement) (model.Rejection, string) {
	return judgeWorker(w, t.usedOn(w.ID), prof, p)
}

// judgeWorker is checkWorker beside a usage.
func judgeWorker(w *model.Worker, used model.Usage, prof model.Profile, p model.Placement) (model.Rejection, string) {
	switch {
	case w.State != model.WorkerAlive:
		return model.RejectWorkerNotAlive, fmt.Sprintf("it is %s", w.State)
	case w.Incarnation != p.Incarnation:
		return model.RejectIncarnation, fmt.Sprintf("it is in incarnation %d, not %d", w.Incarnation, p.Incarnation)
	case w.Overcommitted:
		return model.RejectDoesNotFit, "its executors hold more than it offers since its offer was lowered"
	}
	if !model.Fits(model.FreeOf(w.Offer, used), p.Cores, p.MemoryMiB, prof.Resources) {
		return model.RejectDoesNotFit, fmt.Sprintf("%d cores and %d MiB are in use of %d and %d", used.Cores, used.MemoryMiB, w.Offer.Cores, w.Offer.MemoryMiB)
	}
	if len(p.Resources) != len(prof.Resources) {
		return model.RejectInvalid, fmt.Sprintf("addresses of %d resources are given, the profile needs %d", len(p.Resources), len(prof.Resources))
	}
	for _, name := range sortedKeys(prof.Resources) {
		addrs := p.Resources[name]
		if len(addrs) != prof.Resources[name] {
			return model.RejectInvalid, fmt.Sprintf("%d addresses of %s are given, the profile needs %d", len(addrs), name, prof.Resources[name])
		}
		if bad, ok := firstTaken(w.Offer.Resources[name], used.Resources[name], addrs); ok {
			return model.RejectDoesNotFit, fmt.Sprintf("%s %q is not offered or not free", name, bad)
		}
	}
	return model.RejectNone, ""
}

// firstTaken finds an address that is not offered, in use, or asked for twice.
func firstTaken(offered, used, want []string) (string, bool) {
	free := make(map[string]bool, len(offered))
	for _, a := range offered {
		free[a] = true
	}
	for _, a := range used {
		delete(free, a)
	}
	for _, a := range want {
		if !free[a] {
			return a, true
		}
		delete(free, a)
	}
	return "", false
}
