package rpc

import (
	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// Payloads (outputs, files) are handed over without copying: neither side may
// change them afterwards.

func taskIDToWire(id model.TaskID) uint64 { return uint64(id) }

func taskIDFromWire(id uint64) model.TaskID { return model.TaskID(id) }

func executorUpToWire(m model.ExecutorUp) *pb.ExecutorUp {
	out := &pb.ExecutorUp{Results: each(m.Results, resultToWire)}
	if h := m.Hello; h != nil {
		out.Hello = &pb.ExecutorHello{
			App: string(h.App), Executor: int64(h.Executor), Secret: h.Secret.Reveal(), Cores: int64(h.Cores),
			Host: h.Host, Pid: int64(h.PID), Running: each(h.Running, taskIDToWire), Holds: int64(h.Holds), Queues: h.Queues,
		}
	}
	if m.Beat != nil {
		out.Beat = beatToWire(m.Beat)
	}
	if c := m.Chunk; c != nil {
		out.Chunk = &pb.OutputChunk{Id: uint64(c.ID), Stderr: c.Stderr, Offset: c.Offset, Data: c.Data, Error: c.Error}
	}
	if m.Lingering != nil {
		out.Lingering = new(int64(*m.Lingering))
	}
	return out
}

func executorUpFromWire(m *pb.ExecutorUp) model.ExecutorUp {
	out := model.ExecutorUp{Results: each(m.GetResults(), resultFromWire)}
	if h := m.GetHello(); h != nil {
		out.Hello = &model.ExecutorHello{
			App: model.AppID(h.GetApp()), Executor: model.ExecutorID(h.GetExecutor()), Secret: model.Secret(h.GetSecret()),
			Cores: int(h.GetCores()), Host: h.GetHost(), PID: int(h.GetPid()), Running: each(h.GetRunning(), taskIDFromWire),
			Holds: int(h.GetHolds()), Queues: h.GetQueues(),
		}
	}
	if m.GetBeat() != nil {
		out.Beat = beatFromWire(m.GetBeat())
	}
	if c := m.GetChunk(); c != nil {
		out.Chunk = &model.OutputChunk{
			ID: model.TaskID(c.GetId()), Stderr: c.GetStderr(), Offset: c.GetOffset(), Data: c.GetData(), Error: c.GetError(),
		}
	}
	if m.Lingering != nil {
		n := int(m.GetLingering())
		out.Lingering = &n
	}
	return out
}

func resultToWire(r model.TaskResult) *pb.TaskResult {
	return &pb.TaskResult{
		Id: uint64(r.ID), Attempt: int64(r.Attempt), Outcome: string(r.Outcome), ExitCode: int64(r.ExitCode),
		Signal: int64(r.Signal), Error: r.Error, Stdout: r.Stdout, Stderr: r.Stderr, StdoutBytes: r.StdoutBytes,
		StderrBytes: r.StderrBytes, RuntimeUs: r.RuntimeMicro, Executor: int64(r.Executor),
		Value: r.Value,
	}
}

func resultFromWire(r *pb.TaskResult) model.TaskResult {
	return model.TaskResult{
		ID: model.TaskID(r.GetId()), Attempt: int(r.GetAttempt()), Outcome: model.TaskOutcome(r.GetOutcome()),
		ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), Error: r.GetError(), Stdout: r.GetStdout(),
		Stderr: r.GetStderr(), StdoutBytes: r.GetStdoutBytes(), StderrBytes: r.GetStderrBytes(),
		RuntimeMicro: r.GetRuntimeUs(), Executor: model.ExecutorID(r.GetExecutor()),
		Value: r.GetValue(),
	}
}

func executorDownToWire(m model.ExecutorDown) *pb.ExecutorDown {
	out := &pb.ExecutorDown{
		Tasks: each(m.Tasks, taskToWire), Ack: each(m.Ack, taskIDToWire), Cancel: each(m.Cancel, taskIDToWire), Stop: m.Stop,
		Recall: each(m.Recall, taskIDToWire),
	}
	if w := m.Welcome; w != nil {
		out.Welcome = &pb.ExecutorWelcome{BeatMs: w.BeatMilli, Adopted: each(w.Adopted, taskIDToWire), Slots: int64(w.Slots), Batch: int64(w.Batch)}
	}
	if m.BeatAck != nil {
		out.BeatAck = beatToWire(m.BeatAck)
	}
	if f := m.Fetch; f != nil {
		out.Fetch = &pb.OutputFetch{Id: uint64(f.ID), Stderr: f.Stderr, Offset: f.Offset, Limit: int64(f.Limit)}
	}
	return out
}

func executorDownFromWire(m *pb.ExecutorDown) model.ExecutorDown {
	out := model.ExecutorDown{
		Tasks: each(m.GetTasks(), taskFromWire), Ack: each(m.GetAck(), taskIDFromWire),
		Cancel: each(m.GetCancel(), taskIDFromWire), Stop: m.GetStop(),
		Recall: each(m.GetRecall(), taskIDFromWire),
	}
	if w := m.GetWelcome(); w != nil {
		out.Welcome = &model.ExecutorWelcome{
			BeatMilli: w.GetBeatMs(), Adopted: each(w.GetAdopted(), taskIDFromWire), Slots: int(w.GetSlots()), Batch: int(w.GetBatch()),
		}
	}
	if m.GetBeatAck() != nil {
		out.BeatAck = beatFromWire(m.GetBeatAck())
	}
	if f := m.GetFetch(); f != nil {
		out.Fetch = &model.OutputFetch{ID: model.TaskID(f.GetId()), Stderr: f.GetStderr(), Offset: f.GetOffset(), Limit: int(f.GetLimit())}
	}
	return out
}

func taskToWire(t model.ExecTask) *pb.ExecTask {
	return &pb.ExecTask{
		Id: uint64(t.ID), Attempt: int64(t.Attempt), Argv: each(t.Argv, wireBytes), Env: each(t.Env, wireBytes),
		Dir: wireBytes(t.Dir), TimeoutMs: t.TimeoutMilli, Files: each(t.Files, fileToWire),
		Function: t.Function, Argument: t.Argument,
	}
}

func taskFromWire(t *pb.ExecTask) model.ExecTask {
	return model.ExecTask{
		ID: model.TaskID(t.GetId()), Attempt: int(t.GetAttempt()), Argv: each(t.GetArgv(), modelString),
		Env: each(t.GetEnv(), modelString), Dir: string(t.GetDir()), TimeoutMilli: t.GetTimeoutMs(),
		Files:    each(t.GetFiles(), fileFromWire),
		Function: t.GetFunction(), Argument: t.GetArgument(),
	}
}

// fitting is how many entries of a list make about batchBytes, one at least.
func fitting[T any](in []T, size func(*T) int) int {
	sum := 0
	for i := range in {
		if sum += size(&in[i]); i > 0 && sum > batchBytes {
			return i
		}
	}
	return len(in)
}

func taskSize(t *model.ExecTask) int {
	n := len(t.Dir) + len(t.Function) + len(t.Argument)
	for _, a := range t.Argv {
		n += len(a)
	}
	for _, e := range t.Env {
		n += len(e)
	}
	for i := range t.Files {
		n += len(t.Files[i].Name) + len(t.Files[i].Data)
	}
	return n
}

func resultSize(r *model.TaskResult) int {
	return len(r.Stdout) + len(r.Stderr) + len(r.Error) + len(r.Value)
}
