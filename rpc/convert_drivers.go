package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func artifactToWire(a model.Artifact) *pb.Artifact {
	return &pb.Artifact{Url: a.URL, Sha256: a.SHA256, Name: wireBytes(a.Name), Executable: a.Executable}
}

func artifactFromWire(a *pb.Artifact) model.Artifact {
	return model.Artifact{URL: a.GetUrl(), SHA256: a.GetSha256(), Name: string(a.GetName()), Executable: a.GetExecutable()}
}

func driverSpecToWire(s model.DriverSpec) *pb.DriverSpec {
	return &pb.DriverSpec{
		Name: s.Name, User: s.User, Profile: profileToWire(s.Profile()), Supervise: s.Supervise,
		Command: &pb.Command{
			Argv: each(s.Command.Argv, wireBytes),
			Env:  each(s.Command.Env, wireBytes),
			Dir:  wireBytes(s.Command.Dir),
		},
		Files: each(s.Files, fileToWire), Artifacts: each(s.Artifacts, artifactToWire), Disconnect: string(s.Disconnect),
		MaxRuntimeMs: s.MaxRuntimeMilli,
	}
}

func driverSpecFromWire(s *pb.DriverSpec) model.DriverSpec {
	size := profileFromWire(s.GetProfile())
	return model.DriverSpec{
		Name: s.GetName(), User: s.GetUser(), Cores: size.Cores, MemoryMiB: size.MemoryMiB, Resources: size.Resources,
		Supervise: s.GetSupervise(),
		Command: model.Command{
			Argv: each(s.GetCommand().GetArgv(), modelString),
			Env:  each(s.GetCommand().GetEnv(), modelString),
			Dir:  string(s.GetCommand().GetDir()),
		},
		Files: each(s.GetFiles(), fileFromWire), Artifacts: each(s.GetArtifacts(), artifactFromWire),
		Disconnect: model.DisconnectPolicy(s.GetDisconnect()), MaxRuntimeMilli: s.GetMaxRuntimeMs(),
	}
}

func submitDriverReplyToWire(r SubmitDriverReply) *pb.SubmitDriverReply {
	return &pb.SubmitDriverReply{Driver: string(r.Driver), Index: r.Index, LeaderAddr: r.LeaderAddr}
}

func submitDriverReplyFromWire(r *pb.SubmitDriverReply) SubmitDriverReply {
	return SubmitDriverReply{Driver: model.DriverID(r.GetDriver()), Index: r.GetIndex(), LeaderAddr: r.GetLeaderAddr()}
}

func driverViewToWire(v model.DriverView) *pb.DriverView {
	resources := make(map[string]int64, len(v.Resources))
	for name, n := range v.Resources {
		resources[name] = int64(n)
	}
	return &pb.DriverView{
		Version: int64(v.Version), Id: string(v.ID), Name: v.Name, User: v.User, State: string(v.State), Active: v.Active, Terminal: v.Terminal,
		Reason: v.Reason, ExitCode: int64(v.ExitCode), Attempt: int64(v.Attempt), Worker: string(v.Worker), Cores: int64(v.Cores), MemoryMib: v.MemoryMiB,
		Resources: resources, Supervise: v.Supervise, Disconnect: v.Disconnect, Failures: int64(v.Failures), BackoffLeftMs: v.BackoffLeft,
		QueuePosition: int64(v.QueuePosition), Command: each(v.Command, validText),
		SubmittedAt: v.SubmittedAt, StartedAt: v.StartedAt, EndedAt: v.EndedAt, Attempts: each(v.Attempts, executorViewToWire),
		Apps: each(v.Apps, str[model.AppID, string]), ChangeIndex: v.ChangeIndex, MaxRuntimeMs: v.MaxRuntimeMilli,
	}
}

func driverViewFromWire(v *pb.DriverView) model.DriverView {
	resources := make(map[string]int, len(v.GetResources()))
	for name, n := range v.GetResources() {
		resources[name] = int(n)
	}
	return model.DriverView{
		Version: int(v.GetVersion()), ID: model.DriverID(v.GetId()), Name: v.GetName(), User: v.GetUser(), State: model.DriverState(v.GetState()),
		Active: v.GetActive(), Terminal: v.GetTerminal(), Reason: v.GetReason(), ExitCode: int(v.GetExitCode()), Attempt: int(v.GetAttempt()),
		Worker: model.WorkerID(v.GetWorker()), Cores: int(v.GetCores()), MemoryMiB: v.GetMemoryMib(), Resources: resources,
		Supervise: v.GetSupervise(), Disconnect: v.GetDisconnect(), Failures: int(v.GetFailures()), BackoffLeft: v.GetBackoffLeftMs(),
		QueuePosition: int(v.GetQueuePosition()), Command: v.GetCommand(),
		SubmittedAt: v.GetSubmittedAt(), StartedAt: v.GetStartedAt(), EndedAt: v.GetEndedAt(), Attempts: each(v.GetAttempts(), executorViewFromWire),
		Apps: each(v.GetApps(), str[string, model.AppID]), ChangeIndex: v.GetChangeIndex(), MaxRuntimeMilli: v.GetMaxRuntimeMs(),
	}
}
