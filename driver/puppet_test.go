package driver

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// puppet is an executor that tests play by hand.
type puppet struct {
	t      *testing.T
	id     model.ExecutorID
	conn   *rpc.Conn
	stream rpc.ExecutorSessionClient
	down   chan model.ExecutorDown
	ended  chan error
}

// connect opens a stream and says hello; the welcome is read by the caller.
func connect(t *testing.T, addr string, hello model.ExecutorHello) *puppet {
	t.Helper()
	conn, err := rpc.Dial(addr, rpc.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := &puppet{t: t, id: hello.Executor, conn: conn, down: make(chan model.ExecutorDown, 4096), ended: make(chan error, 1)}
	if p.stream, err = rpc.OpenExecutorSession(context.Background(), conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	_ = p.stream.Send(model.ExecutorUp{Hello: &hello}) // Recv has the reason
	go func() {
		for {
			m, err := p.stream.Recv()
			if err != nil {
				p.ended <- err
				return
			}
			m.Tasks = slices.Clone(m.Tasks) // valid until the next Recv
			p.down <- m
		}
	}()
	return p
}

// join connects an executor that the cluster has placed.
func (r *rig) join(addr string, id model.ExecutorID, running ...model.TaskID) *puppet {
	r.t.Helper()
	p := connect(r.t, addr, helloOf(id, running...))
	if m := p.next(); m.Welcome == nil {
		r.t.Fatalf("the first message is %+v, want a welcome", m)
	}
	return p
}

func helloOf(id model.ExecutorID, running ...model.TaskID) model.ExecutorHello {
	return model.ExecutorHello{App: testApp, Executor: id, Secret: secretOf(id), Cores: 1, Host: "h", PID: 4, Running: running}
}

func (p *puppet) close() {
	_ = p.stream.Close()
	_ = p.conn.Close()
}

// next is the next message but beats' answers.
func (p *puppet) next() model.ExecutorDown {
	p.t.Helper()
	for {
		select {
		case m := <-p.down:
			if m.BeatAck == nil {
				return m
			}
		case err := <-p.ended:
			p.t.Fatalf("executor %d: the stream ended: %v", p.id, err)
		case <-time.After(patience):
			p.t.Fatalf("executor %d: no message", p.id)
		}
	}
}

// refusal is the error with which the driver ends the stream.
func (p *puppet) refusal() error {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(patience):
		p.t.Fatalf("executor %d: the stream does not end", p.id)
		return nil
	}
}

// tasks waits for n tasks.
func (p *puppet) tasks(n int) []model.ExecTask {
	p.t.Helper()
	var out []model.ExecTask
	for len(out) < n {
		out = append(out, p.next().Tasks...)
	}
	return out
}

// report sends results and waits for nothing.
func (p *puppet) report(results ...model.TaskResult) {
	p.t.Helper()
	if err := p.stream.Send(model.ExecutorUp{Results: results}); err != nil {
		p.t.Fatalf("executor %d: %v", p.id, err)
	}
}

func done(t model.ExecTask) model.TaskResult {
	return model.TaskResult{
		ID: t.ID, Attempt: t.Attempt, Outcome: model.TaskDone,
		Stdout: []byte(t.Argv[0]), StdoutBytes: int64(len(t.Argv[0])),
	}
}

// resultOf is done for an attempt.
func resultOf(t model.ExecTask, attempt int) model.TaskResult {
	r := done(t)
	r.Attempt = attempt
	return r
}
