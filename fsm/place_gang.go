package fsm

import (
	"fmt"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// placeGang places all of a gang or nothing. Each placement is judged beside
// those before it; what they would take is written down meanwhile and taken
// back if one is refused.
func (t *tx) placeGang(list []*replogv1.Placement) []PlacementVerdict {
	gang := make([]model.Placement, 0, len(list))
	for _, p := range list {
		gang = append(gang, PlacementFromProto(p))
	}
	if r, why := t.checkGang(gang); r != model.RejectNone {
		verdict := PlacementVerdict{Rejection: r, Text: model.TrimReason("the gang is not placed: " + why)}
		out := make([]PlacementVerdict, len(gang))
		for i := range out {
			out[i] = verdict
		}
		return out
	}
	out := make([]PlacementVerdict, 0, len(gang))
	for i, p := range gang {
		out = append(out, t.place(p, len(gang)-i))
	}
	return out
}

// checkGang says whether each placement would be accepted after those before it,
// without placing any.
func (t *tx) checkGang(gang []model.Placement) (model.Rejection, string) {
	a, ok := t.findApp(gang[0].App)
	if !ok {
		return model.RejectUnknownApp, fmt.Sprintf("application %q is not known", gang[0].App)
	}
	plan := a.Clone() // with what the gang would add
	cores := 0
	used := make(map[model.WorkerID]*model.Usage)
	for i, p := range gang {
		w, known := t.findWorker(p.Worker)
		switch {
		case p.App != a.ID:
			return model.RejectInvalid, fmt.Sprintf("it names applications %s and %s", a.ID, p.App)
		case !known:
			return model.RejectUnknownWorker, fmt.Sprintf("worker %q is not registered", p.Worker)
		case !model.HasLabels(w, a.Spec.Require):
			return model.RejectDoesNotFit, fmt.Sprintf("worker %s has not all labels that it requires", w.ID)
		}
		if r, why := t.checkApp(plan, p, len(gang)-i); r != model.RejectNone {
			return r, why
		}
		cores += p.Cores
		if r, why := t.checkCaps(a, cores); r != model.RejectNone {
			return r, why
		}
		u := used[w.ID]
		if u == nil {
			own := t.usedOn(w.ID).Clone()
			u, used[w.ID] = &own, &own
		}
		if r, why := judgeWorker(w, *u, plan.Profiles[p.Profile], p); r != model.RejectNone {
			return r, fmt.Sprintf("worker %s: %s", w.ID, why)
		}
		charge(u, &model.Executor{Cores: p.Cores, MemoryMiB: p.MemoryMiB, Resources: p.Resources})
		plan.Live[p.Profile]++
		plan.CoresGranted += p.Cores
		plan.NextExecutor++
	}
	return model.RejectNone, ""
}
