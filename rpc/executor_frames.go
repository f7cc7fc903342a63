package rpc

import (
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// What is sent for each task is encoded here by hand, straight from the model:
// generated messages would cost several times what gRPC itself does. The bytes
// are those of proto/cluster/v1/executor.proto; whatever has other fields than
// the ones below goes through the generated code (ADR 0025).

// The fields of executor.proto that are encoded here, as tags: number and kind.
const (
	downTasks     = 3<<3 | kindText
	downAck       = 4<<3 | kindText // packed
	downAckOne    = 4<<3 | kindNumber
	downCancel    = 5<<3 | kindText
	downCancelOne = 5<<3 | kindNumber

	taskID       = 1<<3 | kindNumber
	taskAttempt  = 2<<3 | kindNumber
	taskArgv     = 3<<3 | kindText
	taskEnv      = 4<<3 | kindText
	taskDir      = 5<<3 | kindText
	taskTimeout  = 6<<3 | kindNumber
	taskFiles    = 7<<3 | kindText
	taskFunction = 8<<3 | kindText
	taskArgument = 9<<3 | kindText

	upResults = 3<<3 | kindText

	resultID          = 1<<3 | kindNumber
	resultAttempt     = 2<<3 | kindNumber
	resultOutcome     = 3<<3 | kindText
	resultExitCode    = 4<<3 | kindNumber // zigzag
	resultSignal      = 5<<3 | kindNumber
	resultError       = 6<<3 | kindText
	resultStdout      = 7<<3 | kindText
	resultStderr      = 8<<3 | kindText
	resultStdoutBytes = 9<<3 | kindNumber
	resultStderrBytes = 10<<3 | kindNumber
	resultRuntime     = 11<<3 | kindNumber
	resultExecutor    = 12<<3 | kindNumber
	resultValue       = 13<<3 | kindText
)

// wireFrame is a message that encodes itself.
type wireFrame interface {
	// marshal returns the encoded message; ok is false if the generated code
	// must do it.
	marshal() (out mem.BufferSlice, ok bool)
	// generated returns the message for the generated code to encode.
	generated() proto.Message
	// unmarshal decodes a message, of which it may keep parts.
	unmarshal(data []byte) error
}

// framePool lends the memory of messages of one stream, which gRPC gives back
// once it has sent them. gRPC's own pool clears a buffer, up to 1 MiB, each time
// it lends it, which cost more than all the rest. Safe for concurrent use.
type framePool struct{ buffers sync.Pool }

var _ mem.BufferPool = (*framePool)(nil)

// maxPooledFrame bounds what is kept: a batch of ordinary tasks.
const maxPooledFrame = 256 << 10

// Get returns memory of that length, with anything in it.
func (p *framePool) Get(length int) *[]byte {
	if buf, ok := p.buffers.Get().(*[]byte); ok && cap(*buf) >= length {
		*buf = (*buf)[:length]
		return buf
	}
	buf := make([]byte, length, max(length, 16<<10))
	return &buf
}

// Put takes it back.
func (p *framePool) Put(buf *[]byte) {
	if cap(*buf) <= maxPooledFrame {
		p.buffers.Put(buf)
	}
}

// encode makes a message of a known size.
func (p *framePool) encode(size int, fill func([]byte) []byte) mem.BufferSlice {
	if mem.IsBelowBufferPoolingThreshold(size) {
		return mem.BufferSlice{mem.SliceBuffer(fill(make([]byte, 0, size)))}
	}
	buf := p.Get(size)
	*buf = fill((*buf)[:0])
	return mem.BufferSlice{mem.NewBuffer(buf, p)}
}

// downFrame is what a driver sends to an executor.
type downFrame struct {
	msg  model.ExecutorDown
	pool framePool
	// spare is the memory of the tasks of the last message.
	spare []model.ExecTask
	// names are functions that were received before, which saves a string for
	// each task. Bounded by maxNames.
	names map[string]string
}

// maxNames bounds the names of functions that one stream remembers.
const maxNames = 1024

func (f *downFrame) generated() proto.Message { return executorDownToWire(f.msg) }

func (f *downFrame) marshal() (mem.BufferSlice, bool) {
	m := &f.msg
	if m.Welcome != nil || m.BeatAck != nil || m.Fetch != nil || m.Stop {
		return nil, false
	}
	size := sizeIDs(downAck, m.Ack) + sizeIDs(downCancel, m.Cancel)
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if t.Function == "" || t.Argv != nil || t.Env != nil || t.Dir != "" || t.Files != nil || !utf8.ValidString(t.Function) {
			return nil, false
		}
		size += sizeVarint(downTasks) + protowire.SizeBytes(sizeCall(t))
	}
	return f.pool.encode(size, func(b []byte) []byte {
		for i := range m.Tasks {
			b = appendCall(b, &m.Tasks[i])
		}
		b = appendIDs(b, downAck, m.Ack)
		return appendIDs(b, downCancel, m.Cancel)
	}), true
}

