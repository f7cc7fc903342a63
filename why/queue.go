package why

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/scheduler"
)

// line is what waits, in the order in which the scheduler looks at it.
type line struct {
	// before counts, by id, those ahead that could take what becomes free: who
	// pauses or is left alone could not.
	before map[string]int
	first  []model.WhyHolder // of those
	n      int
}

func newLine() *line { return &line{before: make(map[string]int)} }

// add puts one more to the end; ready says that it could take something.
func (l *line) add(h model.WhyHolder, ready bool) {
	l.before[h.ID] = l.n
	if !ready {
		return
	}
	l.n++
	if len(l.first) < maxNamed {
		l.first = append(l.first, h)
	}
}

// ahead says who comes first, whatever kind it is of.
func (l *line) ahead(id, kind string) []model.WhyReason {
	n := l.before[id]
	if n == 0 {
		return nil
	}
	r := model.WhyReason{Code: model.WhyAhead, Have: int64(n), Holders: l.first[:min(n, len(l.first))]}
	ids := make([]string, 0, len(r.Holders))
	for _, h := range r.Holders {
		ids = append(ids, h.ID)
	}
	more := ""
	if n > len(ids) {
		more = fmt.Sprintf(" and %d more", n-len(ids))
	}
	r.Text = fmt.Sprintf("%s waiting ahead of it (%s%s)", isAre(n, kind), joinIDs(ids), more)
	return []model.WhyReason{r}
}

// waiting makes the line of applications, once.
func (x *Explainer) waiting() *line {
	if x.queue != nil {
		return x.queue
	}
	x.queue = newLine()
	x.v.ActiveApps(func(a *model.App) bool {
		if x.waits(a) {
			x.apps = append(x.apps, a)
		}
		return true
	})
	if len(x.settings.Queues) > 0 {
		x.sortByQueue()
	}
	for _, a := range x.apps {
		h := model.WhyHolder{ID: string(a.ID), Name: a.Spec.Name, User: a.Spec.User}
		for _, w := range wants(a) {
			h.Amount += int64(w.wanted - w.live)
		}
		x.queue.add(h, a.Reason == "" && !x.v.AppBlocked(a.ID))
	}
	return x.queue
}

// sortByQueue puts the queue first whose turn it is now; applications of one
// queue keep the order of their registration.
func (x *Explainer) sortByQueue() {
	used := make(map[string]int)
	for _, a := range x.apps {
		name := a.Spec.QueueName()
		if _, known := used[name]; !known {
			used[name] = x.v.QueueCores(name)
		}
	}
	slices.SortStableFunc(x.apps, func(a, b *model.App) int {
		qa, qb := x.settings.Queue(a.Spec.QueueName()), x.settings.Queue(b.Spec.QueueName())
		return cmp.Or(qa.Compare(used[qa.Name], qb, used[qb.Name]), cmp.Compare(a.Number, b.Number))
	})
}

// Waiting explains everything that waits, in the order in which the scheduler
// looks at it: drivers, then applications.
func (x *Explainer) Waiting() []model.Why {
	out := []model.Why{}
	x.waitingDrivers()
	for _, d := range x.drivers {
		out = append(out, x.Driver(d))
	}
	x.waiting()
	for _, a := range x.apps {
		out = append(out, x.App(a))
	}
	return out
}

// next tells apart what a pass would place now and what others take before. Who
// they are the scheduler itself says.
func (x *Explainer) next(id string, ahead, room []model.WhyReason) []model.WhyReason {
	if x.planned == nil {
		x.plan()
	}
	if x.planned[id] {
		return room
	}
	if x.settings.GangAfterMilli > 0 {
		var gang *model.App
		x.v.DueGangs(func(a *model.App) bool {
			gang = a
			return false
		})
		if gang != nil && string(gang.ID) != id {
			return append([]model.WhyReason{{
				Code: model.WhyWithheld, Holders: []model.WhyHolder{{ID: string(gang.ID), Name: gang.Spec.Name, User: gang.Spec.User}},
				Text: fmt.Sprintf("what is free is kept for %s, which takes %s together", gang.ID, count(int64(model.GangNeeds(gang)), "executor")),
			}}, ahead...)
		}
	}
	if len(ahead) > 0 {
		return ahead
	}
	return room
}

// plan asks the scheduler what it would place now.
func (x *Explainer) plan() {
	x.planned = make(map[string]bool)
	out := scheduler.NewIndex().Pass(shown{x.v}, scheduler.Changes{}, scheduler.Options{WorkerBlocked: x.opt.WorkerBlocked})
	for _, p := range out.Drivers {
		x.planned[string(p.Driver)] = true
	}
	for _, p := range out.Executors {
		x.planned[string(p.App)] = true
	}
}

// shown hides the applications that the leader leaves alone.
type shown struct{ View }

// ActiveApps implements scheduler.View.
func (v shown) ActiveApps(f func(a *model.App) bool) {
	v.View.ActiveApps(func(a *model.App) bool { return a.Reason != "" || f(a) })
}
