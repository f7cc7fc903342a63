package fsm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// This file is the only place where records of package model meet those of the
// log. Maps become lists sorted by key, so that equal records have equal
// bytes; free text is made valid UTF-8, because the encoding demands it.

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ClusterToProto converts a cluster's identity.
func ClusterToProto(c model.ClusterIdentity) *replogv1.ClusterIdentity {
	return &replogv1.ClusterIdentity{Id: c.ID, Epoch: c.Epoch, EpochId: c.EpochID}
}

// ClusterFromProto is the inverse of ClusterToProto.
func ClusterFromProto(p *replogv1.ClusterIdentity) model.ClusterIdentity {
	return model.ClusterIdentity{ID: p.GetId(), Epoch: p.GetEpoch(), EpochID: p.GetEpochId()}
}

// SettingsToProto converts the scheduler's settings.
func SettingsToProto(s model.Settings) *replogv1.Settings {
	return &replogv1.Settings{
		SpreadOutApps:         s.SpreadOutApps,
		WorkerSelectionPolicy: string(s.WorkerSelectionPolicy),
		DefaultCores:          int32(s.DefaultCores),
		PackDrivers:           !s.SpreadOutDrivers,
		MaxDrivers:            int32(s.MaxDrivers),
		DriverShareMilli:      int32(s.DriverShareMilli),
		Queues:                queuesToProto(s.Queues),
		UserCores:             int64(s.UserCores),
		GangAfterMilli:        s.GangAfterMilli,
	}
}

func queuesToProto(qs []model.Queue) []*replogv1.Queue {
	var out []*replogv1.Queue
	for _, q := range qs {
		out = append(out, &replogv1.Queue{Name: q.Name, Weight: int32(q.Weight), Priority: int32(q.Priority), CapCores: int64(q.CapCores)})
	}
	return out
}

func queuesFromProto(ps []*replogv1.Queue) []model.Queue {
	var out []model.Queue
	for _, p := range ps {
		out = append(out, model.Queue{Name: p.GetName(), Weight: int(p.GetWeight()), Priority: int(p.GetPriority()), CapCores: int(p.GetCapCores())})
	}
	return out
}

// SettingsFromProto is the inverse of SettingsToProto.
func SettingsFromProto(p *replogv1.Settings) model.Settings {
	return model.Settings{
		SpreadOutApps:         p.GetSpreadOutApps(),
		WorkerSelectionPolicy: model.SelectionPolicy(p.GetWorkerSelectionPolicy()),
		DefaultCores:          int(p.GetDefaultCores()),
		SpreadOutDrivers:      !p.GetPackDrivers(),
		MaxDrivers:            int(p.GetMaxDrivers()),
		DriverShareMilli:      int(p.GetDriverShareMilli()),
		Queues:                queuesFromProto(p.GetQueues()),
		UserCores:             int(p.GetUserCores()),
		GangAfterMilli:        p.GetGangAfterMilli(),
	}
}

// ResourcesToProto converts resource addresses.
func ResourcesToProto(r model.Resources) []*replogv1.ResourceAddresses {
	if len(r) == 0 {
		return nil
	}
	out := make([]*replogv1.ResourceAddresses, 0, len(r))
	for _, name := range sortedKeys(r) {
		out = append(out, &replogv1.ResourceAddresses{Name: name, Addresses: r[name]})
	}
	return out
}

// ResourcesFromProto is the inverse of ResourcesToProto; nil for none.
func ResourcesFromProto(p []*replogv1.ResourceAddresses) model.Resources {
	if len(p) == 0 {
		return nil
	}
	out := make(model.Resources, len(p))
	for _, r := range p {
		out[r.GetName()] = r.GetAddresses()
	}
	return out
}

// OfferToProto converts a worker's offer.
func OfferToProto(o model.Offer) *replogv1.Offer {
	p := &replogv1.Offer{
		Hostname: o.Hostname, GrpcAddr: o.GRPCAddr, SerfAddr: o.SerfAddr, HttpAddr: o.HTTPAddr,
		Cores: int32(o.Cores), MemoryMib: o.MemoryMiB,
		Resources: ResourcesToProto(o.Resources), Version: o.Version,
		CoresTotal: int32(o.CoresTotal), MemoryTotalMib: o.MemoryTotalMiB,
	}
	p.Labels = labelsToProto(o.Labels)
	return p
}