func (f *downFrame) unmarshal(data []byte) error {
	f.msg = model.ExecutorDown{}
	tasks, plain, err := scan(data, downTasks, downAck, downAckOne, downCancel, downCancelOne)
	if err != nil {
		return fmt.Errorf("a message of a driver: %w", err)
	}
	if !plain {
		return f.unmarshalGenerated(data)
	}
	if tasks > 0 {
		clear(f.spare)
		if tasks > cap(f.spare) {
			f.spare = make([]model.ExecTask, 0, tasks)
		}
		f.msg.Tasks = f.spare[:0]
		f.spare = f.spare[:min(tasks, cap(f.spare))] // what is to be cleared next time
	}
	return eachField(data, func(tag uint64, v fieldValue) error {
		var err error
		switch tag {
		case downTasks:
			var t model.ExecTask
			t, err = f.parseTask(v.bytes)
			f.msg.Tasks = append(f.msg.Tasks, t)
		case downAck, downAckOne:
			f.msg.Ack, err = v.appendIDs(f.msg.Ack)
		case downCancel, downCancelOne:
			f.msg.Cancel, err = v.appendIDs(f.msg.Cancel)
		}
		return err
	})
}

func (f *downFrame) unmarshalGenerated(data []byte) error {
	var m pb.ExecutorDown
	if err := proto.Unmarshal(data, &m); err != nil {
		return err //nolint:wrapcheck // wrapped by the codec
	}
	f.msg = executorDownFromWire(&m)
	return nil
}

// parseTask decodes a task. The argument stays in the message's memory.
func (f *downFrame) parseTask(data []byte) (t model.ExecTask, err error) {
	call := true
	err = eachField(data, func(tag uint64, v fieldValue) error {
		switch tag {
		case taskID:
			t.ID = model.TaskID(v.number)
		case taskAttempt:
			t.Attempt = int(v.number) //nolint:gosec // two's complement, as the generated code has it
		case taskTimeout:
			t.TimeoutMilli = int64(v.number) //nolint:gosec // as above
		case taskFunction:
			t.Function, err = f.name(v.bytes)
			return err
		case taskArgument:
			t.Argument = v.bytes
		case taskArgv, taskEnv, taskDir, taskFiles:
			call = false
		}
		return nil
	})
	if err != nil || call {
		return t, err
	}
	var m pb.ExecTask
	if err := proto.Unmarshal(data, &m); err != nil {
		return t, err //nolint:wrapcheck // wrapped by the codec
	}
	return taskFromWire(&m), nil
}

func (f *downFrame) name(b []byte) (string, error) {
	if s, ok := f.names[string(b)]; ok {
		return s, nil
	}
	if !utf8.Valid(b) {
		return "", errors.New("the name of a function is not UTF-8")
	}
	s := string(b)
	if f.names == nil {
		f.names = make(map[string]string)
	}
	if len(f.names) < maxNames {
		f.names[s] = s
	}
	return s, nil
}

func sizeCall(t *model.ExecTask) int {
	return sizeNumber(taskID, uint64(t.ID)) + sizeNumber(taskAttempt, uint64(t.Attempt)) + sizeNumber(taskTimeout, uint64(t.TimeoutMilli)) + //nolint:gosec // two's complement
		sizeText(taskFunction, len(t.Function)) + sizeText(taskArgument, len(t.Argument))
}

func appendCall(b []byte, t *model.ExecTask) []byte {
	b = protowire.AppendVarint(b, downTasks)
	b = protowire.AppendVarint(b, uint64(sizeCall(t))) //nolint:gosec // a size
	b = appendNumber(b, taskID, uint64(t.ID))
	b = appendNumber(b, taskAttempt, uint64(t.Attempt))      //nolint:gosec // two's complement
	b = appendNumber(b, taskTimeout, uint64(t.TimeoutMilli)) //nolint:gosec // as above
	b = appendText(b, taskFunction, t.Function)
	return appendText(b, taskArgument, t.Argument)
}

// upFrame is what an executor sends to its driver.
type upFrame struct {
	msg  model.ExecutorUp
	pool framePool
}

func (f *upFrame) generated() proto.Message { return executorUpToWire(f.msg) }

func (f *upFrame) marshal() (mem.BufferSlice, bool) {
	m := &f.msg
	if m.Hello != nil || m.Beat != nil || m.Chunk != nil || m.Lingering != nil {
		return nil, false
	}
	size := 0
	for i := range m.Results {
		r := &m.Results[i]
		if !utf8.ValidString(r.Error) || !utf8.ValidString(string(r.Outcome)) {
			return nil, false
		}
		size += sizeVarint(upResults) + protowire.SizeBytes(sizeResult(r))
	}
	return f.pool.encode(size, func(b []byte) []byte {
		for i := range m.Results {
			b = appendResult(b, &m.Results[i])
		}
		return b
	}), true
}

