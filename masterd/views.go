package masterd

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/gossip"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/web"
)

// staleness marks a view with where it comes from.
func (m *Master) staleness(v *fsm.View) model.Staleness {
	id, _ := m.node.Leader()
	s := model.Staleness{
		Master:       m.id.ID(),
		Leader:       id,
		AppliedIndex: v.Index(),
		Term:         m.node.Term(),
	}
	if id == "" {
		s.LeaderlessFor = max(1, m.sinceStart()-m.lastLeader.Load())
		return s
	}
	s.LeaderAddr = m.grpcAddrOf(id)
	if id != m.id.ID() {
		s.LagMilli = time.Since(m.node.LastContact()).Milliseconds()
	}
	return s
}

// clusterView builds `hearth status`.
func (m *Master) clusterView() (model.ClusterView, error) { return m.clusterViewAt(m.fsm.View()) }

// clusterViewAt builds it from one view of the state.
func (m *Master) clusterViewAt(v *fsm.View) (model.ClusterView, error) {
	masters, err := m.masterViews(v)
	if err != nil {
		return model.ClusterView{}, err
	}
	cluster := v.Cluster()
	cv := model.ClusterView{
		Version:   model.ViewVersion,
		Cluster:   cluster.ID,
		Epoch:     cluster.Epoch,
		Staleness: m.staleness(v),
		StateHash: v.HashString(),
		Masters:   masters,
		Workers:   m.workerViews(v),
		Apps:      []model.AppView{},
		EndedApps: v.CountEnded(),
		Alarms:    m.alarms.list(),
		Access:    model.AccessOf(m.deps.ServerTLS != nil, m.access.required),
	}
	v.ActiveApps(func(a *model.App) bool {
		cv.Apps = append(cv.Apps, appView(v, a))
		return true
	})
	return cv, nil
}

// masterViews joins Raft's configuration, the table of masters and gossip.
func (m *Master) masterViews(v *fsm.View) ([]model.MasterView, error) {
	servers, _, err := m.node.Servers()
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool)
	for _, mb := range m.masterMembers() {
		alive[mb.ID] = mb.Status == gossip.StatusAlive
	}
	health := make(map[model.MasterID]raftnode.ServerHealth)
	for _, h := range m.node.Health() {
		health[h.ID] = h
	}
	leader, _ := m.node.Leader()
	out := make([]model.MasterView, 0, len(servers))
	for _, s := range servers {
		mv := model.MasterView{
			ID: s.ID, Role: model.MasterStandby, Voter: s.Voter, RaftAddr: s.Addr,
			Alive: alive[string(s.ID)] || s.ID == m.id.ID(),
		}
		if s.ID == leader {
			mv.Role = model.MasterLeader
		}
		if rec, ok := v.Master(s.ID); ok {
			mv.GRPCAddr, mv.SerfAddr, mv.HTTPAddr, mv.Version = rec.GRPCAddr, rec.SerfAddr, rec.HTTPAddr, rec.Version
		}
		if h, ok := health[s.ID]; ok {
			mv.Healthy, mv.LastIndex = h.Healthy, h.LastIndex
		} else {
			mv.Healthy = mv.Alive
		}
		if s.ID == m.id.ID() {
			mv.LastIndex = m.node.LastIndex()
		}
		out = append(out, mv)
	}
	return out, nil
}

// workerViews lists the workers with what is in use on their machines, as gossip
// tells it.
func (m *Master) workerViews(v *fsm.View) []model.WorkerView {
	used := make(map[model.WorkerID]uint64)
	for _, mb := range m.goss.Members() {
		if mb.Role == gossip.RoleWorker && mb.Tags.MemoryUsedMiB > 0 {
			used[model.WorkerID(mb.ID)] = mb.Tags.MemoryUsedMiB
		}
	}
	out := workerViews(v)
	for i := range out {
		if mib, known := used[out[i].ID]; known && out[i].Active {
			out[i].MemoryHostUsedMiB = int64(mib)
		}
	}
	return out
}

func workerViews(v *fsm.View) []model.WorkerView {
	out := []model.WorkerView{}
	v.Workers(func(w *model.Worker) bool {
		u := v.Usage(w.ID)
		out = append(out, withFree(w, model.WorkerView{
			ID: w.ID, State: w.State, Active: !w.State.Gone(), Reason: w.StateReason,
			Hostname: w.Offer.Hostname, GRPCAddr: w.Offer.GRPCAddr, SerfAddr: w.Offer.SerfAddr, HTTPAddr: w.Offer.HTTPAddr,
			Incarnation: w.Incarnation,
			Cores:       w.Offer.Cores, CoresUsed: u.Cores,
			MemoryMiB: w.Offer.MemoryMiB, MemoryUsedMiB: u.MemoryMiB,
			Resources: emptyIfNil(w.Offer.Resources), ResourcesUsed: emptyIfNil(u.Resources),
			Labels: labels(w.Offer.Labels), Executors: u.Executors,
			RegisteredWall: model.RFC3339(w.RegisteredWall), Version: w.Offer.Version,
			RestartLeft: restartLeft(v, w), Drain: drainView(v, w),
			CoresTotal: w.Offer.CoresTotal, MemoryTotalMiB: w.Offer.MemoryTotalMiB,
			MemoryReservedMiB: max(0, w.Offer.MemoryTotalMiB-w.Offer.MemoryMiB),
		}))
		return true
	})
	return out
}