func labelsToProto(m map[string]string) []*replogv1.Label {
	if len(m) == 0 {
		return nil
	}
	out := make([]*replogv1.Label, 0, len(m))
	for _, name := range sortedKeys(m) {
		out = append(out, &replogv1.Label{Name: name, Value: m[name]})
	}
	return out
}

func labelsFromProto(ps []*replogv1.Label) map[string]string {
	if len(ps) == 0 {
		return nil
	}
	out := make(map[string]string, len(ps))
	for _, l := range ps {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// OfferFromProto is the inverse of OfferToProto.
func OfferFromProto(p *replogv1.Offer) model.Offer {
	o := model.Offer{
		Hostname: p.GetHostname(), GRPCAddr: p.GetGrpcAddr(), SerfAddr: p.GetSerfAddr(), HTTPAddr: p.GetHttpAddr(),
		Cores: int(p.GetCores()), MemoryMiB: p.GetMemoryMib(),
		Resources: ResourcesFromProto(p.GetResources()), Version: p.GetVersion(),
		CoresTotal: int(p.GetCoresTotal()), MemoryTotalMiB: p.GetMemoryTotalMib(),
	}
	o.Labels = labelsFromProto(p.GetLabels())
	return o
}

// MasterToProto converts a master's record.
func MasterToProto(m *model.Master) *replogv1.Master {
	return &replogv1.Master{
		Id: string(m.ID), GrpcAddr: m.GRPCAddr, RaftAddr: m.RaftAddr, SerfAddr: m.SerfAddr,
		HttpAddr: m.HTTPAddr, Version: m.Version, ChangeIndex: m.ChangeIndex, Removed: m.Removed, Key: []byte(m.Key),
	}
}

// MasterFromProto is the inverse of MasterToProto.
func MasterFromProto(p *replogv1.Master) *model.Master {
	return &model.Master{
		ID: model.MasterID(p.GetId()), GRPCAddr: p.GetGrpcAddr(), RaftAddr: p.GetRaftAddr(), SerfAddr: p.GetSerfAddr(),
		HTTPAddr: p.GetHttpAddr(), Version: p.GetVersion(), ChangeIndex: p.GetChangeIndex(),
		Removed: p.GetRemoved(), Key: string(p.GetKey()),
	}
}

func workerToProto(w *model.Worker) *replogv1.Worker {
	p := workerBookToProto(w)
	p.Offer = OfferToProto(w.Offer)
	return p
}

// workerBookToProto converts all of a worker but its offer.
func workerBookToProto(w *model.Worker) *replogv1.Worker {
	return &replogv1.Worker{
		Id: string(w.ID), Incarnation: w.Incarnation, BootId: w.BootID,
		State: string(w.State), StateReason: w.StateReason, ReportSeq: w.ReportSeq,
		RegisteredWall: w.RegisteredWall, StateWall: w.StateWall, StateTick: w.StateTick,
		Overcommitted: w.Overcommitted, ChangeIndex: w.ChangeIndex,
		RestartUntil: w.RestartUntil, HeardTick: w.HeardTick, Certificate: w.Certificate, Drain: drainToProto(w.Drain),
	}
}

func drainToProto(d *model.Drain) *replogv1.Drain {
	if d == nil {
		return nil
	}
	return &replogv1.Drain{
		Index: d.Index, Reason: d.Reason, Principal: d.Principal, SinceWall: d.SinceWall, SinceTick: d.SinceTick,
		DeadlineTick: d.DeadlineTick, IdleOnly: d.IdleOnly,
	}
}

func drainFromProto(p *replogv1.Drain) *model.Drain {
	if p == nil {
		return nil
	}
	return &model.Drain{
		Index: p.GetIndex(), Reason: p.GetReason(), Principal: p.GetPrincipal(), SinceWall: p.GetSinceWall(), SinceTick: p.GetSinceTick(),
		DeadlineTick: p.GetDeadlineTick(), IdleOnly: p.GetIdleOnly(),
	}
}

func workerFromProto(p *replogv1.Worker) *model.Worker {
	return &model.Worker{
		ID: model.WorkerID(p.GetId()), Incarnation: p.GetIncarnation(), BootID: p.GetBootId(), Offer: OfferFromProto(p.GetOffer()),
		State: model.WorkerState(p.GetState()), StateReason: p.GetStateReason(), ReportSeq: p.GetReportSeq(),
		RegisteredWall: p.GetRegisteredWall(), StateWall: p.GetStateWall(), StateTick: p.GetStateTick(),
		Overcommitted: p.GetOvercommitted(), ChangeIndex: p.GetChangeIndex(),
		RestartUntil: p.GetRestartUntil(), HeardTick: p.GetHeardTick(), Certificate: p.GetCertificate(), Drain: drainFromProto(p.GetDrain()),
	}
}

// ProfileToProto converts an executor profile.
func ProfileToProto(m model.Profile) *replogv1.Profile {
	p := &replogv1.Profile{Cores: int32(m.Cores), MemoryMib: m.MemoryMiB}
	for _, name := range sortedKeys(m.Resources) {
		p.Resources = append(p.Resources, &replogv1.ResourceAmount{Name: name, Amount: int32(m.Resources[name])})
	}
	return p
}

// ProfileFromProto is the inverse of ProfileToProto.
func ProfileFromProto(p *replogv1.Profile) model.Profile {
	m := model.Profile{Cores: int(p.GetCores()), MemoryMiB: p.GetMemoryMib()}
	if len(p.GetResources()) > 0 {
		m.Resources = make(map[string]int, len(p.GetResources()))
		for _, r := range p.GetResources() {
			m.Resources[r.GetName()] = int(r.GetAmount())
		}
	}
	return m
}

// SpecToProto converts an application's description.
func SpecToProto(s model.AppSpec) *replogv1.AppSpec {
	p := &replogv1.AppSpec{
		Name: s.Name, User: s.User, Kind: string(s.Kind), CoresMax: int32(s.CoresMax),
		Profile: ProfileToProto(s.Profile), Executors: int32(s.Executors),
		Completions: int32(s.Completions), Restart: string(s.Restart),
		MaxRuntimeMilli: s.MaxRuntimeMilli, DriverAddr: s.DriverAddr, DriverCert: s.DriverCert, Disconnect: string(s.Disconnect),
		Driver: string(s.Driver), DriverAttempt: int32(s.Attempt),
		Queue: s.Queue, MinExecutors: int32(s.MinExecutors), Require: labelsToProto(s.Require), Prefer: labelsToProto(s.Prefer),
	}
	if len(s.Command.Argv) > 0 || len(s.Command.Env) > 0 || s.Command.Dir != "" {
		p.Command = &replogv1.ProcessCommand{Argv: s.Command.Argv, Env: s.Command.Env, Dir: s.Command.Dir}
	}
	for _, f := range s.Files {
		p.Files = append(p.Files, &replogv1.File{Name: f.Name, Mode: f.Mode, Data: f.Data})
	}
	if s.Program.Set() {
		p.Program = &replogv1.Program{Sha256: s.Program.SHA256, Bytes: s.Program.Bytes, Path: s.Program.Path}
	}
	return p
}

// SpecFromProto is the inverse of SpecToProto.
func SpecFromProto(p *replogv1.AppSpec) model.AppSpec {
	c := p.GetCommand()
	s := model.AppSpec{
		Name: p.GetName(), User: p.GetUser(), Kind: model.AppKind(p.GetKind()), CoresMax: int(p.GetCoresMax()),
		Profile: ProfileFromProto(p.GetProfile()), Executors: int(p.GetExecutors()),
		Command:     model.Command{Argv: c.GetArgv(), Env: c.GetEnv(), Dir: c.GetDir()},
		Completions: int(p.GetCompletions()), Restart: model.Restart(p.GetRestart()),
		MaxRuntimeMilli: p.GetMaxRuntimeMilli(), DriverAddr: p.GetDriverAddr(), DriverCert: p.GetDriverCert(),
		Disconnect: model.DisconnectPolicy(p.GetDisconnect()),
		Driver:     model.DriverID(p.GetDriver()), Attempt: int(p.GetDriverAttempt()),
		Queue: p.GetQueue(), MinExecutors: int(p.GetMinExecutors()),
		Require: labelsFromProto(p.GetRequire()), Prefer: labelsFromProto(p.GetPrefer()),
	}
	for _, f := range p.GetFiles() {
		s.Files = append(s.Files, model.File{Name: f.GetName(), Mode: f.GetMode(), Data: f.GetData()})
	}
	if g := p.GetProgram(); g != nil {
		s.Program = model.Program{SHA256: g.GetSha256(), Bytes: g.GetBytes(), Path: g.GetPath()}
	}
	return s
}

// PlacementToProto converts one decision of the scheduler.
func PlacementToProto(m model.Placement) *replogv1.Placement {
	return &replogv1.Placement{
		App: string(m.App), Profile: int32(m.Profile), Worker: string(m.Worker), Incarnation: m.Incarnation,
		Cores: int32(m.Cores), MemoryMib: m.MemoryMiB, Resources: ResourcesToProto(m.Resources), Secret: m.Secret.Reveal(), Gang: m.Gang,
	}
}

// PlacementFromProto is the inverse of PlacementToProto.
func PlacementFromProto(p *replogv1.Placement) model.Placement {
	return model.Placement{
		App: model.AppID(p.GetApp()), Profile: int(p.GetProfile()), Worker: model.WorkerID(p.GetWorker()), Incarnation: p.GetIncarnation(),
		Cores: int(p.GetCores()), MemoryMiB: p.GetMemoryMib(), Resources: ResourcesFromProto(p.GetResources()), Secret: model.Secret(p.GetSecret()), Gang: p.GetGang(),
	}
}

// ReportToProto converts what a worker says of one executor.
func ReportToProto(r model.ExecutorReport) *replogv1.ExecutorReport {
	return &replogv1.ExecutorReport{
		App: string(r.Ref.App), Executor: int32(r.Ref.Executor), State: string(r.State), Cause: string(r.Cause),
		ExitCode: int32(r.ExitCode), Signal: int32(r.Signal), Pid: int32(r.PID), Reason: text(r.Reason),
	}
}

// ReportFromProto is the inverse of ReportToProto.
func ReportFromProto(p *replogv1.ExecutorReport) model.ExecutorReport {
	return model.ExecutorReport{
		Ref:   model.ExecutorRef{App: model.AppID(p.GetApp()), Executor: model.ExecutorID(p.GetExecutor())},
		State: model.ExecutorState(p.GetState()), Cause: model.Cause(p.GetCause()),
		ExitCode: int(p.GetExitCode()), Signal: int(p.GetSignal()), PID: int(p.GetPid()), Reason: p.GetReason(),
	}
}

// ReportsToProto converts a list of reports.
func ReportsToProto(rs []model.ExecutorReport) []*replogv1.ExecutorReport {
	out := make([]*replogv1.ExecutorReport, 0, len(rs))
	for _, r := range rs {
		out = append(out, ReportToProto(r))
	}
	return out
}

func executorToProto(e *model.Executor) *replogv1.Executor {
	return &replogv1.Executor{
		App: string(e.App), Id: int32(e.ID), Profile: int32(e.Profile), Worker: string(e.Worker), Incarnation: e.Incarnation,
		Cores: int32(e.Cores), MemoryMib: e.MemoryMiB, Resources: ResourcesToProto(e.Resources),
		State: string(e.State), Reason: e.Reason, Cause: string(e.Cause),
		ExitCode: int32(e.ExitCode), Signal: int32(e.Signal), Pid: int32(e.PID), Secret: e.Secret.Reveal(),
		PlacedTick: e.PlacedTick, LaunchTick: e.LaunchTick, RunningTick: e.RunningTick, StateTick: e.StateTick,
		PlacedWall: e.PlacedWall, EndedWall: e.EndedWall, ChangeIndex: e.ChangeIndex, Leaving: e.Leaving,
	}
}

func executorFromProto(p *replogv1.Executor) *model.Executor {
	return &model.Executor{
		App: model.AppID(p.GetApp()), ID: model.ExecutorID(p.GetId()), Profile: int(p.GetProfile()),
		Worker: model.WorkerID(p.GetWorker()), Incarnation: p.GetIncarnation(),
		Cores: int(p.GetCores()), MemoryMiB: p.GetMemoryMib(), Resources: ResourcesFromProto(p.GetResources()),
		State: model.ExecutorState(p.GetState()), Reason: p.GetReason(), Cause: model.Cause(p.GetCause()),
		ExitCode: int(p.GetExitCode()), Signal: int(p.GetSignal()), PID: int(p.GetPid()), Secret: model.Secret(p.GetSecret()),
		PlacedTick: p.GetPlacedTick(), LaunchTick: p.GetLaunchTick(), RunningTick: p.GetRunningTick(), StateTick: p.GetStateTick(),
		PlacedWall: p.GetPlacedWall(), EndedWall: p.GetEndedWall(), ChangeIndex: p.GetChangeIndex(), Leaving: p.GetLeaving(),
	}
}
