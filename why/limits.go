package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// limit is a limit of cores that leaves too little.
type limit struct {
	code        model.WhyCode
	most, holds int
	name        string // as in "the limit user_cores of ann"
	fixed       bool   // it does not move by itself
	holders     func() []model.WhyHolder
}

// limits explains the limits of cores that leave no room for an application:
// its own, its user's and its queue's, in this order.
func (x *Explainer) limits(a *model.App, n *need) []model.WhyReason {
	own := limit{code: model.WhyCoresMax, most: model.CoresLimit(a, x.settings), holds: model.CoresCounted(a), name: "its own limit", fixed: true}
	if a.Spec.CoresMax == 0 {
		own.code, own.name = model.WhyDefaultCores, "the cluster's limit default_cores"
	}
	if out := x.reached(&own, n); len(out) > 0 {
		if e := x.ending(a); len(e) > 0 {
			out[0].Never = false
			out = append(out, e...)
		}
		return out
	}
	var out []model.WhyReason
	if most := x.settings.UserCores; most > 0 {
		user := model.AppUser(a)
		out = append(out, x.reached(&limit{
			code: model.WhyUserCap, most: most, holds: x.v.UserCores(user), name: "the limit user_cores of " + user,
			holders: func() []model.WhyHolder {
				return x.holdingCores("user "+user, most, func(o *model.App) bool { return model.AppUser(o) == user })
			},
		}, n)...)
	}
	if len(x.settings.Queues) == 0 {
		return out
	}
	if q := x.settings.Queue(a.Spec.QueueName()); q.CapCores > 0 {
		out = append(out, x.reached(&limit{
			code: model.WhyQueueCap, most: q.CapCores, holds: x.v.QueueCores(q.Name), name: "the cap_cores of queue " + q.Name,
			holders: func() []model.WhyHolder {
				return x.holdingCores("queue "+q.Name, q.CapCores, func(o *model.App) bool { return o.Spec.QueueName() == q.Name })
			},
		}, n)...)
	}
	return out
}

// reached explains a limit if it leaves too little for what is placed at once.
func (x *Explainer) reached(l *limit, n *need) []model.WhyReason {
	step := n.cores * max(n.gang, 1)
	left := l.most - l.holds
	if l.most == 0 || left >= step {
		return nil
	}
	r := model.WhyReason{
		Code: l.code, Resource: model.ResourceCores, Need: int64(step), Have: int64(l.holds),
		Missing: int64(step - left), Limit: int64(l.most), Never: l.fixed || step > l.most,
	}
	if step > l.most {
		what := "per " + n.what
		if n.gang > 1 {
			what = fmt.Sprintf("for %s at once", count(int64(n.gang), n.what))
		}
		r.Text = fmt.Sprintf("needs %s %s; %s is %d", count(int64(step), "core"), what, l.name, l.most)
		return []model.WhyReason{r}
	}
	r.Text = fmt.Sprintf("%d of at most %s are held: %s", l.holds, count(int64(l.most), "core"), l.name)
	if l.holders != nil {
		r.Holders = l.holders()
	}
	out := []model.WhyReason{r}
	if left > 0 && n.gang <= 1 {
		out = append(out, model.WhyReason{
			Code: model.WhyLeftOver, Resource: model.ResourceCores, Need: int64(step), Have: int64(left), Never: l.fixed,
			Text: fmt.Sprintf("%s can't be used: %s needs %d", count(int64(left), "core"), n.what, step),
		})
	}
	return out
}

// holdingCores lists which applications of a user or queue hold most of a
// limit.
func (x *Explainer) holdingCores(key string, most int, belongs func(*model.App) bool) []model.WhyHolder {
	if list, known := x.shares[key]; known {
		return list
	}
	list := []model.WhyHolder{}
	x.v.ActiveApps(func(o *model.App) bool {
		if n := model.CoresCounted(o); n > 0 && belongs(o) {
			list = append(list, model.WhyHolder{
				ID: string(o.ID), Name: o.Spec.Name, User: o.Spec.User, Amount: int64(n), Percent: 100 * n / most,
			})
		}
		return true
	})
	slices.SortFunc(list, func(a, b model.WhyHolder) int {
		return cmp.Or(cmp.Compare(b.Amount, a.Amount), strings.Compare(a.ID, b.ID))
	})
	list = list[:min(len(list), maxNamed)]
	x.shares[key] = list
	return list
}

// ending lists what still counts against the application's limit though it is
// being ended.
func (x *Explainer) ending(a *model.App) []model.WhyReason {
	r := model.WhyReason{Code: model.WhyEnding, Resource: model.ResourceCores}
	n, stuck := 0, 0
	x.v.ExecutorsOf(a.ID, func(e *model.Executor) bool {
		if e.State.Live() || e.Leaving {
			return true
		}
		n++
		r.Have += int64(e.Cores)
		if e.State == model.ExecutorStuck {
			stuck++
		}
		if len(r.WorkerIDs) < maxNamed && !slices.Contains(r.WorkerIDs, e.Worker) {
			r.WorkerIDs = append(r.WorkerIDs, e.Worker)
		}
		return true
	})
	if n == 0 {
		return nil
	}
	r.Workers = len(r.WorkerIDs)
	r.Text = fmt.Sprintf("%s of it are held by %s being ended", count(r.Have, "core"), count(int64(n), "executor"))
	if stuck > 0 {
		r.Text += fmt.Sprintf(", %d of them %s", stuck, model.ExecutorStuck)
	}
	return []model.WhyReason{r}
}
