package simulate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func (w *world) addWorker(id string, o model.Offer) error {
	if _, known := w.workers[id]; known {
		return fmt.Errorf("%w: worker %q is there already", model.ErrInvalid, id)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	w.seq++
	_, err := w.commit(&replogv1.Command{Principal: id, Kind: &replogv1.Command_RegisterWorker{RegisterWorker: &replogv1.RegisterWorker{
		Id: id, Incarnation: w.seq, BootId: "boot", Offer: fsm.OfferToProto(o),
	}}})
	if err == nil {
		w.workers[id] = w.seq
	}
	return err
}

func (w *world) removeWorker(id string) error {
	incarnation, known := w.workers[id]
	if !known {
		return fmt.Errorf("%w: there is no worker %q", model.ErrInvalid, id)
	}
	delete(w.workers, id)
	_, err := w.commit(&replogv1.Command{Principal: id, Kind: &replogv1.Command_LeaveWorker{LeaveWorker: &replogv1.LeaveWorker{
		Id: id, Incarnation: incarnation, Reason: "removed",
	}}})
	return err
}

func (w *world) submitApp(name string, spec model.AppSpec) error {
	if _, twice := w.apps[name]; twice {
		return fmt.Errorf("%w: application %q was submitted already", model.ErrInvalid, name)
	}
	res, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_RegisterApp{RegisterApp: &replogv1.RegisterApp{
		Spec: fsm.SpecToProto(spec), Token: appToken,
	}}})
	if err != nil {
		return err
	}
	w.apps[name], w.names[string(res.App)] = res.App, name
	w.appOrder = append(w.appOrder, name)
	return nil
}

func (w *world) request(name string, totals map[int]int, profiles map[int]any) error {
	a, err := w.app(name)
	if err != nil {
		return err
	}
	set := &replogv1.SetTargets{App: string(a.ID), Token: appToken}
	for _, id := range slices.Sorted(maps.Keys(totals)) {
		_, known := a.Profiles[id]
		if _, given := profiles[id]; !known && !given {
			return fmt.Errorf("%w: totals: application %q has no profile %d, and profiles gives none", model.ErrInvalid, name, id)
		}
		set.Totals = append(set.Totals, &replogv1.ProfileCount{Id: int32(id), Count: int32(totals[id])})
	}
	for _, id := range slices.Sorted(maps.Keys(profiles)) {
		p, err := readProfile(profiles[id], a.Spec.Profile)
		if err == nil {
			err = p.Validate()
		}
		if err != nil {
			return fmt.Errorf("profile %d: %w", id, err)
		}
		set.Profiles = append(set.Profiles, &replogv1.NumberedProfile{Id: int32(id), Profile: fsm.ProfileToProto(p)})
	}
	_, err = w.commit(&replogv1.Command{Kind: &replogv1.Command_SetTargets{SetTargets: set}})
	return err
}

// killExecutors kills those that are live; others are passed over.
func (w *world) killExecutors(name string, ids []int64) error {
	a, err := w.app(name)
	if err != nil {
		return err
	}
	kill := &replogv1.KillExecutors{App: string(a.ID), Reason: "killed"}
	for _, id := range ids {
		if id >= 0 && id < int64(a.NextExecutor) {
			kill.Executors = append(kill.Executors, int32(id))
		}
	}
	if _, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_KillExecutors{KillExecutors: kill}}); err != nil {
		return err
	}
	return w.bury(a.ID)
}

func (w *world) finishApp(name string) error {
	a, err := w.app(name)
	if err != nil {
		return err
	}
	_, err = w.commit(&replogv1.Command{Kind: &replogv1.Command_FinishApp{FinishApp: &replogv1.FinishApp{
		App: string(a.ID), Token: appToken, State: string(model.AppFinished), Reason: "finished",
	}}})
	if err != nil {
		return err
	}
	return w.bury(a.ID)
}

func (w *world) submitDriver(name string, spec model.DriverSpec) error {
	if _, twice := w.drivers[name]; twice {
		return fmt.Errorf("%w: driver %q was submitted already", model.ErrInvalid, name)
	}
	res, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_SubmitDriver{SubmitDriver: &replogv1.SubmitDriver{
		Spec: fsm.DriverSpecToProto(spec),
	}}})
	if err != nil {
		return err
	}
	w.drivers[name], w.names[string(res.Driver)] = res.Driver, name
	w.driverOrder = append(w.driverOrder, name)
	return nil
}

// finishDriver ends a driver with exit code 0. One that waits has no process
// that could: it is taken out of the queue, as by a kill, and counts as finished.
func (w *world) finishDriver(name string) error {
	d, err := w.driver(name)
	if err != nil {
		return err
	}
	if e, running := w.state.View().Attempt(d); running {
		return w.report(e, model.ExecutorExited)
	}
	_, err = w.commit(&replogv1.Command{Kind: &replogv1.Command_KillDriver{KillDriver: &replogv1.KillDriver{
		Driver: string(d.ID), Reason: "finished before it was placed",
	}}})
	return err
}
