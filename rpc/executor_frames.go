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
	names    map[string]string
	lastName string // the one that came last
}

// maxNames bounds the names of functions that one stream remembers.
const maxNames = 1024

func (f *downFrame) generated() proto.Message { return executorDownToWire(f.msg) }

func (f *downFrame) marshal() (mem.BufferSlice, bool) {
	m := &f.msg
	if !plainDown(m) {
		return nil, false
	}
	size := sizeIDs(downAck, m.Ack) + sizeIDs(downCancel, m.Cancel)
	for i := range m.Tasks {
		size += sizeVarint(downTasks) + protowire.SizeBytes(sizeCall(&m.Tasks[i]))
	}
	return f.pool.encode(size, func(b []byte) []byte { return appendDown(b, m) }), true
}

// plainDown reports whether a message has only fields that are encoded here.
func plainDown(m *model.ExecutorDown) bool {
	if m.Welcome != nil || m.BeatAck != nil || m.Fetch != nil || m.Stop || len(m.Recall) > 0 {
		return false
	}
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if t.Function == "" || t.Argv != nil || t.Env != nil || t.Dir != "" || t.Files != nil || !utf8.ValidString(t.Function) {
			return false
		}
	}
	return true
}

func appendDown(b []byte, m *model.ExecutorDown) []byte {
	for i := range m.Tasks {
		b = appendCall(b, &m.Tasks[i])
	}
	b = appendIDs(b, downAck, m.Ack)
	return appendIDs(b, downCancel, m.Cancel)
}

func (f *downFrame) unmarshal(data []byte) error {
	clear(f.spare)
	f.msg = model.ExecutorDown{Tasks: f.spare[:0]}
	plain, err := f.parse(data)
	if err == nil && !plain {
		err = f.unmarshalGenerated(data)
	}
	return err
}

// parse adds what is in a message to f.msg; plain is false, and nothing is added,
// if the generated code must decode it. Arguments stay in the message's memory.
func (f *downFrame) parse(data []byte) (plain bool, err error) {
	m := &f.msg
	tasks, acks, cancels := len(m.Tasks), len(m.Ack), len(m.Cancel)
	for len(data) > 0 {
		var v fieldValue
		if data, err = v.consume(data); err != nil {
			return true, fmt.Errorf("a message of a driver: %w", err)
		}
		switch v.tag {
		case downTasks:
			m.Tasks = append(m.Tasks, model.ExecTask{})
			err = f.parseTask(v.bytes, &m.Tasks[len(m.Tasks)-1])
		case downAck, downAckOne:
			m.Ack, err = v.appendIDs(m.Ack)
		case downCancel, downCancelOne:
			m.Cancel, err = v.appendIDs(m.Cancel)
		default:
			m.Tasks, m.Ack, m.Cancel = m.Tasks[:tasks], m.Ack[:acks], m.Cancel[:cancels]
			return false, nil
		}
		if err != nil {
			return true, fmt.Errorf("a message of a driver: %w", err)
		}
	}
	f.spare = m.Tasks
	return true, nil
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
func (f *downFrame) parseTask(data []byte, t *model.ExecTask) error {
	for rest := data; len(rest) > 0; {
		var v fieldValue
		var err error
		if rest, err = v.consume(rest); err != nil {
			return err
		}
		switch v.tag {
		case taskID:
			t.ID = model.TaskID(v.number)
		case taskAttempt:
			t.Attempt = int(v.number) //nolint:gosec // two's complement, as the generated code has it
		case taskTimeout:
			t.TimeoutMilli = int64(v.number) //nolint:gosec // as above
		case taskFunction:
			if t.Function, err = f.name(v.bytes); err != nil {
				return err
			}
		case taskArgument:
			t.Argument = v.bytes
		case taskArgv, taskEnv, taskDir, taskFiles:
			var m pb.ExecTask
			if err := proto.Unmarshal(data, &m); err != nil {
				return err //nolint:wrapcheck // wrapped by the codec
			}
			*t = taskFromWire(&m)
			return nil
		}
	}
	return nil
}

func (f *downFrame) name(b []byte) (string, error) {
	if f.lastName == string(b) {
		return f.lastName, nil
	}
	if s, ok := f.names[string(b)]; ok {
		f.lastName = s
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
	plain, err := f.parse(data)
	if err == nil && !plain {
		err = f.unmarshalGenerated(data)
	}
	return err
}

// parse adds what is in a message to f.msg; plain is false, and nothing is added,
// if the generated code must decode it. Outputs and values stay in the message's
// memory.
func (f *upFrame) parse(data []byte) (plain bool, err error) {
	m := &f.msg
	results := len(m.Results)
	for len(data) > 0 {
		var v fieldValue
		if data, err = v.consume(data); err != nil {
			return true, fmt.Errorf("a message of an executor: %w", err)
		}
		if v.tag != upResults {
			m.Results = m.Results[:results]
			return false, nil
		}
		m.Results = append(m.Results, model.TaskResult{})
		if err = parseResult(v.bytes, &m.Results[len(m.Results)-1]); err != nil {
			return true, fmt.Errorf("a message of an executor: %w", err)
		}
	}
	return true, nil
}

func (f *upFrame) unmarshalGenerated(data []byte) error {
	var m pb.ExecutorUp
	if err := proto.Unmarshal(data, &m); err != nil {
		return err //nolint:wrapcheck // wrapped by the codec
	}
	f.msg = executorUpFromWire(&m)
	return nil
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
func parseResult(data []byte, r *model.TaskResult) (err error) {
	for len(data) > 0 {
		var v fieldValue
		if data, err = v.consume(data); err != nil {
			return err
		}
		switch v.tag {
		case resultID:
			r.ID = model.TaskID(v.number)
		case resultAttempt:
			r.Attempt = int(v.number)
		case resultOutcome:
			if r.Outcome = outcomeOf(v.bytes); !utf8.ValidString(string(r.Outcome)) {
				return errNotUTF8
			}
		case resultExitCode:
			r.ExitCode = int(protowire.DecodeZigZag(v.number))
		case resultSignal:
			r.Signal = int(v.number)
		case resultError:
			if r.Error = string(v.bytes); !utf8.ValidString(r.Error) {
				return errNotUTF8
			}
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
	}
	return nil
}

var errNotUTF8 = errors.New("a text of a result is not UTF-8")

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
	case model.TaskReturned:
		return model.TaskReturned
	}
	return model.TaskOutcome(b)
}
