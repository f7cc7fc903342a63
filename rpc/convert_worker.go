package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func fenceToWire(f model.Fence) *pb.Fence {
	return &pb.Fence{Cluster: identityToWire(f.Cluster), Term: f.Term, Incarnation: f.Incarnation, ViewIndex: f.ViewIndex}
}

func fenceFromWire(f *pb.Fence) model.Fence {
	return model.Fence{
		Cluster: identityFromWire(f.GetCluster()), Term: f.GetTerm(), Incarnation: f.GetIncarnation(), ViewIndex: f.GetViewIndex(),
	}
}

func workerUpToWire(m model.WorkerUp) *pb.WorkerUp {
	switch {
	case m.Hello != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Hello{Hello: workerHelloToWire(m.Hello)}}
	case m.Beat != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Beat{Beat: beatToWire(m.Beat)}}
	case m.Report != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Report{Report: &pb.WorkerReport{
			Incarnation: m.Report.Incarnation, Seq: m.Report.Seq, Executors: each(m.Report.Executors, reportToWire),
		}}}
	case m.Leave != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Leave{Leave: &pb.WorkerLeave{Reason: m.Leave.Reason}}}
	case m.Restart != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Restart{Restart: &pb.WorkerRestart{WindowMs: m.Restart.WindowMilli}}}
	case m.Stopping != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Stopping{Stopping: &pb.WorkerStopping{}}}
	case m.Drain != nil:
		return &pb.WorkerUp{Kind: &pb.WorkerUp_Drain{Drain: drainTermsToWire(m.Drain)}}
	}
	return &pb.WorkerUp{}
}

// workerUpFromWire reports false for a message of a kind not known here.
func workerUpFromWire(m *pb.WorkerUp) (model.WorkerUp, bool) {
	switch k := m.GetKind().(type) {
	case *pb.WorkerUp_Hello:
		return model.WorkerUp{Hello: workerHelloFromWire(k.Hello)}, true
	case *pb.WorkerUp_Beat:
		return model.WorkerUp{Beat: beatFromWire(k.Beat)}, true
	case *pb.WorkerUp_Report:
		return model.WorkerUp{Report: &model.WorkerReport{
			Incarnation: k.Report.GetIncarnation(), Seq: k.Report.GetSeq(), Executors: each(k.Report.GetExecutors(), reportFromWire),
		}}, true
	case *pb.WorkerUp_Leave:
		return model.WorkerUp{Leave: &model.WorkerLeave{Reason: k.Leave.GetReason()}}, true
	case *pb.WorkerUp_Restart:
		return model.WorkerUp{Restart: &model.WorkerRestart{WindowMilli: k.Restart.GetWindowMs()}}, true
	case *pb.WorkerUp_Stopping:
		return model.WorkerUp{Stopping: &model.WorkerStopping{}}, true
	case *pb.WorkerUp_Drain:
		return model.WorkerUp{Drain: drainTermsFromWire(k.Drain)}, true
	}
	return model.WorkerUp{}, false
}

func offerToWire(o model.Offer) *pb.Offer {
	return &pb.Offer{
		Hostname: o.Hostname, GrpcAddr: o.GRPCAddr, SerfAddr: o.SerfAddr, HttpAddr: o.HTTPAddr, Cores: int64(o.Cores),
		MemoryMib: o.MemoryMiB, Resources: resourcesToWire(o.Resources), Labels: o.Labels, Version: o.Version,
		CoresTotal: int64(o.CoresTotal), MemoryTotalMib: o.MemoryTotalMiB,
	}
}

func offerFromWire(o *pb.Offer) model.Offer {
	return model.Offer{
		Hostname: o.GetHostname(), GRPCAddr: o.GetGrpcAddr(), SerfAddr: o.GetSerfAddr(), HTTPAddr: o.GetHttpAddr(),
		Cores: int(o.GetCores()), MemoryMiB: o.GetMemoryMib(), Resources: resourcesFromWire[model.Resources](o.GetResources()),
		Labels: o.GetLabels(), Version: o.GetVersion(),
		CoresTotal: int(o.GetCoresTotal()), MemoryTotalMiB: o.GetMemoryTotalMib(),
	}
}

