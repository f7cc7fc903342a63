package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hearthd/hearth/model"
)

// want is a profile of which an application has fewer executors than it wants.
type want struct {
	profile      int
	size         model.Profile
	live, wanted int
}

// wants lists them by ascending profile.
func wants(a *model.App) []want {
	var out []want
	for id, p := range a.Profiles {
		if live, wanted := a.Live[id], model.Wanted(a, id); live < wanted {
			out = append(out, want{profile: id, size: p, live: live, wanted: wanted})
		}
	}
	slices.SortFunc(out, func(a, b want) int { return cmp.Compare(a.profile, b.profile) })
	return out
}

// coresLeft is how many more cores the application may hold; math.MaxInt = no
// limit.
func (x *Explainer) coresLeft(a *model.App) int {
	limit := model.CoresLimit(a, x.settings)
	if limit == 0 {
		return math.MaxInt
	}
	return limit - model.CoresCounted(a)
}

// capped reports whether the application's own limit leaves no room for what a
// profile wants.
func (w *want) capped(left int) bool { return left < max(w.size.Cores, 1) }

// waits reports whether an application wants something that it has not got. One
// that takes whatever is free waits for its first executor only, or, if it has
// a limit, until that is reached.
func (x *Explainer) waits(a *model.App) bool {
	left, live := x.coresLeft(a), 0
	for _, n := range a.Live {
		live += n
	}
	for _, w := range wants(a) {
		switch {
		case live == 0:
			return true
		case w.capped(left):
		case left < math.MaxInt || w.wanted < model.MaxExecutors:
			return true
		}
	}
	return false
}

// App explains one application. The fields Version and Staleness are left to
// the caller.
func (x *Explainer) App(a *model.App) model.Why {
	out := model.Why{
		ID: string(a.ID), Kind: model.WhyApp, Name: a.Spec.Name, User: a.Spec.User, State: string(a.State),
		Reasons: []model.WhyReason{}, Cores: a.CoresGranted, SubmittedAt: model.RFC3339(a.SubmittedWall),
	}
	out.Wanted, out.Live = totals(a)
	if a.State.Terminal() {
		out.Text = fmt.Sprintf("%s: %s", a.State, cmp.Or(a.Reason, "it has ended"))
		return out
	}
	out.Waiting = x.waits(a)
	if out.Waiting {
		out.AgeMilli = max(0, x.v.Tick()-waitingSince(a))
	}
	reasons := x.overall(a)
	if len(reasons) == 0 {
		for _, w := range wants(a) {
			if len(reasons) < maxReasons {
				reasons = append(reasons, x.profile(a, &w)...)
			}
		}
	}
	if !out.Waiting {
		reasons = append(reasons, x.starting(a)...)
	}
	return finish(out, reasons)
}

// finish bounds the reasons and sums them up.
func finish(out model.Why, reasons []model.WhyReason) model.Why {
	if len(reasons) > maxReasons {
		reasons = reasons[:maxReasons]
	}
	for i := range reasons {
		r := &reasons[i]
		if r.Holders == nil {
			r.Holders = []model.WhyHolder{}
		}
		if r.WorkerIDs == nil {
			r.WorkerIDs = []model.WorkerID{}
		}
		r.Text = model.TrimReason(r.Text)
		out.Reasons = append(out.Reasons, *r)
	}
	out.Never = out.Waiting && len(reasons) > 0 && !slices.ContainsFunc(reasons, func(r model.WhyReason) bool { return !r.Never })
	out.Text = model.TrimReason(join(reasons))
	return out
}

// totals sum up the targets; -1 = as many as fit.
func totals(a *model.App) (wanted, live int) {
	for id := range a.Profiles {
		n := model.Wanted(a, id)
		if n >= model.MaxExecutors {
			wanted = model.TargetUnlimited
		}
		if wanted != model.TargetUnlimited {
			wanted += n
		}
		live += a.Live[id]
	}
	return wanted, live
}

// waitingSince is when an application began to wait for what it has not got:
// when it was submitted, or when it last lost an executor.
func waitingSince(a *model.App) int64 {
	since := a.SubmittedTick
	for _, e := range a.Finished {
		since = max(since, e.StateTick)
	}
	return since
}

// overall lists what keeps everything of an application waiting; if there is
// such a thing, the rest does not matter.
func (x *Explainer) overall(a *model.App) []model.WhyReason {
	var out []model.WhyReason
	if len(wants(a)) == 0 {
		return nil
	}
	if x.opt.NoLeader {
		out = append(out, model.WhyReason{Code: model.WhyNoLeader, Text: "no master leads, so nothing is placed"})
	}
	if a.Reason != "" { // an active application has one only while it is left alone
		out = append(out, model.WhyReason{Code: model.WhyQuarantine, Text: a.Reason})
	}
	if x.v.AppBlocked(a.ID) {
		left := max(0, a.BackoffUntil-x.v.Tick())
		out = append(out, model.WhyReason{Code: model.WhyBackoff, LeftMilli: left, Text: textBackoff(a, left)})
	}
	return out
}

func textBackoff(a *model.App, left int64) string {
	if n := len(a.Failures); n > 0 {
		return fmt.Sprintf("pauses for another %s after %s within %s", seconds(left), count(int64(n), "failure"), model.FormatMilli(model.FailureWindowMilli))
	}
	return fmt.Sprintf("pauses for another %s after an executor has ended", seconds(left))
}

