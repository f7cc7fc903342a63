package simulate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// The clocks of a simulation. Between two steps so much cluster clock goes by
// that no pause, exclusion or window is left of what came before: a scenario is
// about where things fit. One with gang_after is about time too: there it goes by
// in "advance" only.
const (
	startWall = 1_796_018_400_000 // only seen in ids, which nobody sees
	stepTick  = 24 * 3600 * 1000
)

// Secrets that the state demands and nobody uses here.
const (
	appToken = "token"
	secret   = "secret"
)

// world is the replicated state, and what the scenario calls the things in it.
type world struct {
	state *fsm.FSM
	index *scheduler.Index
	news  scheduler.Changes // since the last pass
	entry uint64            // of the log
	tick  int64
	step  int64  // of the clock, between two steps of the scenario
	seq   uint64 // of reports, and of incarnations: it only rises

	workers map[string]uint64 // present ones, with their incarnation
	apps    map[string]model.AppID
	drivers map[string]model.DriverID
	names   map[string]string // what the scenario calls an id of the state
	words   *strings.Replacer // ids by names; made at the end
	// order of submission; the state forgets what ended long ago.
	appOrder, driverOrder []string
	ended                 map[string]Driver         // drivers, by name
	ranOn                 map[string]model.WorkerID // where a driver was placed last, by name
}

func newWorld(settings model.Settings) (*world, error) {
	w := &world{
		state: fsm.New(), index: scheduler.NewIndex(), step: stepTick, news: scheduler.Changes{All: true},
		workers: make(map[string]uint64), apps: make(map[string]model.AppID), drivers: make(map[string]model.DriverID),
		names: make(map[string]string), ended: make(map[string]Driver), ranOn: make(map[string]model.WorkerID),
	}
	if settings.GangAfterMilli > 0 {
		w.step = 0
	}
	_, err := w.commit(&replogv1.Command{Kind: &replogv1.Command_InitCluster{InitCluster: &replogv1.InitCluster{
		Cluster:  fsm.ClusterToProto(model.ClusterIdentity{ID: "simulation", Epoch: 1, EpochID: 1}),
		Settings: fsm.SettingsToProto(settings),
	}}})
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return w, nil
}

// commit applies one command, which is refused as in a cluster.
func (w *world) commit(c *replogv1.Command) (fsm.Result, error) {
	c.Wall, c.Tick, c.Proposer = startWall, w.tick, "simulation"
	entry, err := fsm.EncodeBatch([]*replogv1.Command{c})
	if err != nil {
		return fsm.Result{}, fmt.Errorf("encode: %w", err)
	}
	w.entry++
	out, err := w.state.Apply(w.entry, entry)
	if err != nil {
		return fsm.Result{}, fmt.Errorf("apply: %w", err)
	}
	for _, c := range out.Changes {
		if c.App != "" {
			w.news.Apps = append(w.news.Apps, c.App)
		}
		if c.Worker != "" {
			w.news.Workers = append(w.news.Workers, c.Worker)
		}
	}
	res := out.Results[0]
	return res, res.Rejection.Err(res.Text)
}

// app finds what the scenario names, which must not have ended.
func (w *world) app(name string) (*model.App, error) {
	id, ok := w.apps[name]
	if !ok {
		return nil, fmt.Errorf("%w: application %q was never submitted", model.ErrInvalid, name)
	}
	a, ok := w.state.View().App(id)
	if !ok || a.State.Terminal() {
		return nil, fmt.Errorf("%w: application %q has ended", model.ErrInvalid, name)
	}
	return a, nil
}

func (w *world) driver(name string) (*model.Driver, error) {
	id, ok := w.drivers[name]
	if !ok {
		return nil, fmt.Errorf("%w: driver %q was never submitted", model.ErrInvalid, name)
	}
	d, ok := w.state.View().Driver(id)
	if !ok || d.State.Terminal() {
		return nil, fmt.Errorf("%w: driver %q has ended", model.ErrInvalid, name)
	}
	return d, nil
}

// report has a worker say what became of one process.
func (w *world) report(e *model.Executor, states ...model.ExecutorState) error {
	w.seq++
	r := &replogv1.ReportExecutors{Worker: string(e.Worker), Incarnation: e.Incarnation, Seq: w.seq}
	for _, s := range states {
		r.Executors = append(r.Executors, fsm.ReportToProto(model.ExecutorReport{Ref: e.Ref(), State: s}))
	}
	_, err := w.commit(&replogv1.Command{Principal: string(e.Worker), Kind: &replogv1.Command_ReportExecutors{ReportExecutors: r}})
	return err
}

// bury has the executors of an application that are being killed end at once.
func (w *world) bury(id model.AppID) error {
	var dying []*model.Executor
	w.state.View().Executors(id, func(e *model.Executor) bool {
		if !e.State.Live() {
			dying = append(dying, e)
		}
		return true
	})
	var errs []error
	for _, e := range dying {
		errs = append(errs, w.report(e, model.ExecutorKilled))
	}
	return errors.Join(errs...)
}

// noteEnded remembers the drivers that a step has ended.
func (w *world) noteEnded() {
	w.state.View().EndedDrivers(func(d *model.Driver) bool {
		name := w.names[string(d.ID)]
		if _, known := w.ended[name]; known {
			return false // and so are all that ended before
		}
		ended := Driver{Driver: name, State: d.State, Worker: d.Worker}
		if d.State == model.DriverKilled { // by finishDriver while it was queued: a scenario kills no drivers
			ended.State, ended.Worker = model.DriverFinished, ""
		}
		w.ended[name] = ended
		return true
	})
}
