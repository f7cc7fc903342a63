package why

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
)

// place says whether a need finds room now, and where, or why not. a is the
// application that needs it, nil for a driver.
func (x *Explainer) place(n *need, a *model.App) (room bool, reasons []model.WhyReason) {
	f := x.fit(*n)
	if a != nil && len(a.Excluded) > 0 { // it sees other workers than everybody else
		f = &fitting{need: *n, labelled: f.labelled, ever: f.ever}
	}
	if !f.judged {
		f.judged = true
		f.room, f.reasons = x.judge(f, a)
	}
	return f.room, slices.Clone(f.reasons)
}

func (x *Explainer) judge(f *fitting, a *model.App) (room bool, reasons []model.WhyReason) {
	switch {
	case len(x.workers) == 0:
		return false, []model.WhyReason{{Code: model.WhyNoWorkers, Text: "no worker is there"}}
	case f.labelled == 0:
		return false, []model.WhyReason{{
			Code: model.WhyNoLabel, Never: true, Workers: len(x.workers),
			Text: fmt.Sprintf("%s the labels that it requires: %s", noneHas(len(x.workers)), textLabels(f.need.require)),
		}}
	case len(f.ever) == 0:
		return false, x.tooLarge(f)
	}
	open, others := x.candidates(f, a)
	if r, ok := x.tooMany(f); ok {
		return false, append([]model.WhyReason{r}, others...)
	}
	if len(open) == 0 {
		return false, others
	}
	n := &f.need
	var full, roomy []int
	now := 0
	for _, i := range open {
		if k := n.times(x.workers[i].free); k > 0 {
			now += k
			roomy = append(roomy, i)
		} else {
			full = append(full, i)
		}
	}
	if now >= max(n.gang, 1) {
		return true, []model.WhyReason{{
			Code: model.WhyNext, Workers: len(roomy), WorkerIDs: x.named(roomy),
			Text: fmt.Sprintf("there is room on %s; the next pass of the scheduler uses it", joinIDs(x.named(roomy))),
		}}
	}
	if n.gang > 1 {
		reasons = append(reasons, x.gang(n, now, roomy, len(full) == 0))
	}
	return false, slices.Concat(reasons, x.busy(n, full, open), x.leftOver(n, full), others)
}

// gang says for how many of a gang there is room now. alone: there is some on every worker, so no other reason says who
// has the rest.
func (x *Explainer) gang(n *need, now int, roomy []int, alone bool) model.WhyReason {
	r := model.WhyReason{
		Code: model.WhyGang, Need: int64(n.gang), Have: int64(now), Missing: int64(n.gang - now), Workers: len(roomy), WorkerIDs: x.named(roomy),
		Text: fmt.Sprintf("takes %s together or none; there is room for %d", count(int64(n.gang), n.what), now),
	}
	if alone {
		var more int
		if r.Holders, more = x.holders(model.ResourceCores, roomy); len(r.Holders) > 0 {
			r.Text = fmt.Sprintf("waiting behind %s: %s", textHolders(r.Holders, more, model.ResourceCores), r.Text)
		}
	}
	return r
}

// tooMany says that all workers together, were they idle, could not hold a
// gang.
func (x *Explainer) tooMany(f *fitting) (model.WhyReason, bool) {
	most := 0
	for _, i := range f.ever {
		most += f.need.times(x.workers[i].whole())
	}
	if most >= f.need.gang {
		return model.WhyReason{}, false
	}
	return model.WhyReason{
		Code: model.WhyGang, Never: true, Need: int64(f.need.gang), Have: int64(most), Missing: int64(f.need.gang - most), Workers: len(f.ever),
		Text: fmt.Sprintf("takes %s together or none; the workers hold %d even if nothing else runs", count(int64(f.need.gang), f.need.what), most),
	}, true
}