func workerHelloToWire(h *model.WorkerHello) *pb.WorkerHello {
	return &pb.WorkerHello{
		Worker: string(h.Worker), Incarnation: h.Incarnation, BootId: h.BootID, Cluster: identityToWire(h.Cluster),
		HighestTerm: h.HighestTerm, Offer: offerToWire(h.Offer), Inventory: each(h.Inventory, reportToWire),
		ReportSeq: h.ReportSeq, Apps: each(h.Apps, str[model.AppID, string]),
	}
}

func workerHelloFromWire(h *pb.WorkerHello) *model.WorkerHello {
	return &model.WorkerHello{
		Worker: model.WorkerID(h.GetWorker()), Incarnation: h.GetIncarnation(), BootID: h.GetBootId(),
		Cluster: identityFromWire(h.GetCluster()), HighestTerm: h.GetHighestTerm(), Offer: offerFromWire(h.GetOffer()),
		Inventory: each(h.GetInventory(), reportFromWire), ReportSeq: h.GetReportSeq(),
		Apps: each(h.GetApps(), str[string, model.AppID]),
	}
}

func reportToWire(r model.ExecutorReport) *pb.ExecutorReport {
	return &pb.ExecutorReport{
		Ref: refToWire(r.Ref), State: string(r.State), Cause: string(r.Cause), ExitCode: int64(r.ExitCode),
		Signal: int64(r.Signal), Pid: int64(r.PID), Reason: r.Reason,
	}
}

func reportFromWire(r *pb.ExecutorReport) model.ExecutorReport {
	return model.ExecutorReport{
		Ref: refFromWire(r.GetRef()), State: model.ExecutorState(r.GetState()), Cause: model.Cause(r.GetCause()),
		ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), PID: int(r.GetPid()), Reason: r.GetReason(),
	}
}

func workerDownToWire(m model.WorkerDown) *pb.WorkerDown {
	out := &pb.WorkerDown{}
	switch {
	case m.Welcome != nil:
		out.Kind = &pb.WorkerDown_Welcome{Welcome: &pb.WorkerWelcome{
			Fence: fenceToWire(m.Welcome.Fence), Leader: string(m.Welcome.Leader), Masters: m.Welcome.Masters, SerfSeeds: m.Welcome.SerfSeeds,
			BeatMs: m.Welcome.BeatMilli, DeathMs: m.Welcome.DeathMilli,
		}}
	case m.BeatAck != nil:
		out.Kind = &pb.WorkerDown_BeatAck{BeatAck: beatToWire(m.BeatAck)}
	case m.ReportAck != nil:
		out.Kind = &pb.WorkerDown_ReportAck{ReportAck: &pb.ReportAck{Seq: m.ReportAck.Seq}}
	case m.Launch != nil:
		out.Kind = &pb.WorkerDown_Launch{Launch: launchToWire(m.Launch)}
	case m.Kill != nil:
		out.Kind = &pb.WorkerDown_Kill{Kill: &pb.KillOrder{
			Fence: fenceToWire(m.Kill.Fence), Ref: refToWire(m.Kill.Ref), GraceMs: m.Kill.GraceMilli, Reason: m.Kill.Reason,
		}}
	case m.AppEnded != nil:
		out.Kind = &pb.WorkerDown_AppEnded{AppEnded: &pb.AppEndedOrder{
			Fence: fenceToWire(m.AppEnded.Fence), App: string(m.AppEnded.App),
		}}
	case m.Rehello != nil:
		out.Kind = &pb.WorkerDown_Rehello{Rehello: &pb.Rehello{Fence: fenceToWire(m.Rehello.Fence), Reason: m.Rehello.Reason}}
	case m.LeaveOK != nil:
		out.Kind = &pb.WorkerDown_LeaveOk{LeaveOk: &pb.LeaveOK{}}
	case m.RestartOK != nil:
		out.Kind = &pb.WorkerDown_RestartOk{RestartOk: &pb.RestartOK{}}
	case m.DrainOK != nil:
		out.Kind = &pb.WorkerDown_DrainOk{DrainOk: &pb.DrainOK{Refused: m.DrainOK.Refused}}
	}
	return out
}

