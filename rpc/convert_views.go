package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func stalenessToWire(s model.Staleness) *pb.StalenessView {
	return &pb.StalenessView{
		Master: string(s.Master), Leader: string(s.Leader), LeaderAddr: s.LeaderAddr, AppliedIndex: s.AppliedIndex,
		Term: s.Term, LagMs: s.LagMilli, LeaderlessForMs: s.LeaderlessFor,
	}
}

func stalenessFromWire(s *pb.StalenessView) model.Staleness {
	return model.Staleness{
		Master: model.MasterID(s.GetMaster()), Leader: model.MasterID(s.GetLeader()), LeaderAddr: s.GetLeaderAddr(),
		AppliedIndex: s.GetAppliedIndex(), Term: s.GetTerm(), LagMilli: s.GetLagMs(), LeaderlessFor: s.GetLeaderlessForMs(),
	}
}

func clusterViewToWire(v model.ClusterView) *pb.ClusterView {
	return &pb.ClusterView{
		Version: int64(v.Version), Cluster: v.Cluster, Epoch: v.Epoch, Staleness: stalenessToWire(v.Staleness),
		StateHash: v.StateHash, Masters: each(v.Masters, masterViewToWire), Workers: each(v.Workers, workerViewToWire),
		Apps: each(v.Apps, appViewToWire), EndedApps: int64(v.EndedApps), Alarms: each(v.Alarms, alarmViewToWire),
		Access: string(v.Access),
	}
}

func clusterViewFromWire(v *pb.ClusterView) model.ClusterView {
	return model.ClusterView{
		Version: int(v.GetVersion()), Cluster: v.GetCluster(), Epoch: v.GetEpoch(), Staleness: stalenessFromWire(v.GetStaleness()),
		StateHash: v.GetStateHash(), Masters: each(v.GetMasters(), masterViewFromWire),
		Workers: each(v.GetWorkers(), workerViewFromWire), Apps: each(v.GetApps(), appViewFromWire), EndedApps: int(v.GetEndedApps()),
		Alarms: each(v.GetAlarms(), alarmViewFromWire), Access: model.Access(v.GetAccess()),
	}
}

func alarmViewToWire(v model.AlarmView) *pb.AlarmView {
	return &pb.AlarmView{Kind: string(v.Kind), Subject: v.Subject, Since: v.Since, Text: v.Text}
}

func alarmViewFromWire(v *pb.AlarmView) model.AlarmView {
	return model.AlarmView{Kind: model.AlarmKind(v.GetKind()), Subject: v.GetSubject(), Since: v.GetSince(), Text: v.GetText()}
}

func masterViewToWire(v model.MasterView) *pb.MasterView {
	return &pb.MasterView{
		Id: string(v.ID), Role: string(v.Role), Voter: v.Voter, Alive: v.Alive, Healthy: v.Healthy,
		GrpcAddr: v.GRPCAddr, RaftAddr: v.RaftAddr, SerfAddr: v.SerfAddr, HttpAddr: v.HTTPAddr,
		LastIndex: v.LastIndex, BuildVersion: v.Version,
	}
}

func masterViewFromWire(v *pb.MasterView) model.MasterView {
	return model.MasterView{
		ID: model.MasterID(v.GetId()), Role: model.MasterRole(v.GetRole()), Voter: v.GetVoter(), Alive: v.GetAlive(),
		Healthy: v.GetHealthy(), GRPCAddr: v.GetGrpcAddr(), RaftAddr: v.GetRaftAddr(), SerfAddr: v.GetSerfAddr(),
		HTTPAddr: v.GetHttpAddr(), LastIndex: v.GetLastIndex(), Version: v.GetBuildVersion(),
	}
}

