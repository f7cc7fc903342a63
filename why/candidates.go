package why

import (
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
)

// candidates finds the workers that could hold a need and get new work, and
// says what is wrong with the others. If there is none, the reasons are why.
func (x *Explainer) candidates(a *model.App, f *fitting) (open []int, out []model.WhyReason) {
	if len(x.workers) == 0 {
		return nil, []model.WhyReason{{Code: model.WhyNoWorkers, Text: "no worker is there"}}
	}
	ever := f.ever
	if len(ever) == 0 {
		return nil, x.tooLarge(&f.need, "executor")
	}
	var excluded, away []int
	for _, i := range ever {
		switch {
		case len(a.Excluded) > 0 && x.v.Excluded(a.ID, x.workers[i].rec.ID):
			excluded = append(excluded, i)
		case x.workers[i].away != "":
			away = append(away, i)
		default:
			open = append(open, i)
		}
	}
	if len(excluded) > 0 {
		out = append(out, x.excluded(a, excluded, len(ever)))
	}
	if len(away) > 0 {
		out = append(out, x.awayReason(away, len(ever)))
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
	r.Text = fmt.Sprintf("keeps off %d of the %s that could hold it after failures there (%s), the first for another %s",
		len(at), count(int64(of), "worker"), joinIDs(r.WorkerIDs), seconds(r.LeftMilli))
	return r
}

func (x *Explainer) awayReason(at []int, of int) model.WhyReason {
	causes := make(map[string]int)
	for _, i := range at {
		causes[x.workers[i].away]++
	}
	r := model.WhyReason{Code: model.WhyWorkersAway, Workers: len(at), WorkerIDs: x.named(at)}
	r.Text = fmt.Sprintf("%d of the %s that could hold it get nothing new: %s (%s)",
		len(at), count(int64(of), "worker"), states(causes), joinIDs(r.WorkerIDs))
	return r
}

// busy says what is missing on workers of which none has room, and who has it.
func (x *Explainer) busy(n *need, open []int) []model.WhyReason {
	var out []model.WhyReason
	for _, s := range x.shortages(n, open) {
		holders, more := x.holders(s.resource, s.at)
		r := model.WhyReason{
			Code: model.WhyBusy, Resource: s.resource, Need: s.need, Have: s.have, Missing: s.need - s.have,
			Workers: len(s.at), WorkerIDs: x.named(s.at), Holders: holders,
		}
		r.Text = fmt.Sprintf("needs %s on one worker, %s free on %d of the %s that could hold it",
			quantity(s.resource, s.need), atMost(s.resource, s.have), len(s.at), count(int64(len(open)), "worker"))
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
	r.Text = fmt.Sprintf("%s can't be used: executor needs %d", count(r.Have, "core"), n.cores)
	if len(at) > 1 {
		r.Text = fmt.Sprintf("%s on %d workers can't be used: executor needs %d on one", count(r.Have, "core"), len(at), n.cores)
	}
	return []model.WhyReason{r}
}
