package masterd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/raftnode"
	"github.com/hearthd/hearth/rpc"
)

// clusterService is what this master offers to clients.
type clusterService struct{ m *Master }

var _ rpc.ClusterService = clusterService{}

// notLeader is the answer of a standby, with the leader's address as a hint.
func (m *Master) notLeader() error {
	return rpc.NotLeader(leaderInfo{m}.LeaderAddr())
}

// commit proposes a client's command. Not knowing the outcome is told as such:
// the client repeats with the same request id. An elected master takes commands
// before its scope is ready: each is judged when it is applied, behind
// everything that was committed before. Only a cluster without a name takes none.
func (m *Master) commit(ctx context.Context, call rpc.CallInfo, cmd *replogv1.Command) (fsm.Result, error) {
	if !m.takesCommands() {
		return fsm.Result{}, m.notLeader()
	}
	if err := model.ValidRequestID(call.RequestID); err != nil {
		return fsm.Result{}, err
	}
	stamp(cmd, call)
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	res, err := m.node.Propose(ctx, cmd)
	if errors.Is(err, model.ErrNotLeader) {
		return fsm.Result{}, m.notLeader()
	}
	if err != nil {
		return fsm.Result{}, err
	}
	return res, res.Err()
}

// stamp says on a command whose call it stands for.
func stamp(cmd *replogv1.Command, call rpc.CallInfo) {
	cmd.RequestId, cmd.Base = call.RequestID, call.Base
	cmd.Principal, cmd.Credential, cmd.From, cmd.OwnOnly = call.Principal, call.Credential, call.From, call.OwnOnly
}

// takesCommands reports whether this master may propose what clients ask.
func (m *Master) takesCommands() bool {
	return m.leading.Load() != nil || leaderInfo{m}.Elected() && !m.fsm.View().Cluster().IsZero()
}

// RegisterApp commits an application.
func (s clusterService) RegisterApp(ctx context.Context, call rpc.CallInfo, spec model.AppSpec) (rpc.RegisterAppReply, error) {
	if err := spec.Validate(); err != nil {
		return rpc.RegisterAppReply{}, err
	}
	if !s.m.takesCommands() {
		return rpc.RegisterAppReply{}, s.m.notLeader()
	}
	cmd, err := submissionCommand(call, rpc.Submission{RequestID: call.RequestID, Base: call.Base, Spec: spec})
	if err != nil {
		return rpc.RegisterAppReply{}, err
	}
	res, err := s.m.register(ctx, cmd)
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		return rpc.RegisterAppReply{}, err
	}
	return rpc.RegisterAppReply{App: res.App, Token: res.Token, Index: res.Index, LeaderAddr: s.m.GRPCAddr()}, nil
}

// FinishApp ends an application on its driver's word.
func (s clusterService) FinishApp(ctx context.Context, call rpc.CallInfo, req rpc.FinishAppRequest) error {
	if req.State != model.AppFinished && req.State != model.AppFailed {
		return fmt.Errorf("%w: state %q: a driver ends its application as %s or %s", model.ErrInvalid, req.State, model.AppFinished, model.AppFailed)
	}
	if req.Token == "" {
		return fmt.Errorf("%w: finishing application %s needs its session token", model.ErrUnauthenticated, req.App)
	}
	cmd := finishAppCommand(req.App, req.State, req.Reason, req.ExitCode)
	cmd.GetFinishApp().Token = req.Token.Reveal()
	_, err := s.m.commit(ctx, call, cmd)
	return err
}

// KillApp ends an application as KILLED.
func (s clusterService) KillApp(ctx context.Context, call rpc.CallInfo, app model.AppID, reason string) error {
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_KillApp{KillApp: &replogv1.KillApp{
		App: string(app), Reason: model.TrimReason(reason),
	}}})
	return err
}

// KillExecutors ends executors of an application.
func (s clusterService) KillExecutors(ctx context.Context, call rpc.CallInfo, req rpc.KillExecutorsRequest) error {
	_, err := s.m.commit(ctx, call, killExecutorsCommand(req.App, req.Executors, req.Reason))
	return err
}

// SetTargets sets the totals of the named profiles.
func (s clusterService) SetTargets(ctx context.Context, call rpc.CallInfo, req rpc.SetTargetsRequest) error {
	cmd := &replogv1.SetTargets{App: string(req.App), Token: req.Token.Reveal()}
	for _, id := range sortedInts(req.Totals) {
		cmd.Totals = append(cmd.Totals, &replogv1.ProfileCount{Id: int32(id), Count: int32(req.Totals[id])})
	}
	for _, id := range sortedInts(req.Profiles) {
		cmd.Profiles = append(cmd.Profiles, &replogv1.NumberedProfile{Id: int32(id), Profile: fsm.ProfileToProto(req.Profiles[id])})
	}
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_SetTargets{SetTargets: cmd}})
	return err
}

