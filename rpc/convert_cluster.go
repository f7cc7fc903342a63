package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func registerReplyToWire(r RegisterAppReply) *pb.RegisterAppReply {
	return &pb.RegisterAppReply{App: string(r.App), Token: r.Token.Reveal(), Index: r.Index, LeaderAddr: r.LeaderAddr}
}

func registerReplyFromWire(r *pb.RegisterAppReply) RegisterAppReply {
	return RegisterAppReply{App: model.AppID(r.GetApp()), Token: model.Secret(r.GetToken()), Index: r.GetIndex(), LeaderAddr: r.GetLeaderAddr()}
}

func finishToWire(r FinishAppRequest) *pb.FinishAppRequest {
	return &pb.FinishAppRequest{
		App: string(r.App), Token: r.Token.Reveal(), State: string(r.State), Reason: r.Reason, ExitCode: int64(r.ExitCode),
	}
}

func finishFromWire(r *pb.FinishAppRequest) FinishAppRequest {
	return FinishAppRequest{
		App: model.AppID(r.GetApp()), Token: model.Secret(r.GetToken()), State: model.AppState(r.GetState()),
		Reason: r.GetReason(), ExitCode: int(r.GetExitCode()),
	}
}

func executorIDToWire(id model.ExecutorID) int64 { return int64(id) }

func executorIDFromWire(id int64) model.ExecutorID { return model.ExecutorID(id) }

func killExecutorsToWire(r KillExecutorsRequest) *pb.KillExecutorsRequest {
	return &pb.KillExecutorsRequest{App: string(r.App), Executors: each(r.Executors, executorIDToWire), Reason: r.Reason}
}

func killExecutorsFromWire(r *pb.KillExecutorsRequest) KillExecutorsRequest {
	return KillExecutorsRequest{
		App: model.AppID(r.GetApp()), Executors: each(r.GetExecutors(), executorIDFromWire), Reason: r.GetReason(),
	}
}

func setTargetsToWire(r SetTargetsRequest) *pb.SetTargetsRequest {
	out := &pb.SetTargetsRequest{App: string(r.App), Token: r.Token.Reveal()}
	if r.Totals != nil {
		out.Totals = make(map[int64]int64, len(r.Totals))
		for k, v := range r.Totals {
			out.Totals[int64(k)] = int64(v)
		}
	}
	if r.Profiles != nil {
		out.Profiles = make(map[int64]*pb.Profile, len(r.Profiles))
		for k, v := range r.Profiles {
			out.Profiles[int64(k)] = profileToWire(v)
		}
	}
	return out
}

func setTargetsFromWire(r *pb.SetTargetsRequest) SetTargetsRequest {
	out := SetTargetsRequest{App: model.AppID(r.GetApp()), Token: model.Secret(r.GetToken())}
	if m := r.GetTotals(); m != nil {
		out.Totals = make(map[int]int, len(m))
		for k, v := range m {
			out.Totals[int(k)] = int(v)
		}
	}
	if m := r.GetProfiles(); m != nil {
		out.Profiles = make(map[int]model.Profile, len(m))
		for k, v := range m {
			out.Profiles[int(k)] = profileFromWire(v)
		}
	}
	return out
}

func appsReplyToWire(r AppsReply) *pb.AppsReply {
	return &pb.AppsReply{Staleness: stalenessToWire(r.Staleness), Apps: each(r.Apps, appViewToWire)}
}

func appsReplyFromWire(r *pb.AppsReply) AppsReply {
	return AppsReply{Staleness: stalenessFromWire(r.GetStaleness()), Apps: each(r.GetApps(), appViewFromWire)}
}

func workersReplyToWire(r WorkersReply) *pb.WorkersReply {
	return &pb.WorkersReply{Staleness: stalenessToWire(r.Staleness), Workers: each(r.Workers, workerViewToWire)}
}

func workersReplyFromWire(r *pb.WorkersReply) WorkersReply {
	return WorkersReply{Staleness: stalenessFromWire(r.GetStaleness()), Workers: each(r.GetWorkers(), workerViewFromWire)}
}

func appRequestToWire(r AppRequest) *pb.AppRequest {
	return &pb.AppRequest{Id: r.ID, Strong: r.Strong}
}

func appRequestFromWire(r *pb.AppRequest) AppRequest {
	return AppRequest{ID: r.GetId(), Strong: r.GetStrong()}
}

func waitAppToWire(r WaitAppRequest) *pb.WaitAppRequest {
	return &pb.WaitAppRequest{App: string(r.App), After: r.After}
}

func waitAppFromWire(r *pb.WaitAppRequest) WaitAppRequest {
	return WaitAppRequest{App: model.AppID(r.GetApp()), After: r.GetAfter()}
}

func settingsToWire(s model.Settings) *pb.SettingsView {
	return &pb.SettingsView{
		SpreadOutApps: s.SpreadOutApps, WorkerSelectionPolicy: string(s.WorkerSelectionPolicy), DefaultCores: int64(s.DefaultCores),
		SpreadOutDrivers: s.SpreadOutDrivers, MaxDrivers: int64(s.MaxDrivers), DriverShareMilli: int64(s.DriverShareMilli),
		Queues: each(s.Queues, queueToWire), UserCores: int64(s.UserCores), GangAfterMs: s.GangAfterMilli,
	}
}

func queueToWire(q model.Queue) *pb.Queue {
	return &pb.Queue{Name: q.Name, Weight: int64(q.Weight), Priority: int64(q.Priority), CapCores: int64(q.CapCores)}
}

func queueFromWire(q *pb.Queue) model.Queue {
	return model.Queue{Name: q.GetName(), Weight: int(q.GetWeight()), Priority: int(q.GetPriority()), CapCores: int(q.GetCapCores())}
}

func settingsFromWire(s *pb.SettingsView) model.Settings {
	return model.Settings{
		SpreadOutApps:         s.GetSpreadOutApps(),
		WorkerSelectionPolicy: model.SelectionPolicy(s.GetWorkerSelectionPolicy()),
		DefaultCores:          int(s.GetDefaultCores()),
		SpreadOutDrivers:      s.GetSpreadOutDrivers(),
		MaxDrivers:            int(s.GetMaxDrivers()),
		DriverShareMilli:      int(s.GetDriverShareMilli()),
		Queues:                each(s.GetQueues(), queueFromWire),
		UserCores:             int(s.GetUserCores()),
		GangAfterMilli:        s.GetGangAfterMs(),
	}
}
