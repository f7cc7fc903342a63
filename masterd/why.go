package masterd

import (
	"context"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/why"
)

// explainService is what this master offers to those who wait, from its own
// replica.
type explainService struct{ m *Master }

var _ rpc.ExplainService = explainService{}

// Why says why an application or driver waits.
func (s explainService) Why(_ context.Context, id string) (model.Why, error) {
	return s.m.why(s.m.fsm.View(), id)
}

// Waiting lists what waits.
func (s explainService) Waiting(context.Context) (model.WaitingView, error) {
	return s.m.waiting(s.m.fsm.View()), nil
}

func (m *Master) why(v *fsm.View, id string) (model.Why, error) {
	out, err := m.explain(v, id)
	if err != nil {
		return model.Why{}, err
	}
	out.Version, out.Staleness = model.ViewVersion, m.staleness(v)
	return out, nil
}

func (m *Master) explain(v *fsm.View, id string) (model.Why, error) {
	if model.IsDriver(model.AppID(id)) {
		d, err := findDriver(v, id)
		if err != nil {
			return model.Why{}, err
		}
		return m.explainer(v).Driver(d), nil
	}
	a, err := findApp(v, id)
	if err != nil {
		return model.Why{}, err
	}
	return m.explainer(v).App(a), nil
}

func (m *Master) waiting(v *fsm.View) model.WaitingView {
	out := model.WaitingView{Version: model.ViewVersion, Staleness: m.staleness(v), Waiting: m.explainer(v).Waiting()}
	for i := range out.Waiting {
		out.Waiting[i].Version = model.ViewVersion
	}
	return out
}

// Why says why an application or driver waits.
func (s pageSource) Why(id string) (model.Why, error) { return s.m.why(s.m.fsm.View(), id) }

// Waiting lists what waits.
func (s pageSource) Waiting() model.WaitingView { return s.m.waiting(s.m.fsm.View()) }

// explainer answers for a view as it is now by the cluster's clock, of which a
// standby has a guess. Which workers are silent only the leader knows before it
// is committed.
func (m *Master) explainer(v *fsm.View) *why.Explainer {
	leader, _ := m.node.Leader()
	opt := why.Options{NoLeader: leader == ""}
	if l := m.leading.Load(); l != nil {
		opt.WorkerBlocked = l.workerBlocked
	}
	return why.New(v.At(max(v.Tick(), m.node.ClusterTick())), opt)
}