func workerViewToWire(v model.WorkerView) *pb.WorkerView {
	return &pb.WorkerView{
		Id: string(v.ID), State: string(v.State), Active: v.Active, Reason: v.Reason, Hostname: v.Hostname,
		GrpcAddr: v.GRPCAddr, SerfAddr: v.SerfAddr, HttpAddr: v.HTTPAddr, Incarnation: v.Incarnation,
		Cores: int64(v.Cores), CoresUsed: int64(v.CoresUsed), MemoryMib: v.MemoryMiB, MemoryUsedMib: v.MemoryUsedMiB,
		Resources: resourcesToWire(v.Resources), ResourcesUsed: resourcesToWire(v.ResourcesUsed), Labels: v.Labels,
		Executors: int64(v.Executors), RegisteredAt: v.RegisteredWall, BuildVersion: v.Version,
		RestartLeftMs: v.RestartLeft, Drain: drainViewToWire(v.Drain),
		CoresFree: int64(v.CoresFree), MemoryFreeMib: v.MemoryFreeMiB, CoresTotal: int64(v.CoresTotal), MemoryTotalMib: v.MemoryTotalMiB,
		MemoryReservedMib: v.MemoryReservedMiB, MemoryHostUsedMib: v.MemoryHostUsedMiB,
	}
}

func workerViewFromWire(v *pb.WorkerView) model.WorkerView {
	return model.WorkerView{
		ID: model.WorkerID(v.GetId()), State: model.WorkerState(v.GetState()), Active: v.GetActive(), Reason: v.GetReason(),
		Hostname: v.GetHostname(), GRPCAddr: v.GetGrpcAddr(), SerfAddr: v.GetSerfAddr(), HTTPAddr: v.GetHttpAddr(),
		Incarnation: v.GetIncarnation(), Cores: int(v.GetCores()), CoresUsed: int(v.GetCoresUsed()),
		MemoryMiB: v.GetMemoryMib(), MemoryUsedMiB: v.GetMemoryUsedMib(),
		Resources:     orEmpty(resourcesFromWire[map[string][]string](v.GetResources())),
		ResourcesUsed: orEmpty(resourcesFromWire[map[string][]string](v.GetResourcesUsed())),
		Labels:        orEmpty(v.GetLabels()), Executors: int(v.GetExecutors()), RegisteredWall: v.GetRegisteredAt(), Version: v.GetBuildVersion(),
		RestartLeft: v.GetRestartLeftMs(), Drain: drainViewFromWire(v.GetDrain()),
		CoresFree: int(v.GetCoresFree()), MemoryFreeMiB: v.GetMemoryFreeMib(), CoresTotal: int(v.GetCoresTotal()), MemoryTotalMiB: v.GetMemoryTotalMib(),
		MemoryReservedMiB: v.GetMemoryReservedMib(), MemoryHostUsedMiB: v.GetMemoryHostUsedMib(),
	}
}

func appViewToWire(v model.AppView) *pb.AppView {
	return &pb.AppView{
		Version: int64(v.Version), Id: string(v.ID), Name: v.Name, User: v.User, Kind: string(v.Kind), State: string(v.State),
		Active: v.Active, Terminal: v.Terminal, Reason: v.Reason, ExitCode: int64(v.ExitCode),
		Cores: int64(v.Cores), CoresMax: int64(v.CoresMax), ExecutorMemoryMib: v.MemoryMiB, ExecutorCores: int64(v.ExecutorCores),
		LiveExecutors: int64(v.Live), RunningExecutors: int64(v.Running), TargetExecutors: int64(v.Target),
		Completed: int64(v.Completed), Completions: int64(v.Completions), Failures: int64(v.Failures),
		SubmittedAt: v.SubmittedAt, StartedAt: v.StartedAt, EndedAt: v.EndedAt,
		Executors: each(v.Executors, executorViewToWire), ChangeIndex: v.ChangeIndex,
		Disconnect: v.Disconnect, Queue: v.Queue, MinExecutors: int64(v.MinExecutors), Require: v.Require, Prefer: v.Prefer,
		Driver: string(v.Driver), MaxRuntimeMs: v.MaxRuntimeMilli,
		ProgramSha256: v.Program, ProgramBytes: v.ProgramBytes, ProgramPath: v.ProgramPath, EndedExecutors: causesToWire(v.EndedExecutors),
	}
}