// withFree adds what can be placed on the worker now.
func withFree(w *model.Worker, view model.WorkerView) model.WorkerView {
	if w.Overcommitted && view.Reason == "" {
		view.Reason = "its executors hold more than it has offered since its last start: nothing new until they have ended"
	}
	if w.State == model.WorkerAlive && !w.Overcommitted {
		view.CoresFree, view.MemoryFreeMiB = max(0, view.Cores-view.CoresUsed), max(0, view.MemoryMiB-view.MemoryUsedMiB)
	}
	return view
}

// restartLeft is how long a RESTARTING worker may still be away, in ms, as far
// as this replica's clock has come.
func restartLeft(v *fsm.View, w *model.Worker) int64 {
	if w.State != model.WorkerRestarting {
		return 0
	}
	return max(1, w.RestartUntil-v.Tick())
}

func emptyIfNil(r model.Resources) map[string][]string {
	if r == nil {
		return map[string][]string{}
	}
	return r
}

func labels(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// appView describes an application without its executors.
func appView(v *fsm.View, a *model.App) model.AppView {
	av := model.AppView{
		Version: model.ViewVersion,
		ID:      a.ID, Name: a.Spec.Name, User: a.Spec.User, Kind: a.Spec.Kind,
		State: a.State, Active: !a.State.Terminal(), Terminal: a.State.Terminal(),
		Reason: a.Reason, ExitCode: a.ExitCode,
		Cores: a.CoresGranted, CoresMax: a.Spec.CoresMax,
		MemoryMiB: a.Spec.Profile.MemoryMiB, ExecutorCores: a.Spec.Profile.Cores,
		Completed: a.Completed, Completions: a.Spec.Completions, Failures: len(a.Failures),
		SubmittedAt: model.RFC3339(a.SubmittedWall), StartedAt: model.RFC3339(a.StartedWall), EndedAt: model.RFC3339(a.EndedWall),
		Disconnect: string(a.Spec.Disconnect.Effective()), Queue: a.Spec.QueueName(), MinExecutors: a.Spec.MinExecutors,
		Require: labels(a.Spec.Require), Prefer: labels(a.Spec.Prefer), Driver: a.Spec.Driver, MaxRuntimeMilli: a.Spec.MaxRuntimeMilli,
		Program: a.Spec.Program.SHA256, ProgramBytes: a.Spec.Program.Bytes, ProgramPath: a.Spec.Program.Path,
		ChangeIndex: a.ChangeIndex,
	}
	for _, n := range a.Live {
		av.Live += n
	}
	for _, t := range a.Targets {
		if t == model.TargetUnlimited {
			av.Target = model.TargetUnlimited
			break
		}
		av.Target += t
	}
	v.Executors(a.ID, func(e *model.Executor) bool {
		if e.State == model.ExecutorRunning {
			av.Running++
		}
		return true
	})
	return av
}

// appDetail describes an application with its executors, by id.
func appDetail(v *fsm.View, a *model.App) model.AppView {
	av := appView(v, a)
	av.Executors = []model.ExecutorView{}
	av.EndedExecutors = make(map[model.Cause]int)
	maps.Copy(av.EndedExecutors, a.FinishedCount)
	for _, e := range a.Finished {
		av.EndedExecutors[e.Cause]++
		av.Executors = append(av.Executors, executorView(e))
	}
	v.Executors(a.ID, func(e *model.Executor) bool {
		av.Executors = append(av.Executors, executorView(e))
		return true
	})
	slices.SortFunc(av.Executors, func(a, b model.ExecutorView) int { return cmp.Compare(a.ID, b.ID) })
	return av
}

func executorView(e *model.Executor) model.ExecutorView {
	view := model.ExecutorView{
		App: e.App, ID: e.ID, Profile: e.Profile, Worker: e.Worker, State: e.State,
		Active: !e.State.Terminal(), Terminal: e.State.Terminal(),
		Cause: e.Cause, Reason: e.Reason, ExitCode: e.ExitCode, Signal: e.Signal, PID: e.PID,
		Cores: e.Cores, MemoryMiB: e.MemoryMiB, Resources: emptyIfNil(e.Resources),
		PlacedAt: model.RFC3339(e.PlacedWall), EndedAt: model.RFC3339(e.EndedWall),
	}
	if e.LaunchTick > 0 { // else there is no output
		view.StdoutPath, view.StderrPath = web.LogPath(e.App, e.ID, "stdout"), web.LogPath(e.App, e.ID, "stderr")
	}
	return view
}
