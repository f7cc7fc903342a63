package masterd

import (
	"context"
	"net/http"
	"slices"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/web"
)

// pageSource is what this master's pages, JSON and metrics are made of. It reads
// immutable views of the state: nobody waits for it.
type pageSource struct{ m *Master }

var _ web.Source = pageSource{}

// Snapshot describes the cluster at one index.
func (s pageSource) Snapshot() (web.Snapshot, error) {
	v := s.m.fsm.View()
	cluster, err := s.m.clusterViewAt(v)
	if err != nil {
		return web.Snapshot{}, err
	}
	snap := web.Snapshot{
		Cluster: cluster, Ended: []model.AppView{}, Taken: s.m.deps.Wall(),
		Executors: make(map[model.ExecutorState]int), Causes: make(map[model.Cause]int),
	}
	v.EndedApps(func(a *model.App) bool {
		snap.Ended = append(snap.Ended, appView(v, a))
		countCauses(snap.Causes, a)
		return true
	})
	for _, d := range driverViews(v, true) {
		if d.Terminal {
			snap.EndedDrivers = append(snap.EndedDrivers, d)
		} else {
			snap.Drivers = append(snap.Drivers, d)
		}
	}
	v.ActiveApps(func(a *model.App) bool {
		countCauses(snap.Causes, a)
		return true
	})
	v.AllExecutors(func(e *model.Executor) bool {
		if !model.IsDriver(e.App) {
			snap.Executors[e.State]++
		}
		return true
	})
	return snap, nil
}

func countCauses(into map[model.Cause]int, a *model.App) {
	for _, e := range a.Finished {
		into[e.Cause]++
	}
}

// App describes one application with its executors.
func (s pageSource) App(id string) (model.AppView, error) {
	v := s.m.fsm.View()
	a, err := findApp(v, id)
	if err != nil {
		return model.AppView{}, err
	}
	return appDetail(v, a), nil
}

// Driver describes one driver in cluster mode with its attempts.
func (s pageSource) Driver(id string) (model.DriverView, error) {
	v := s.m.fsm.View()
	d, err := findDriver(v, id)
	if err != nil {
		return model.DriverView{}, err
	}
	return driverDetail(v, d), nil
}

// OnWorker lists the unfinished executors on a worker, the newest first.
func (s pageSource) OnWorker(id model.WorkerID) []model.ExecutorView {
	out := []model.ExecutorView{}
	s.m.fsm.View().WorkerExecutors(id, func(e *model.Executor) bool {
		out = append(out, executorView(e))
		return true
	})
	slices.Reverse(out)
	return out
}

// ReadLog streams the output of an executor from its worker.
func (s pageSource) ReadLog(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	return clusterService(s).ReadLog(ctx, req, send)
}

// Unready says why this master is not ready.
func (s pageSource) Unready() string { return s.m.unready() }

// Watch wakes after each entry that changed something.
func (s pageSource) Watch() (wake <-chan struct{}, stop func()) { return s.m.hub.watchAny() }

// pageGate lets those look at the pages whom the gRPC services would answer.
type pageGate struct{ m *Master }

var _ web.Gate = pageGate{}

// Admit asks for the role of a viewer. A token from the login stands in a cookie,
// where the rules for gRPC would not look.
func (g pageGate) Admit(r *http.Request, token string) (who string, err error) {
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	c, err := rpc.AuthorizeHTTP(g.m.access, r, model.RoleViewer)
	return c.Person, err
}

// Login offers a browser to enter a token where one is needed.
func (g pageGate) Login() bool { return g.m.access.required }