func (f *upFrame) unmarshal(data []byte) error {
	f.msg = model.ExecutorUp{}
	results, plain, err := scan(data, upResults)
	if err != nil {
		return fmt.Errorf("a message of an executor: %w", err)
	}
	if !plain {
		var m pb.ExecutorUp
		if err := proto.Unmarshal(data, &m); err != nil {
			return err //nolint:wrapcheck // wrapped by the codec
		}
		f.msg = executorUpFromWire(&m)
		return nil
	}
	if results > 0 {
		f.msg.Results = make([]model.TaskResult, 0, results)
	}
	return eachField(data, func(tag uint64, v fieldValue) error {
		if tag != upResults {
			return nil
		}
		r, err := parseResult(v.bytes)
		f.msg.Results = append(f.msg.Results, r)
		return err
	})
}

//nolint:gosec // numbers are two's complement on the wire
func sizeResult(r *model.TaskResult) int {
	return sizeNumber(resultID, uint64(r.ID)) + sizeNumber(resultAttempt, uint64(r.Attempt)) + sizeText(resultOutcome, len(r.Outcome)) +
		sizeNumber(resultExitCode, protowire.EncodeZigZag(int64(r.ExitCode))) + sizeNumber(resultSignal, uint64(r.Signal)) +
		sizeText(resultError, len(r.Error)) + sizeText(resultStdout, len(r.Stdout)) + sizeText(resultStderr, len(r.Stderr)) +
		sizeNumber(resultStdoutBytes, uint64(r.StdoutBytes)) + sizeNumber(resultStderrBytes, uint64(r.StderrBytes)) +
		sizeNumber(resultRuntime, uint64(r.RuntimeMicro)) + sizeNumber(resultExecutor, uint64(r.Executor)) + sizeText(resultValue, len(r.Value))
}

//nolint:gosec // numbers are two's complement on the wire
func appendResult(b []byte, r *model.TaskResult) []byte {
	b = protowire.AppendVarint(b, upResults)
	b = protowire.AppendVarint(b, uint64(sizeResult(r)))
	b = appendNumber(b, resultID, uint64(r.ID))
	b = appendNumber(b, resultAttempt, uint64(r.Attempt))
	b = appendText(b, resultOutcome, string(r.Outcome))
	b = appendNumber(b, resultExitCode, protowire.EncodeZigZag(int64(r.ExitCode)))
	b = appendNumber(b, resultSignal, uint64(r.Signal))
	b = appendText(b, resultError, r.Error)
	b = appendText(b, resultStdout, r.Stdout)
	b = appendText(b, resultStderr, r.Stderr)
	b = appendNumber(b, resultStdoutBytes, uint64(r.StdoutBytes))
	b = appendNumber(b, resultStderrBytes, uint64(r.StderrBytes))
	b = appendNumber(b, resultRuntime, uint64(r.RuntimeMicro))
	b = appendNumber(b, resultExecutor, uint64(r.Executor))
	return appendText(b, resultValue, r.Value)
}

// parseResult decodes a result. Outputs and value stay in the message's memory.
//
//nolint:gosec // numbers are two's complement on the wire
func parseResult(data []byte) (r model.TaskResult, err error) {
	err = eachField(data, func(tag uint64, v fieldValue) error {
		switch tag {
		case resultID:
			r.ID = model.TaskID(v.number)
		case resultAttempt:
			r.Attempt = int(v.number)
		case resultOutcome:
			r.Outcome = outcomeOf(v.bytes)
		case resultExitCode:
			r.ExitCode = int(protowire.DecodeZigZag(v.number))
		case resultSignal:
			r.Signal = int(v.number)
		case resultError:
			r.Error = string(v.bytes)
		case resultStdout:
			r.Stdout = v.bytes
		case resultStderr:
			r.Stderr = v.bytes
		case resultStdoutBytes:
			r.StdoutBytes = int64(v.number)
		case resultStderrBytes:
			r.StderrBytes = int64(v.number)
		case resultRuntime:
			r.RuntimeMicro = int64(v.number)
		case resultExecutor:
			r.Executor = model.ExecutorID(v.number)
		case resultValue:
			r.Value = v.bytes
		}
		return nil
	})
	if err == nil && (!utf8.ValidString(r.Error) || !utf8.ValidString(string(r.Outcome))) {
		err = errors.New("a text of a result is not UTF-8")
	}
	return r, err
}

// outcomeOf makes no new string of an outcome that is known.
func outcomeOf(b []byte) model.TaskOutcome {
	switch model.TaskOutcome(b) {
	case model.TaskDone:
		return model.TaskDone
	case model.TaskFailed:
		return model.TaskFailed
	case model.TaskTimedOut:
		return model.TaskTimedOut
	case model.TaskKilled:
		return model.TaskKilled
	case model.TaskNotRun:
		return model.TaskNotRun
	}
	return model.TaskOutcome(b)
}
