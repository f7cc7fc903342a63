package masterd

import (
	"github.com/hearthd/hearth/fsm"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// The constructors of this file turn what the services and loops mean into
// commands of the log.

func initClusterCommand(c model.ClusterIdentity, s model.Settings) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_InitCluster{InitCluster: &replogv1.InitCluster{
		Cluster: fsm.ClusterToProto(c), Settings: fsm.SettingsToProto(s),
	}}}
}

func registerMasterCommand(m model.Master) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_RegisterMaster{RegisterMaster: &replogv1.RegisterMaster{
		Master: fsm.MasterToProto(&m),
	}}}
}

func removeMasterCommand(id model.MasterID) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: string(id)}}}
}

func registerWorkerCommand(h model.WorkerHello) *replogv1.Command {
	return &replogv1.Command{
		Principal: string(h.Worker),
		Kind: &replogv1.Command_RegisterWorker{RegisterWorker: &replogv1.RegisterWorker{
			Id: string(h.Worker), Incarnation: h.Incarnation, BootId: h.BootID,
			Offer: fsm.OfferToProto(h.Offer), Inventory: fsm.ReportsToProto(h.Inventory),
		}},
	}
}

func leaveWorkerCommand(id model.WorkerID, incarnation uint64, reason string) *replogv1.Command {
	return &replogv1.Command{
		Principal: string(id),
		Kind: &replogv1.Command_LeaveWorker{LeaveWorker: &replogv1.LeaveWorker{
			Id: string(id), Incarnation: incarnation, Reason: model.TrimReason(reason),
		}},
	}
}

// verdictCommand is the leader's verdict with the evidence that it judged.
func verdictCommand(d verdict) *replogv1.Command {
	return &replogv1.Command{Principal: "master", Kind: &replogv1.Command_MarkWorker{MarkWorker: &replogv1.MarkWorker{
		Id: string(d.worker.ID), Incarnation: d.worker.Incarnation, ReportSeq: d.worker.ReportSeq,
		State: string(d.state), Reason: model.TrimReason(d.reason), ProcessGone: d.processGone,
		Beat: d.beat, HeardTick: d.heard,
	}}}
}

// restartWorkerCommand marks a worker as away for a planned restart, on its own
// word.
func restartWorkerCommand(w *model.Worker, windowMilli int64) *replogv1.Command {
	return &replogv1.Command{Principal: string(w.ID), Kind: &replogv1.Command_MarkWorker{MarkWorker: &replogv1.MarkWorker{
		Id: string(w.ID), Incarnation: w.Incarnation, ReportSeq: w.ReportSeq,
		State: string(model.WorkerRestarting), Reason: "it restarts and keeps what it runs", RestartWindowMilli: windowMilli,
	}}}
}

func reportExecutorsCommand(id model.WorkerID, r model.WorkerReport) *replogv1.Command {
	return &replogv1.Command{
		Principal: string(id),
		Kind: &replogv1.Command_ReportExecutors{ReportExecutors: &replogv1.ReportExecutors{
			Worker: string(id), Incarnation: r.Incarnation, Seq: r.Seq,
			Executors: fsm.ReportsToProto(r.Executors),
		}},
	}
}

func placeExecutorsCommand(plan []model.Placement) *replogv1.Command {
	place := &replogv1.PlaceExecutors{Placements: make([]*replogv1.Placement, 0, len(plan))}
	for _, p := range plan {
		place.Placements = append(place.Placements, fsm.PlacementToProto(p))
	}
	return &replogv1.Command{Kind: &replogv1.Command_PlaceExecutors{PlaceExecutors: place}}
}

func killExecutorsCommand(app model.AppID, ids []model.ExecutorID, reason string) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_KillExecutors{KillExecutors: &replogv1.KillExecutors{
		App: string(app), Executors: executorNumbers(ids), Reason: model.TrimReason(reason),
	}}}
}

// lateExecutorCommand ends an executor that did not come up in time, which
// counts as a failure to start.
func lateExecutorCommand(ref model.ExecutorRef, reason string) *replogv1.Command {
	cmd := killExecutorsCommand(ref.App, []model.ExecutorID{ref.Executor}, reason)
	cmd.GetKillExecutors().FailedToStart = true
	return cmd
}

func confirmExecutorsCommand(app model.AppID, ids []model.ExecutorID) *replogv1.Command {
	return &replogv1.Command{
		Principal: string(app),
		Kind: &replogv1.Command_ConfirmExecutors{ConfirmExecutors: &replogv1.ConfirmExecutors{
			App: string(app), Executors: executorNumbers(ids),
		}},
	}
}

// noteAppCommand says why an application is left alone; "" = it is not.
func noteAppCommand(app model.AppID, reason string) *replogv1.Command {
	return &replogv1.Command{
		Principal: "master",
		Kind:      &replogv1.Command_NoteApp{NoteApp: &replogv1.NoteApp{App: string(app), Reason: reason}},
	}
}

// expiry names an executor whose deadline has passed, as it was when judged.
type expiry struct {
	ref    model.ExecutorRef
	change uint64
	reason string
}

func expireExecutorsCommand(list []expiry) *replogv1.Command {
	cmd := &replogv1.ExpireExecutors{}
	for _, e := range list {
		cmd.Executors = append(cmd.Executors, &replogv1.Expiry{
			App: string(e.ref.App), Executor: int32(e.ref.Executor), ChangeIndex: e.change, Reason: model.TrimReason(e.reason),
		})
	}
	return &replogv1.Command{Kind: &replogv1.Command_ExpireExecutors{ExpireExecutors: cmd}}
}

func settleAppsCommand(apps []model.AppID) *replogv1.Command {
	names := make([]string, 0, len(apps))
	for _, id := range apps {
		names = append(names, string(id))
	}
	return &replogv1.Command{Kind: &replogv1.Command_SettleApps{SettleApps: &replogv1.SettleApps{Apps: names}}}
}

// finishAppCommand is the leader's own verdict on an application (no token).
func finishAppCommand(app model.AppID, state model.AppState, reason string, exitCode int) *replogv1.Command {
	return &replogv1.Command{
		Principal: "master",
		Kind: &replogv1.Command_FinishApp{FinishApp: &replogv1.FinishApp{
			App: string(app), State: string(state), Reason: model.TrimReason(reason), ExitCode: int32(exitCode),
		}},
	}
}

func executorNumbers(ids []model.ExecutorID) []int32 {
	out := make([]int32, 0, len(ids))
	for _, id := range ids {
		out = append(out, int32(id))
	}
	return out
}