// candidates finds the workers that could hold a need and get new work, and
// says what is wrong with the others.
func (x *Explainer) candidates(f *fitting, a *model.App) (open []int, out []model.WhyReason) {
	var excluded, away []int
	for _, i := range f.ever {
		switch {
		case a != nil && len(a.Excluded) > 0 && x.v.Excluded(a.ID, x.workers[i].rec.ID):
			excluded = append(excluded, i)
		case x.workers[i].away != "":
			away = append(away, i)
		default:
			open = append(open, i)
		}
	}
	if len(excluded) > 0 {
		out = append(out, x.excluded(a, excluded, len(f.ever)))
	}
	if len(away) > 0 {
		out = append(out, x.awayReason(away, len(f.ever)))
	}
	return open, out
}

func (x *Explainer) excluded(a *model.App, at []int, of int) model.WhyReason {
	r := model.WhyReason{Code: model.WhyExcluded, Workers: len(at), WorkerIDs: x.named(at)}
	for _, e := range a.Excluded {
		hit := slices.ContainsFunc(at, func(i int) bool { return x.workers[i].rec.ID == e.Worker })
		if left := e.UntilTick - x.v.Tick(); hit && left > 0 && (r.LeftMilli == 0 || left < r.LeftMilli) {
			r.LeftMilli = left
		}
	}
	r.Text = fmt.Sprintf("keeps off %s after failures there (%s), the first for another %s",
		capable(len(at), of), joinIDs(r.WorkerIDs), seconds(r.LeftMilli))
	return r
}

func (x *Explainer) awayReason(at []int, of int) model.WhyReason {
	causes := make(map[string]int)
	for _, i := range at {
		causes[x.workers[i].away]++
	}
	r := model.WhyReason{Code: model.WhyWorkersAway, Workers: len(at), WorkerIDs: x.named(at)}
	get := "get"
	if len(at) == 1 {
		get = "gets"
	}
	r.Text = fmt.Sprintf("%s %s nothing new: %s (%s)", capable(len(at), of), get, states(causes), joinIDs(r.WorkerIDs))
	return r
}

// busy says what is missing on workers of which none has room, and who has it. Of
// a gang some may have a place on others of the open ones; then those who hold
// any of them are in its way.
func (x *Explainer) busy(n *need, full, open []int) []model.WhyReason {
	var out []model.WhyReason
	for _, s := range x.shortages(n, full) {
		held := s.at
		if len(full) < len(open) {
			held = open
		}
		holders, more := x.holders(s.resource, held)
		r := model.WhyReason{
			Code: model.WhyBusy, Resource: s.resource, Need: s.need, Have: s.have, Missing: s.need - s.have,
			Workers: len(s.at), WorkerIDs: x.named(s.at), Holders: holders,
		}
		r.Text = fmt.Sprintf("needs %s on one worker, %s free on %s",
			quantity(s.resource, s.need), atMost(s.resource, s.have), capable(len(s.at), len(open)))
		if len(holders) > 0 {
			r.Text = fmt.Sprintf("waiting behind %s: %s", textHolders(holders, more, s.resource), r.Text)
		}
		out = append(out, r)
	}
	return out
}

func atMost(resource string, n int64) string {
	if n <= 0 {
		return "none is"
	}
	return "at most " + quantity(resource, n) + isOrAre(n)
}

// leftOver says how many cores are free in pieces that are too small.
func (x *Explainer) leftOver(n *need, open []int) []model.WhyReason {
	r := model.WhyReason{Code: model.WhyLeftOver, Resource: model.ResourceCores, Need: int64(n.cores)}
	var at []int
	for _, i := range open {
		if free := x.workers[i].free.Cores; free > 0 && free < n.cores {
			r.Have += int64(free)
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	r.Workers, r.WorkerIDs = len(at), x.named(at)
	r.Text = fmt.Sprintf("%s can't be used: %s needs %d", count(r.Have, "core"), n.what, n.cores)
	if len(at) > 1 {
		r.Text = fmt.Sprintf("%s on %d workers can't be used: %s needs %d on one", count(r.Have, "core"), len(at), n.what, n.cores)
	}
	return []model.WhyReason{r}
}
