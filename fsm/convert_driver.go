package fsm

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// DriverSpecToProto converts the description of a driver in cluster mode.
func DriverSpecToProto(s model.DriverSpec) *replogv1.DriverSpec {
	p := &replogv1.DriverSpec{
		Name: s.Name, User: s.User, Profile: ProfileToProto(s.Profile()), Supervise: s.Supervise, Disconnect: string(s.Disconnect),
		MaxRuntimeMilli: s.MaxRuntimeMilli,
		Command:         &replogv1.ProcessCommand{Argv: s.Command.Argv, Env: s.Command.Env, Dir: s.Command.Dir},
	}
	for _, f := range s.Files {
		p.Files = append(p.Files, &replogv1.File{Name: f.Name, Mode: f.Mode, Data: f.Data})
	}
	for _, a := range s.Artifacts {
		p.Artifacts = append(p.Artifacts, &replogv1.Artifact{Url: a.URL, Sha256: a.SHA256, Name: a.Name, Executable: a.Executable})
	}
	return p
}

// DriverSpecFromProto is the inverse of DriverSpecToProto.
func DriverSpecFromProto(p *replogv1.DriverSpec) model.DriverSpec {
	size, c := ProfileFromProto(p.GetProfile()), p.GetCommand()
	s := model.DriverSpec{
		Name: p.GetName(), User: p.GetUser(), Cores: size.Cores, MemoryMiB: size.MemoryMiB, Resources: size.Resources,
		Supervise: p.GetSupervise(), Disconnect: model.DisconnectPolicy(p.GetDisconnect()), MaxRuntimeMilli: p.GetMaxRuntimeMilli(),
		Command: model.Command{Argv: c.GetArgv(), Env: c.GetEnv(), Dir: c.GetDir()},
	}
	for _, f := range p.GetFiles() {
		s.Files = append(s.Files, model.File{Name: f.GetName(), Mode: f.GetMode(), Data: f.GetData()})
	}
	for _, a := range p.GetArtifacts() {
		s.Artifacts = append(s.Artifacts, model.Artifact{URL: a.GetUrl(), SHA256: a.GetSha256(), Name: a.GetName(), Executable: a.GetExecutable()})
	}
	return s
}

// DriverPlacementToProto converts one decision of the scheduler on a driver.
func DriverPlacementToProto(m model.DriverPlacement) *replogv1.DriverPlacement {
	return &replogv1.DriverPlacement{
		Driver: string(m.Driver), Worker: string(m.Worker), Incarnation: m.Incarnation, Resources: ResourcesToProto(m.Resources), Secret: m.Secret.Reveal(),
	}
}

// DriverPlacementFromProto is the inverse of DriverPlacementToProto.
func DriverPlacementFromProto(p *replogv1.DriverPlacement) model.DriverPlacement {
	return model.DriverPlacement{
		Driver: model.DriverID(p.GetDriver()), Worker: model.WorkerID(p.GetWorker()), Incarnation: p.GetIncarnation(),
		Resources: ResourcesFromProto(p.GetResources()), Secret: model.Secret(p.GetSecret()),
	}
}

func driverToProto(d *model.Driver) *replogv1.Driver {
	p := &replogv1.Driver{
		Id: string(d.ID), Number: d.Number, RequestId: d.RequestID, Principal: d.Principal, Spec: DriverSpecToProto(d.Spec),
		State: string(d.State), Reason: d.Reason, ExitCode: int32(d.ExitCode), Attempt: int32(d.Attempt), Worker: string(d.Worker),
		Failures: d.Failures, BackoffUntil: d.BackoffUntil, Backoff: d.Backoff,
		SubmittedWall: d.SubmittedWall, SubmittedTick: d.SubmittedTick, StartedWall: d.StartedWall,
		EndedWall: d.EndedWall, EndedTick: d.EndedTick, ChangeIndex: d.ChangeIndex,
	}
	for _, e := range d.Finished {
		p.Finished = append(p.Finished, executorToProto(e))
	}
	return p
}

func driverFromProto(p *replogv1.Driver) *model.Driver {
	d := &model.Driver{
		ID: model.DriverID(p.GetId()), Number: p.GetNumber(), RequestID: p.GetRequestId(), Principal: p.GetPrincipal(), Spec: DriverSpecFromProto(p.GetSpec()),
		State: model.DriverState(p.GetState()), Reason: p.GetReason(), ExitCode: int(p.GetExitCode()), Attempt: int(p.GetAttempt()), Worker: model.WorkerID(p.GetWorker()),
		Failures: p.GetFailures(), BackoffUntil: p.GetBackoffUntil(), Backoff: p.GetBackoff(),
		SubmittedWall: p.GetSubmittedWall(), SubmittedTick: p.GetSubmittedTick(), StartedWall: p.GetStartedWall(),
		EndedWall: p.GetEndedWall(), EndedTick: p.GetEndedTick(), ChangeIndex: p.GetChangeIndex(),
	}
	for _, e := range p.GetFinished() {
		d.Finished = append(d.Finished, executorFromProto(e))
	}
	return d
}