func sortedInts[V any](m map[int]V) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Staleness says who leads and how far this replica is.
func (s clusterService) Staleness(context.Context) (model.Staleness, error) {
	return s.m.staleness(s.m.fsm.View()), nil
}

// Status answers from this replica.
func (s clusterService) Status(context.Context) (model.ClusterView, error) {
	return s.m.clusterView()
}

// Apps lists applications from this replica.
func (s clusterService) Apps(_ context.Context, req rpc.AppsRequest) (rpc.AppsReply, error) {
	v := s.m.fsm.View()
	r := rpc.AppsReply{Staleness: s.m.staleness(v)}
	v.ActiveApps(func(a *model.App) bool {
		r.Apps = append(r.Apps, appView(v, a))
		return true
	})
	if req.Ended {
		v.EndedApps(func(a *model.App) bool {
			r.Apps = append(r.Apps, appView(v, a))
			return true
		})
	}
	return r, nil
}

// App describes one application. A strong read is answered by the leader after
// a quorum has confirmed that it leads.
func (s clusterService) App(ctx context.Context, req rpc.AppRequest) (model.AppView, error) {
	if req.Strong {
		if s.m.leading.Load() == nil {
			return model.AppView{}, s.m.notLeader()
		}
		if err := s.m.node.VerifyLeader(ctx); err != nil {
			return model.AppView{}, fmt.Errorf("verify leadership: %w", err)
		}
	}
	v := s.m.fsm.View()
	a, err := findApp(v, req.ID)
	if err != nil {
		return model.AppView{}, err
	}
	return appDetail(v, a), nil
}

// findApp resolves a whole id or a unique prefix.
func findApp(v *fsm.View, id string) (*model.App, error) {
	if a, ok := v.App(model.AppID(id)); ok {
		return a, nil
	}
	ids := v.AppByPrefix(id)
	switch {
	case id == "" || len(ids) == 0:
		return nil, fmt.Errorf("%w: application %q", model.ErrNotFound, id)
	case len(ids) > 1:
		return nil, fmt.Errorf("%w: %q fits %d applications, among them %s and %s: give more of the id", model.ErrInvalid, id, len(ids), ids[0], ids[1])
	}
	a, ok := v.App(ids[0])
	if !ok {
		return nil, fmt.Errorf("%w: application %q", model.ErrNotFound, id)
	}
	return a, nil
}

// Workers lists workers from this replica.
func (s clusterService) Workers(context.Context) (rpc.WorkersReply, error) {
	v := s.m.fsm.View()
	return rpc.WorkersReply{Staleness: s.m.staleness(v), Workers: s.m.workerViews(v)}, nil
}

// WaitApp answers when the application has changed or ended.
func (s clusterService) WaitApp(ctx context.Context, req rpc.WaitAppRequest) (model.AppView, error) {
	wake, unwatch := s.m.hub.watchApp(req.App)
	defer unwatch()
	for {
		v := s.m.fsm.View()
		a, ok := v.App(req.App)
		if !ok {
			return model.AppView{}, fmt.Errorf("%w: application %s", model.ErrNotFound, req.App)
		}
		if a.State.Terminal() || a.ChangeIndex > req.After {
			return appDetail(v, a), nil
		}
		select {
		case <-ctx.Done():
			return model.AppView{}, ctx.Err()
		case <-wake:
		}
	}
}

// Settings reads the replicated settings.
func (s clusterService) Settings(context.Context) (model.Settings, error) {
	return s.m.fsm.View().Settings(), nil
}

// SetSettings changes the named settings, all or none.
func (s clusterService) SetSettings(ctx context.Context, call rpc.CallInfo, values map[string]string) error {
	cmd := &replogv1.SetSettings{}
	for name, value := range values {
		cmd.Settings = append(cmd.Settings, &replogv1.Setting{Name: name, Value: value})
	}
	slices.SortFunc(cmd.Settings, func(a, b *replogv1.Setting) int { return strings.Compare(a.Name, b.Name) })
	_, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_SetSettings{SetSettings: cmd}})
	return err
}

