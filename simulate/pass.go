package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// maxPlacedTogether bounds the placements of one command, gangs aside.
const maxPlacedTogether = 64

// ErrRefused means that the state refused what the scheduler has planned: one
// of them breaks the rules that they share.
var ErrRefused = errors.New("the state refuses what the scheduler has planned, which is a fault of ours")

// pass makes one scheduling pass and applies it; what was placed runs.
func (w *world) pass() ([]Placement, error) {
	w.tick += w.step // whatever pauses has paused
	// As a master does, so that a long scenario costs no more for each step than a
	// short one. Time alone changes nothing for who waits: in a scenario no executor
	// fails, so nothing backs off and no worker is excluded.
	news := scheduler.Changes{
		All: w.news.All, Apps: slices.Compact(slices.Sorted(slices.Values(w.news.Apps))),
		Workers: slices.Compact(slices.Sorted(slices.Values(w.news.Workers))),
	}
	w.news = scheduler.Changes{}
	plan := w.index.Pass(w.state.View().At(w.tick), news, scheduler.Options{})
	out := make([]Placement, 0, len(plan.Drivers)+len(plan.Executors))
	for _, p := range plan.Drivers {
		placed, err := w.placeDriver(p)
		if err != nil {
			return nil, err
		}
		out = append(out, placed)
	}
	for rest := plan.Executors; len(rest) > 0; {
		n := 1
		for n < len(rest) && (n < maxPlacedTogether && rest[n].Gang == 0 || rest[n].Gang != 0 && rest[n].Gang == rest[n-1].Gang) {
			n++
		}
		placed, err := w.placeExecutors(rest[:n])
		if err != nil {
			return nil, err
		}
		out, rest = append(out, placed...), rest[n:]
	}
	return out, nil
}

func (w *world) placeDriver(p model.DriverPlacement) (Placement, error) {
	p.Secret = secret
	res, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_PlaceDrivers{PlaceDrivers: &replogv1.PlaceDrivers{
		Placements: []*replogv1.DriverPlacement{fsm.DriverPlacementToProto(p)},
	}}})
	if err != nil {
		return Placement{}, err
	}
	if v := res.Placements[0]; v.Rejection != model.RejectNone {
		return Placement{}, fmt.Errorf("%w: %s", ErrRefused, v.Text)
	}
	d, _ := w.state.View().Driver(p.Driver)
	e, running := w.state.View().Attempt(d)
	if !running {
		return Placement{}, fmt.Errorf("%w: driver %s has no process", ErrRefused, w.names[string(p.Driver)])
	}
	out := Placement{
		Driver: w.names[string(p.Driver)], Worker: p.Worker, Cores: e.Cores, MemoryMiB: e.MemoryMiB, Resources: addresses(e.Resources),
	}
	w.ranOn[out.Driver] = p.Worker
	return out, w.report(e, model.ExecutorLaunching, model.ExecutorRunning)
}

func (w *world) placeExecutors(plan []model.Placement) ([]Placement, error) {
	place := &replogv1.PlaceExecutors{}
	for _, p := range plan {
		p.Secret = secret
		place.Placements = append(place.Placements, fsm.PlacementToProto(p))
	}
	res, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_PlaceExecutors{PlaceExecutors: place}})
	if err != nil {
		return nil, err
	}
	var out []Placement
	for i, p := range plan {
		v := res.Placements[i]
		if v.Rejection != model.RejectNone {
			return nil, fmt.Errorf("%w: %s", ErrRefused, v.Text)
		}
		id, profile := v.Executor, p.Profile
		out = append(out, Placement{
			App: w.names[string(p.App)], Executor: &id, Worker: p.Worker, Cores: p.Cores, MemoryMiB: p.MemoryMiB,
			Profile: &profile, Resources: addresses(p.Resources),
		})
		e, ok := w.state.View().Executor(model.ExecutorRef{App: p.App, Executor: id})
		if !ok {
			return nil, fmt.Errorf("%w: executor %s/%d is not there", ErrRefused, w.names[string(p.App)], id)
		}
		if err := w.start(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// start has an executor run: its worker has launched it, and its driver knows it.
func (w *world) start(e *model.Executor) error {
	if err := w.report(e, model.ExecutorLaunching); err != nil {
		return err
	}
	_, err := w.commit(&replogv1.Command{Principal: string(e.App), Kind: &replogv1.Command_ConfirmExecutors{ConfirmExecutors: &replogv1.ConfirmExecutors{
		App: string(e.App), Executors: []int32{int32(e.ID)},
	}}})
	return err
}

// addresses makes no resources an empty object.
func addresses(r model.Resources) map[string][]string {
	out := make(map[string][]string, len(r))
	maps.Copy(out, r)
	return out
}