// workerDownFromWire reports false for a message of a kind not known here.
func workerDownFromWire(m *pb.WorkerDown) (model.WorkerDown, bool) {
	switch k := m.GetKind().(type) {
	case *pb.WorkerDown_Welcome:
		return model.WorkerDown{Welcome: &model.WorkerWelcome{
			Fence: fenceFromWire(k.Welcome.GetFence()), Leader: model.MasterID(k.Welcome.GetLeader()),
			Masters: k.Welcome.GetMasters(), SerfSeeds: k.Welcome.GetSerfSeeds(), BeatMilli: k.Welcome.GetBeatMs(), DeathMilli: k.Welcome.GetDeathMs(),
		}}, true
	case *pb.WorkerDown_BeatAck:
		return model.WorkerDown{BeatAck: beatFromWire(k.BeatAck)}, true
	case *pb.WorkerDown_ReportAck:
		return model.WorkerDown{ReportAck: &model.ReportAck{Seq: k.ReportAck.GetSeq()}}, true
	case *pb.WorkerDown_Launch:
		return model.WorkerDown{Launch: launchFromWire(k.Launch)}, true
	case *pb.WorkerDown_Kill:
		return model.WorkerDown{Kill: &model.KillOrder{
			Fence: fenceFromWire(k.Kill.GetFence()), Ref: refFromWire(k.Kill.GetRef()),
			GraceMilli: k.Kill.GetGraceMs(), Reason: k.Kill.GetReason(),
		}}, true
	case *pb.WorkerDown_AppEnded:
		return model.WorkerDown{AppEnded: &model.AppEndedOrder{
			Fence: fenceFromWire(k.AppEnded.GetFence()), App: model.AppID(k.AppEnded.GetApp()),
		}}, true
	case *pb.WorkerDown_Rehello:
		return model.WorkerDown{Rehello: &model.Rehello{Fence: fenceFromWire(k.Rehello.GetFence()), Reason: k.Rehello.GetReason()}}, true
	case *pb.WorkerDown_LeaveOk:
		return model.WorkerDown{LeaveOK: &model.LeaveOK{}}, true
	case *pb.WorkerDown_RestartOk:
		return model.WorkerDown{RestartOK: &model.RestartOK{}}, true
	case *pb.WorkerDown_DrainOk:
		return model.WorkerDown{DrainOK: &model.DrainOK{Refused: k.DrainOk.GetRefused()}}, true
	}
	return model.WorkerDown{}, false
}

func launchToWire(l *model.LaunchOrder) *pb.LaunchOrder {
	return &pb.LaunchOrder{
		Fence: fenceToWire(l.Fence), Ref: refToWire(l.Ref), Spec: specToWire(l.Spec), Profile: int64(l.Profile),
		Cores: int64(l.Cores), MemoryMib: l.MemoryMiB, Resources: resourcesToWire(l.Resources), Secret: l.Secret.Reveal(),
		MasterAddrs: l.MasterAddr,
	}
}

func launchFromWire(l *pb.LaunchOrder) *model.LaunchOrder {
	return &model.LaunchOrder{
		Fence: fenceFromWire(l.GetFence()), Ref: refFromWire(l.GetRef()), Spec: specFromWire(l.GetSpec()),
		Profile: int(l.GetProfile()), Cores: int(l.GetCores()), MemoryMiB: l.GetMemoryMib(),
		Resources: resourcesFromWire[model.Resources](l.GetResources()), Secret: model.Secret(l.GetSecret()), MasterAddr: l.GetMasterAddrs(),
	}
}

func workerIdentityToWire(w WorkerIdentity) *pb.WorkerIdentity {
	return &pb.WorkerIdentity{Worker: string(w.Worker), Incarnation: w.Incarnation}
}

func workerIdentityFromWire(w *pb.WorkerIdentity) WorkerIdentity {
	return WorkerIdentity{Worker: model.WorkerID(w.GetWorker()), Incarnation: w.GetIncarnation()}
}