// RaftServers lists the Raft configuration as the leader sees it.
func (s clusterService) RaftServers(context.Context) ([]model.MasterView, error) {
	if s.m.leading.Load() == nil {
		return nil, s.m.notLeader()
	}
	return s.m.masterViews(s.m.fsm.View())
}

// TransferLeadership hands leadership to a named voter or to the best one.
func (s clusterService) TransferLeadership(ctx context.Context, to model.MasterID) error {
	if s.m.leading.Load() == nil {
		return s.m.notLeader()
	}
	if to == s.m.id.ID() {
		return nil
	}
	if to != "" {
		if err := s.m.isVoter(to); err != nil {
			return err
		}
	}
	return s.m.transfer(ctx, to)
}

func (m *Master) isVoter(id model.MasterID) error {
	servers, _, err := m.node.Servers()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(servers, func(s raftnode.Server) bool { return s.ID == id })
	if i < 0 || !servers[i].Voter {
		return fmt.Errorf("%w: master %s is not a voter of this cluster", model.ErrNotFound, id)
	}
	return nil
}

// RemoveMaster takes a master out of the Raft configuration and the table. A
// leader that removes itself hands leadership over first and asks again there.
func (s clusterService) RemoveMaster(ctx context.Context, call rpc.CallInfo, id model.MasterID) error {
	if s.m.leading.Load() == nil {
		return s.m.notLeader()
	}
	servers, _, err := s.m.node.Servers()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(servers, func(x raftnode.Server) bool { return x.ID == id }) {
		if rec, ok := s.m.fsm.View().Master(id); ok && rec.Removed {
			return nil // a repeat of a call that was carried out
		}
		return fmt.Errorf("%w: master %s is not in the raft configuration", model.ErrNotFound, id)
	}
	if len(servers) == 1 {
		return fmt.Errorf("%w: master %s is the last one: a cluster needs a master", model.ErrRefused, id)
	}
	if id == s.m.id.ID() {
		if err := s.m.transfer(ctx, ""); err != nil {
			return fmt.Errorf("hand leadership over before leaving: %w", err)
		}
		return s.m.notLeader()
	}
	if _, err := s.m.commit(ctx, call, &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: string(id)}}}); err != nil {
		return err
	}
	if err := s.m.node.RemoveServer(ctx, id); err != nil {
		return fmt.Errorf("remove master %s from raft: %w", id, err)
	}
	return nil
}

// GossipMembers lists what this master's gossip sees.
func (s clusterService) GossipMembers(context.Context) ([]model.GossipMemberView, error) {
	var out []model.GossipMemberView
	for _, mb := range s.m.goss.Members() {
		out = append(out, model.GossipMemberView{
			ID: mb.ID, Role: string(mb.Role), Status: string(mb.Status), SerfAddr: mb.SerfAddr, GRPCAddr: mb.Tags.GRPCAddr,
		})
	}
	return out, nil
}

// ReadLog streams the output of an executor from its worker. One that has not
// been launched yet has no output: following it waits for its launch.
func (s clusterService) ReadLog(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	wake, unwatch := s.m.hub.watchApp(req.Ref.App)
	defer unwatch()
	for {
		v := s.m.fsm.View()
		err := s.readLog(ctx, v, req, send)
		if !errors.Is(err, model.ErrNotFound) || !unlaunched(v, req.Ref) {
			return err
		}
		if !req.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// unlaunched reports whether the worker may not have heard of an executor yet.
func unlaunched(v *fsm.View, ref model.ExecutorRef) bool {
	e, ok := v.Executor(ref)
	return ok && (e.State == model.ExecutorPlaced || e.State == model.ExecutorLaunching)
}

func (s clusterService) readLog(ctx context.Context, v *fsm.View, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	e, ok := v.Executor(req.Ref)
	if !ok {
		return fmt.Errorf("%w: executor %s", model.ErrNotFound, req.Ref)
	}
	w, ok := v.Worker(e.Worker)
	if !ok || w.State.Gone() {
		return fmt.Errorf("%w: executor %s ran on worker %s, which is gone", model.ErrUnavailable, req.Ref, e.Worker)
	}
	conn, err := s.m.conns.get(w.Offer.GRPCAddr)
	if err != nil {
		return fmt.Errorf("read log of executor %s: %w", req.Ref, err)
	}
	if err := rpc.WorkerClient(conn).ReadLog(ctx, req, send); err != nil {
		return fmt.Errorf("read log of executor %s from worker %s: %w", req.Ref, e.Worker, err)
	}
	return nil
}
