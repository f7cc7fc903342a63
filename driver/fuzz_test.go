package driver

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// noConfirm stands for a session with the leader.
type noConfirm struct{}

func (noConfirm) Confirm(...model.ExecutorID) {}

// bare runs a driver's loop without a cluster, with executor 0 announced and
// tasks 1 to 3 queued.
func bare(tb testing.TB) (d *Driver, stop func()) {
	tb.Helper()
	c, err := client.New(client.Config{Masters: []string{"127.0.0.1:1"}})
	if err != nil {
		tb.Fatal(err)
	}
	d, err = New(Config{
		plain:  true,
		Client: c, AnnounceWait: time.Millisecond, Spec: model.AppSpec{Name: "fuzz", Profile: model.Profile{MemoryMiB: 1}},
		Spill: func(Spill) (io.WriteCloser, error) { return &memoryFile{}, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	d.app.Store(&rpc.RegisterAppReply{App: testApp})
	d.news.Linked(true)
	l := newLoop(d, noConfirm{})
	l.announced(model.DriverExecutor{ID: 0, Cores: 2, State: model.ExecutorRunning, Secret: secretOf(0)})
	for range 3 {
		if _, err := d.Submit(context.Background(), Task{Argv: []string{"t"}}); err != nil {
			tb.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go d.pump(ctx)
	go func() {
		d.err = l.run(ctx, nil, nil)
		close(d.done)
		l.abandon()
		for _, msg := range d.mail.close() {
			refuse(msg)
		}
		d.out.close()
	}()
	return d, func() {
		cancel()
		<-d.done
		_ = c.Close()
	}
}

// byteStream is an executor whose messages come from bytes.
type byteStream struct {
	data []byte
	ctx  context.Context
}

func (s *byteStream) Send(model.ExecutorDown) error { return nil }

func (s *byteStream) SendFrames(*rpc.Frames) error { return nil }

func (s *byteStream) Free([]model.TaskResult) {}

func (s *byteStream) number() int64 {
	n, size := binary.Varint(s.data)
	if size <= 0 {
		s.data = nil
		return 0
	}
	s.data = s.data[size:]
	return n
}

func (s *byteStream) Recv() (model.ExecutorUp, error) {
	if len(s.data) == 0 {
		return model.ExecutorUp{}, io.EOF
	}
	kind := s.data[0]
	s.data = s.data[1:]
	switch kind % 5 {
	case 0:
		h := helloOf(0, model.TaskID(s.number()), model.TaskID(s.number()))
		h.Executor = model.ExecutorID(s.number())
		return model.ExecutorUp{Hello: &h}, nil
	case 1:
		return model.ExecutorUp{Beat: &model.Beat{Number: uint64(s.number())}}, nil
	case 2, 3:
		r := model.TaskResult{
			ID: model.TaskID(s.number()), Attempt: int(s.number()), Outcome: model.TaskDone,
			StdoutBytes: s.number(), StderrBytes: s.number(), Stdout: s.data,
		}
		return model.ExecutorUp{Results: []model.TaskResult{r, r}}, nil
	}
	return model.ExecutorUp{Chunk: &model.OutputChunk{
		ID: model.TaskID(s.number()), Offset: s.number(), Stderr: kind > 127, Data: s.data,
	}}, nil
}

// FuzzExecutorMessages: whatever an executor with the right secret says, each
// task has at most one result and the loop's books stay right.
func FuzzExecutorMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 2, 2, 2, 0, 0, 2, 4, 2, 0, 0})
	f.Add([]byte{0, 2, 4, 0, 2, 2, 2, 20, 0, 4, 2, 0, 'x', 'y', 3, 2, 2, 0, 0})
	f.Add([]byte{0, 0, 0, 14})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		d, stop := bare(t)
		defer stop()
		seen := make(chan map[model.TaskID]int)
		go func() {
			got := map[model.TaskID]int{}
			for r := range d.Results() {
				got[r.ID]++
			}
			seen <- got
		}()
		for range 2 { // and once more on a second stream
			ctx, cancel := context.WithCancel(context.Background())
			_ = hub{d}.ExecutorSession(ctx, &byteStream{data: data, ctx: ctx})
			cancel()
		}
		if err := d.call(context.Background(), func(l *loop) { checkBooks(t, l) }); err != nil {
			t.Error(err)
		}
		stop()
		for id, n := range <-seen {
			if n > 1 || id < 1 || id > 3 {
				t.Errorf("task %d has %d results", id, n)
			}
		}
	})
}

// checkBooks compares what the loop counts with what is.
func checkBooks(t *testing.T, l *loop) {
	t.Helper()
	running, queued := 0, 0
	for _, rec := range l.tasks.All() {
		id := rec.spec.ID
		switch rec.state {
		case taskRunning:
			running++
		case taskQueued:
			queued++
		case taskOver:
			t.Errorf("task %d is over and still in the table", id)
		}
		if held := rec.state == taskRunning || rec.state == taskFetching; held != (rec.at != nil) || held && !slices.Contains(rec.at.tasks(), rec) {
			t.Errorf("task %d in state %d is held by %v", id, rec.state, rec.at)
		}
	}
	busy := 0
	for _, m := range l.members {
		busy += m.busy
	}
	if running != l.running || busy != running || queued != l.queued() {
		t.Errorf("running %d, busy %d, queued %d, counted %d and %d", running, busy, queued, l.running, l.queued())
	}
	if len(l.order) != len(l.byConn) {
		t.Errorf("%d executors in order, %d connected", len(l.order), len(l.byConn))
	}
}

// FuzzListener: hostile bytes on the driver's port end their own connection
// only.
func FuzzListener(f *testing.F) {
	preface := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte(preface))
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	f.Add([]byte(preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x09\x00\x00\x00\x01"))
	f.Add([]byte{0x16, 0x03, 0x01, 0, 1, 0})
	d, stop := bare(f)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	srv := rpc.NewServer(rpc.ServerConfig{Listener: l}, rpc.Services{Executors: hub{d}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	f.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		stop()
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("the driver does not listen any more: %v", err)
		}
		_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = conn.Write(data)
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if err := d.call(context.Background(), func(l *loop) { checkBooks(t, l) }); err != nil {
			t.Fatalf("the driver has ended: %v", err)
		}
	})
}
