package why

import (
	"fmt"

	"github.com/hearthd/hearth/model"
)

// line is what waits, in the order in which the scheduler looks at it.
type line struct {
	apps []*model.App
	// before counts, for each of apps by number, those ahead of it that could
	// take what becomes free: who pauses or is left alone could not.
	before map[uint64]int
	first  []model.WhyHolder // of those
}

// waiting makes the line, once.
func (x *Explainer) waiting() *line {
	if x.queue != nil {
		return x.queue
	}
	l := &line{before: make(map[uint64]int)}
	x.queue = l
	n := 0
	x.v.ActiveApps(func(a *model.App) bool {
		if !x.waits(a) {
			return true
		}
		l.apps = append(l.apps, a)
		l.before[a.Number] = n
		if a.Reason != "" || x.v.AppBlocked(a.ID) {
			return true
		}
		n++
		if len(l.first) < maxNamed {
			h := model.WhyHolder{ID: string(a.ID), Name: a.Spec.Name, User: a.Spec.User}
			for _, w := range wants(a) {
				h.Amount += int64(w.wanted - w.live)
			}
			l.first = append(l.first, h)
		}
		return true
	})
	return l
}

// Waiting explains everything that waits, in the order in which the scheduler
// looks at it.
func (x *Explainer) Waiting() []model.Why {
	out := []model.Why{}
	for _, a := range x.waiting().apps {
		out = append(out, x.App(a))
	}
	return out
}

// ahead says which applications that wait come first.
func (x *Explainer) ahead(a *model.App) []model.WhyReason {
	l := x.waiting()
	n := l.before[a.Number]
	if n == 0 {
		return nil
	}
	r := model.WhyReason{Code: model.WhyAhead, Have: int64(n), Holders: l.first[:min(n, len(l.first))]}
	ids := make([]string, 0, len(r.Holders))
	for _, h := range r.Holders {
		ids = append(ids, h.ID)
	}
	r.Text = fmt.Sprintf("%s waiting ahead of it (%s)", isAre(n, "application"), joinIDs(ids))
	return []model.WhyReason{r}
}
