package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

func driverUpToWire(m model.DriverUp) *pb.DriverUp {
	switch {
	case m.Hello != nil:
		return &pb.DriverUp{Kind: &pb.DriverUp_Hello{Hello: &pb.DriverHello{
			App: string(m.Hello.App), Token: m.Hello.Token.Reveal(), Addr: m.Hello.Addr,
		}}}
	case m.Beat != nil:
		return &pb.DriverUp{Kind: &pb.DriverUp_Beat{Beat: beatToWire(m.Beat)}}
	case m.Confirm != nil:
		return &pb.DriverUp{Kind: &pb.DriverUp_Confirm{Confirm: &pb.DriverConfirm{Executors: each(m.Confirm, executorIDToWire)}}}
	}
	return &pb.DriverUp{}
}

// driverUpFromWire reports false for a message of a kind not known here.
func driverUpFromWire(m *pb.DriverUp) (model.DriverUp, bool) {
	switch k := m.GetKind().(type) {
	case *pb.DriverUp_Hello:
		return model.DriverUp{Hello: &model.DriverHello{
			App: model.AppID(k.Hello.GetApp()), Token: model.Secret(k.Hello.GetToken()), Addr: k.Hello.GetAddr(),
		}}, true
	case *pb.DriverUp_Beat:
		return model.DriverUp{Beat: beatFromWire(k.Beat)}, true
	case *pb.DriverUp_Confirm:
		ids := each(k.Confirm.GetExecutors(), executorIDFromWire)
		return model.DriverUp{Confirm: ids}, len(ids) > 0
	}
	return model.DriverUp{}, false
}

func driverDownToWire(m model.DriverDown) *pb.DriverDown {
	switch {
	case m.Executors != nil:
		return &pb.DriverDown{Kind: &pb.DriverDown_Executors{Executors: &pb.DriverExecutors{
			Index: m.Executors.Index, BeatMs: m.Executors.BeatMilli, Executors: each(m.Executors.Executors, driverExecutorToWire),
		}}}
	case m.Change != nil:
		return &pb.DriverDown{Kind: &pb.DriverDown_Change{Change: driverExecutorToWire(*m.Change)}}
	case m.BeatAck != nil:
		return &pb.DriverDown{Kind: &pb.DriverDown_BeatAck{BeatAck: beatToWire(m.BeatAck)}}
	case m.Ended != nil:
		return &pb.DriverDown{Kind: &pb.DriverDown_Ended{Ended: &pb.DriverEnded{
			State: string(m.Ended.State), Reason: m.Ended.Reason,
		}}}
	}
	return &pb.DriverDown{}
}

// driverDownFromWire reports false for a message of a kind not known here.
func driverDownFromWire(m *pb.DriverDown) (model.DriverDown, bool) {
	switch k := m.GetKind().(type) {
	case *pb.DriverDown_Executors:
		return model.DriverDown{Executors: &model.DriverExecutors{
			Index: k.Executors.GetIndex(), BeatMilli: k.Executors.GetBeatMs(),
			Executors: each(k.Executors.GetExecutors(), driverExecutorFromWire),
		}}, true
	case *pb.DriverDown_Change:
		e := driverExecutorFromWire(k.Change)
		return model.DriverDown{Change: &e}, true
	case *pb.DriverDown_BeatAck:
		return model.DriverDown{BeatAck: beatFromWire(k.BeatAck)}, true
	case *pb.DriverDown_Ended:
		return model.DriverDown{Ended: &model.DriverEnded{State: model.AppState(k.Ended.GetState()), Reason: k.Ended.GetReason()}}, true
	}
	return model.DriverDown{}, false
}

func driverExecutorToWire(e model.DriverExecutor) *pb.DriverExecutor {
	return &pb.DriverExecutor{
		Id: int64(e.ID), Worker: string(e.Worker), Host: e.Host, Cores: int64(e.Cores), MemoryMib: e.MemoryMiB,
		Resources: resourcesToWire(e.Resources), State: string(e.State), Cause: string(e.Cause), ExitCode: int64(e.ExitCode),
		Signal: int64(e.Signal), Reason: e.Reason, Secret: e.Secret.Reveal(), Profile: int64(e.Profile), Index: e.Index,
		Active: !e.Ended(), Terminal: e.Ended(),
	}
}

func driverExecutorFromWire(e *pb.DriverExecutor) model.DriverExecutor {
	return model.DriverExecutor{
		ID: model.ExecutorID(e.GetId()), Worker: model.WorkerID(e.GetWorker()), Host: e.GetHost(), Cores: int(e.GetCores()),
		MemoryMiB: e.GetMemoryMib(), Resources: resourcesFromWire[model.Resources](e.GetResources()),
		State: model.ExecutorState(e.GetState()), Terminal: e.GetTerminal(), Cause: model.Cause(e.GetCause()), ExitCode: int(e.GetExitCode()),
		Signal: int(e.GetSignal()), Reason: e.GetReason(), Secret: model.Secret(e.GetSecret()), Profile: int(e.GetProfile()), Index: e.GetIndex(),
	}
}
