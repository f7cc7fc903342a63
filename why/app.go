package why

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

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

func lists(reasons []model.WhyReason, never bool) bool {
	return slices.ContainsFunc(reasons, func(r model.WhyReason) bool { return r.Never == never })
}

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
		ID: string(a.ID), Kind: model.WhyApp, Name: a.Spec.Name, User: a.Spec.User, Queue: a.Spec.QueueName(), State: string(a.State),
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
	if !out.Waiting {
		return finish(out, slices.Concat(x.full(a), x.starting(a)))
	}
	reasons := x.overall(a)
	if len(reasons) == 0 {
		for _, w := range wants(a) {
			if len(reasons) < maxReasons {
				reasons = append(reasons, x.profile(a, &w)...)
			}
		}
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
	out.Never = out.Waiting && lists(reasons, true) && !lists(reasons, false)
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
		out = append(out, model.WhyReason{Code: model.WhyNoLeader, Text: textNoLeader})
	}
	if a.Reason != "" { // an active application has one only while it is left alone
		out = append(out, model.WhyReason{Code: model.WhyQuarantine, Text: a.Reason})
	}
	if x.v.AppBlocked(a.ID) {
		left := max(0, a.BackoffUntil-x.v.Tick())
		out = append(out, model.WhyReason{Code: model.WhyBackoff, LeftMilli: left, Text: textBackoff(a, left)})
		out = append(out, x.avoided(a)...) // it may be what matters when the pause is over
	}
	return out
}

// avoided says from which workers an application keeps off after failures.
func (x *Explainer) avoided(a *model.App) []model.WhyReason {
	if len(a.Excluded) == 0 {
		return nil
	}
	var at []int
	n := needOf(a, &wants(a)[0])
	f := x.fit(n)
	for _, i := range f.ever {
		if x.v.Excluded(a.ID, x.workers[i].rec.ID) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	return []model.WhyReason{x.excluded(a, at, len(f.ever))}
}

func textBackoff(a *model.App, left int64) string {
	if n := len(a.Failures); n > 0 {
		text := fmt.Sprintf("pauses for another %s after %s within %s", seconds(left), count(int64(n), "failure"), model.FormatMilli(model.FailureWindowMilli))
		for _, e := range slices.Backward(a.Finished) {
			if e.Cause == model.CauseApp || e.Cause == model.CauseStart {
				return text + "; the last, " + textEnd(e)
			}
		}
		return text
	}
	return fmt.Sprintf("pauses for another %s after an executor has ended", seconds(left))
}

// full says which limit an application has filled that does not wait.
func (x *Explainer) full(a *model.App) []model.WhyReason {
	for _, w := range wants(a) {
		if w.capped(x.coresLeft(a)) {
			n := needOf(a, &w)
			return x.limits(a, &n)
		}
	}
	return nil
}

// profile explains why one profile gets nothing more.
func (x *Explainer) profile(a *model.App, w *want) []model.WhyReason {
	n := needOf(a, w)
	out := x.limits(a, &n)
	if len(out) == 0 {
		room, reasons := x.place(&n, a)
		out = reasons
		if room {
			out = x.next(string(a.ID), x.waiting().ahead(string(a.ID), "application"), reasons)
		} else if lists(reasons, false) {
			out = append(reasons, x.waiting().ahead(string(a.ID), "application")...)
		}
	}
	for i := range out {
		out[i].Profile = w.profile
		// The text was made for all that need the same.
		out[i].Text = strings.Replace(out[i].Text, " "+string(a.ID)+" (", " its own executors (", 1)
	}
	return out
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