func appViewFromWire(v *pb.AppView) model.AppView {
	return model.AppView{
		Version: int(v.GetVersion()), ID: model.AppID(v.GetId()), Name: v.GetName(), User: v.GetUser(),
		Kind: model.AppKind(v.GetKind()), State: model.AppState(v.GetState()), Active: v.GetActive(), Terminal: v.GetTerminal(),
		Reason: v.GetReason(), ExitCode: int(v.GetExitCode()), Cores: int(v.GetCores()), CoresMax: int(v.GetCoresMax()),
		MemoryMiB: v.GetExecutorMemoryMib(), ExecutorCores: int(v.GetExecutorCores()), Live: int(v.GetLiveExecutors()),
		Running: int(v.GetRunningExecutors()), Target: int(v.GetTargetExecutors()), Completed: int(v.GetCompleted()),
		Completions: int(v.GetCompletions()), Failures: int(v.GetFailures()), SubmittedAt: v.GetSubmittedAt(),
		StartedAt: v.GetStartedAt(), EndedAt: v.GetEndedAt(), Executors: each(v.GetExecutors(), executorViewFromWire),
		ChangeIndex: v.GetChangeIndex(), Disconnect: v.GetDisconnect(), Queue: v.GetQueue(), MinExecutors: int(v.GetMinExecutors()),
		Require: orEmpty(v.GetRequire()), Prefer: orEmpty(v.GetPrefer()), Driver: model.DriverID(v.GetDriver()), MaxRuntimeMilli: v.GetMaxRuntimeMs(),
		Program: v.GetProgramSha256(), ProgramBytes: v.GetProgramBytes(), ProgramPath: v.GetProgramPath(),
		EndedExecutors: causesFromWire(v.GetEndedExecutors()),
	}
}

func causesToWire(m map[model.Cause]int) map[string]int64 {
	if m == nil {
		return nil
	}
	out := make(map[string]int64, len(m))
	for cause, n := range m {
		out[validText(string(cause))] = int64(n)
	}
	return out
}

func causesFromWire(m map[string]int64) map[model.Cause]int {
	if m == nil {
		return nil
	}
	out := make(map[model.Cause]int, len(m))
	for cause, n := range m {
		out[model.Cause(cause)] = int(n)
	}
	return out
}

func executorViewToWire(v model.ExecutorView) *pb.ExecutorView {
	return &pb.ExecutorView{
		App: string(v.App), Executor: int64(v.ID), Profile: int64(v.Profile), Worker: string(v.Worker), State: string(v.State),
		Active: v.Active, Terminal: v.Terminal, Cause: string(v.Cause), Reason: v.Reason, ExitCode: int64(v.ExitCode),
		Signal: int64(v.Signal), Pid: int64(v.PID), Cores: int64(v.Cores), MemoryMib: v.MemoryMiB,
		Resources: resourcesToWire(v.Resources), PlacedAt: v.PlacedAt, EndedAt: v.EndedAt,
		StdoutPath: v.StdoutPath, StderrPath: v.StderrPath,
	}
}

func executorViewFromWire(v *pb.ExecutorView) model.ExecutorView {
	return model.ExecutorView{
		App: model.AppID(v.GetApp()), ID: model.ExecutorID(v.GetExecutor()), Profile: int(v.GetProfile()),
		Worker: model.WorkerID(v.GetWorker()), State: model.ExecutorState(v.GetState()), Active: v.GetActive(),
		Terminal: v.GetTerminal(), Cause: model.Cause(v.GetCause()), Reason: v.GetReason(), ExitCode: int(v.GetExitCode()),
		Signal: int(v.GetSignal()), PID: int(v.GetPid()), Cores: int(v.GetCores()), MemoryMiB: v.GetMemoryMib(),
		Resources: orEmpty(resourcesFromWire[map[string][]string](v.GetResources())), PlacedAt: v.GetPlacedAt(), EndedAt: v.GetEndedAt(),
		StdoutPath: v.GetStdoutPath(), StderrPath: v.GetStderrPath(),
	}
}

func gossipViewToWire(v model.GossipMemberView) *pb.GossipMemberView {
	return &pb.GossipMemberView{Id: v.ID, Role: v.Role, Status: v.Status, SerfAddr: v.SerfAddr, GrpcAddr: v.GRPCAddr}
}

func gossipViewFromWire(v *pb.GossipMemberView) model.GossipMemberView {
	return model.GossipMemberView{
		ID: v.GetId(), Role: v.GetRole(), Status: v.GetStatus(), SerfAddr: v.GetSerfAddr(), GRPCAddr: v.GetGrpcAddr(),
	}
}

// orEmpty keeps an empty map of a view empty instead of absent: JSON shows {}.
func orEmpty[M ~map[K]V, K comparable, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