// profile explains why one profile gets nothing more.
func (x *Explainer) profile(a *model.App, w *want) []model.WhyReason {
	out := x.place(a, w)
	for i := range out {
		out[i].Profile = w.profile
	}
	return out
}

func (x *Explainer) place(a *model.App, w *want) []model.WhyReason {
	if r, ok := x.ownLimit(a, w); ok {
		return r
	}
	n := needOf(&w.size)
	fit := x.fit(n)
	if len(a.Excluded) > 0 { // it sees other workers than everybody else
		fit = &fitting{need: n, ever: fit.ever}
	}
	if !fit.judged {
		fit.judged = true
		fit.room, fit.reasons = x.judge(a, fit)
	}
	if fit.room {
		return slices.Clone(fit.reasons)
	}
	return slices.Concat(fit.reasons, x.ahead(a))
}

// judge says whether there is room, or why there is not, for one size.
func (x *Explainer) judge(a *model.App, f *fitting) (room bool, reasons []model.WhyReason) {
	open, others := x.candidates(a, f)
	if len(open) == 0 {
		return false, others
	}
	for _, i := range open {
		if f.need.fits(x.workers[i].free) {
			return true, []model.WhyReason{{
				Code: model.WhyNext, Workers: 1, WorkerIDs: []model.WorkerID{x.workers[i].rec.ID},
				Text: fmt.Sprintf("there is room on worker %s; the next pass of the scheduler uses it", x.workers[i].rec.ID),
			}}
		}
	}
	return false, slices.Concat(x.busy(&f.need, open), x.leftOver(&f.need, open), others)
}

// ownLimit explains a limit of cores that leaves no room, and who holds them.
func (x *Explainer) ownLimit(a *model.App, w *want) ([]model.WhyReason, bool) {
	left := x.coresLeft(a)
	if !w.capped(left) {
		return nil, false
	}
	step, limit := max(w.size.Cores, 1), model.CoresLimit(a, x.settings)
	r := model.WhyReason{
		Code: model.WhyCoresMax, Resource: model.ResourceCores, Need: int64(step), Have: int64(a.CoresGranted),
		Missing: int64(step - left), Limit: int64(limit), Never: true,
	}
	name := "its own limit"
	if a.Spec.CoresMax == 0 {
		r.Code, name = model.WhyDefaultCores, "the limit default_cores of the cluster"
	}
	r.Text = fmt.Sprintf("holds %d of at most %s (%s)", a.CoresGranted, count(int64(limit), "core"), name)
	out := []model.WhyReason{r}
	if step > limit {
		out[0].Text = fmt.Sprintf("needs %s per executor; %s allows %d", count(int64(step), "core"), name, limit)
		return out, true
	}
	if left > 0 {
		out = append(out, model.WhyReason{
			Code: model.WhyLeftOver, Resource: model.ResourceCores, Need: int64(step), Have: int64(left), Never: true,
			Text: fmt.Sprintf("%s can't be used: executor needs %d", count(int64(left), "core"), step),
		})
	}
	if e := x.ending(a); len(e) > 0 {
		out[0].Never = false
		out = append(out, e...)
	}
	return out, true
}

// ending lists what still holds the application's cores though it is being
// ended.
func (x *Explainer) ending(a *model.App) []model.WhyReason {
	r := model.WhyReason{Code: model.WhyEnding, Resource: model.ResourceCores}
	n, stuck := 0, 0
	x.v.ExecutorsOf(a.ID, func(e *model.Executor) bool {
		if !e.State.Live() {
			n++
			r.Have += int64(e.Cores)
			if e.State == model.ExecutorStuck {
				stuck++
			}
			if len(r.WorkerIDs) < maxNamed && !slices.Contains(r.WorkerIDs, e.Worker) {
				r.WorkerIDs = append(r.WorkerIDs, e.Worker)
			}
		}
		return true
	})
	if n == 0 {
		return nil
	}
	r.Workers = len(r.WorkerIDs)
	r.Text = fmt.Sprintf("%s of it are still held by %s being ended", count(r.Have, "core"), count(int64(n), "executor"))
	if stuck > 0 {
		r.Text += fmt.Sprintf(", %d of them %s", stuck, model.ExecutorStuck)
	}
	return []model.WhyReason{r}
}

// starting says which executors have a place and are not up.
func (x *Explainer) starting(a *model.App) []model.WhyReason {
	r := model.WhyReason{Code: model.WhyStarting}
	n := 0
	x.v.ExecutorsOf(a.ID, func(e *model.Executor) bool {
		if e.State == model.ExecutorPlaced || e.State == model.ExecutorLaunching {
			n++
			if len(r.WorkerIDs) < maxNamed && !slices.Contains(r.WorkerIDs, e.Worker) {
				r.WorkerIDs = append(r.WorkerIDs, e.Worker)
			}
		}
		return true
	})
	if n == 0 {
		return nil
	}
	r.Workers, r.Have = len(r.WorkerIDs), int64(n)
	r.Text = fmt.Sprintf("%s starting on %s", isAre(n, "executor"), joinIDs(r.WorkerIDs))
	return []model.WhyReason{r}
}
