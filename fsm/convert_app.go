package fsm

import (
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// appBookToProto converts what changes about an application: all but its
// specification and its ended executors.
func appBookToProto(a *model.App) *replogv1.App {
	p := &replogv1.App{
		Id: string(a.ID), Number: a.Number, RequestId: a.RequestID, Principal: a.Principal, Token: a.Token.Reveal(),
		State: string(a.State), Reason: a.Reason, ExitCode: int32(a.ExitCode),
		Targets:      countsToProto(a.Targets),
		NextExecutor: int32(a.NextExecutor), Completed: int32(a.Completed), CoresGranted: int32(a.CoresGranted), CoresLeaving: int32(a.CoresLeaving),
		Live:         countsToProto(a.Live),
		BackoffUntil: a.BackoffUntil, Backoff: a.Backoff,
		SubmittedWall: a.SubmittedWall, SubmittedTick: a.SubmittedTick, StartedWall: a.StartedWall,
		EndedWall: a.EndedWall, EndedTick: a.EndedTick, ChangeIndex: a.ChangeIndex,
	}
	for _, id := range sortedKeys(a.Profiles) {
		p.Profiles = append(p.Profiles, &replogv1.NumberedProfile{Id: int32(id), Profile: ProfileToProto(a.Profiles[id])})
	}
	for _, f := range a.Failures {
		p.Failures = append(p.Failures, &replogv1.Failure{Worker: string(f.Worker), Tick: f.Tick, Cause: string(f.Cause), Quick: f.Quick})
	}
	for _, x := range a.Excluded {
		p.Excluded = append(p.Excluded, &replogv1.Exclusion{Worker: string(x.Worker), UntilTick: x.UntilTick})
	}
	for _, c := range sortedKeys(a.FinishedCount) {
		p.FinishedCount = append(p.FinishedCount, &replogv1.CauseCount{Cause: string(c), Count: int64(a.FinishedCount[c])})
	}
	return p
}

func countsToProto(m map[int]int) []*replogv1.ProfileCount {
	if len(m) == 0 {
		return nil
	}
	out := make([]*replogv1.ProfileCount, 0, len(m))
	for _, id := range sortedKeys(m) {
		out = append(out, &replogv1.ProfileCount{Id: int32(id), Count: int32(m[id])})
	}
	return out
}

func countsFromProto(p []*replogv1.ProfileCount) map[int]int {
	m := make(map[int]int, len(p))
	for _, c := range p {
		m[int(c.GetId())] = int(c.GetCount())
	}
	return m
}

// appToProto converts an application without its ended executors, which
// snapshots write as records of their own.
func appToProto(a *model.App) *replogv1.App {
	p := appBookToProto(a)
	p.Spec = SpecToProto(a.Spec)
	return p
}

func appFromProto(p *replogv1.App) *model.App {
	a := &model.App{
		ID: model.AppID(p.GetId()), Number: p.GetNumber(), RequestID: p.GetRequestId(), Principal: p.GetPrincipal(), Token: model.Secret(p.GetToken()),
		Spec:  SpecFromProto(p.GetSpec()),
		State: model.AppState(p.GetState()), Reason: p.GetReason(), ExitCode: int(p.GetExitCode()),
		Profiles: make(map[int]model.Profile, len(p.GetProfiles())), Targets: countsFromProto(p.GetTargets()),
		NextExecutor: model.ExecutorID(p.GetNextExecutor()), Completed: int(p.GetCompleted()), CoresGranted: int(p.GetCoresGranted()), CoresLeaving: int(p.GetCoresLeaving()),
		Live:         countsFromProto(p.GetLive()),
		BackoffUntil: p.GetBackoffUntil(), Backoff: p.GetBackoff(),
		FinishedCount: make(map[model.Cause]int, len(p.GetFinishedCount())),
		SubmittedWall: p.GetSubmittedWall(), SubmittedTick: p.GetSubmittedTick(), StartedWall: p.GetStartedWall(),
		EndedWall: p.GetEndedWall(), EndedTick: p.GetEndedTick(), ChangeIndex: p.GetChangeIndex(),
	}
	for _, np := range p.GetProfiles() {
		a.Profiles[int(np.GetId())] = ProfileFromProto(np.GetProfile())
	}
	for _, f := range p.GetFailures() {
		a.Failures = append(a.Failures, model.Failure{Worker: model.WorkerID(f.GetWorker()), Tick: f.GetTick(), Cause: model.Cause(f.GetCause()), Quick: f.GetQuick()})
	}
	for _, x := range p.GetExcluded() {
		a.Excluded = append(a.Excluded, model.Exclusion{Worker: model.WorkerID(x.GetWorker()), UntilTick: x.GetUntilTick()})
	}
	for _, c := range p.GetFinishedCount() {
		a.FinishedCount[model.Cause(c.GetCause())] = int(c.GetCount())
	}
	return a
}

// remembered is the result of an applied request.
type remembered struct {
	id     string
	index  uint64 // of the entry that applied it
	seq    uint64 // order of application; local to this process
	result []byte // an encoded replogv1.Result
}

func requestToProto(r *remembered) *replogv1.RememberedRequest {
	return &replogv1.RememberedRequest{RequestId: r.id, Index: r.index, Result: r.result}
}
