package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// serveSecured runs a server with a certificate of its own, and returns a
// connection that pins it.
func serveSecured(t testing.TB, change func(*tls.Config) *tls.Config, session func(context.Context, ExecutorSessionStream) error) *Conn {
	t.Helper()
	cfg, pin, err := tlsconf.Ephemeral("driver")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		cfg = change(cfg)
	}
	s, _ := serve(t, ServerConfig{TLS: cfg}, allServices(&fakeServices{executors: session}))
	return dial(t, s.Addr().String(), DialConfig{TLS: tlsconf.Pinned(pin)})
}

// echoTasks answers each result with a task of its number and value, encoded
// beforehand or not.
func echoTasks(_ context.Context, s ExecutorSessionStream) error {
	return untilEnd(s.Recv, func(m model.ExecutorUp) error {
		defer s.Free(m.Results)
		var f Frames
		for i := range m.Results {
			task := model.ExecTask{ID: m.Results[i].ID, Attempt: 1, Function: "f", Argument: m.Results[i].Value}
			if i%2 == 0 {
				f.Begin()
				f.Call(&task)
				f.End()
				continue
			}
			if err := s.SendFrames(&f); err != nil {
				return err
			}
			f.Reset()
			if err := s.Send(model.ExecutorDown{Tasks: []model.ExecTask{task}}); err != nil {
				return err
			}
		}
		return s.SendFrames(&f)
	})
}

func exchange(t *testing.T, es ExecutorSessionClient) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	results := make([]model.TaskResult, 3000)
	for i := range results {
		size := rnd.IntN(300)
		if i%500 == 0 {
			size = 1 << 20 // longer than what is read at once
		}
		results[i] = model.TaskResult{ID: model.TaskID(i + 1), Outcome: model.TaskDone, Value: bytes.Repeat([]byte{byte(i)}, size)}
	}
	sent := make(chan error, 1)
	go func() {
		var f Frames
		for i := range results {
			f.Begin()
			f.Result(&results[i])
			f.End()
			if f.Len() > 40<<10 || i == len(results)-1 {
				if err := es.SendFrames(&f); err != nil {
					sent <- err
					return
				}
				f.Reset()
			}
		}
		sent <- nil
	}()
	var kept []model.ExecTask
	for len(kept) < len(results) {
		m, err := es.Recv()
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, m.Tasks...) // the arguments must not change with the next messages
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for i := range kept {
		if kept[i].ID != results[i].ID || kept[i].Function != "f" || !bytes.Equal(kept[i].Argument, results[i].Value) {
			t.Fatalf("task %d came as number %d with %d bytes, want %d", i+1, kept[i].ID, len(kept[i].Argument), len(results[i].Value))
		}
	}
}

func TestAnExecutorAndItsDriverSpeakFramesOverTLS(t *testing.T) {
	t.Parallel()
	es, err := OpenExecutorSession(testContext(t), serveSecured(t, nil, echoTasks))
	if err != nil {
		t.Fatal(err)
	}
	defer es.Close()
	if _, ok := es.(*directExecutorEnd); !ok {
		t.Fatalf("the stream is a %T, not one of frames", es)
	}
	exchange(t, es)
}

func TestAnExecutorSpeaksGRPCToADriverThatKnowsNothingElse(t *testing.T) {
	t.Parallel()
	conn := serveSecured(t, func(cfg *tls.Config) *tls.Config {
		old := cfg.Clone()
		old.NextProtos = []string{"h2"}
		cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return old, nil }
		return cfg
	}, echoTasks)
	for range 2 { // the second time it is known
		es, err := OpenExecutorSession(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := es.(*executorEnd); !ok {
			t.Fatalf("the stream is a %T, want one of gRPC", es)
		}
		exchange(t, es)
		if err := es.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARefusalReachesAnExecutorThatIsStillSending(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  error
		want func(error) bool
	}{
		"refused":       {model.ErrRefused, func(err error) bool { return errors.Is(err, model.ErrRefused) }},
		"without error": {nil, func(err error) bool { return errors.Is(err, io.EOF) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			es, err := OpenExecutorSession(testContext(t), serveSecured(t, nil, func(_ context.Context, s ExecutorSessionStream) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				return tc.end
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer es.Close()
			sending := make(chan struct{})
			go func() {
				defer close(sending)
				big := model.ExecutorUp{Results: []model.TaskResult{{ID: 1, Value: make([]byte, 1<<20)}}}
				for es.Send(big) == nil { // until the driver has closed the connection
				}
			}()
			if _, err := es.Recv(); !tc.want(err) {
				t.Errorf("the executor is told %v", err)
			}
			_ = es.Close()
			<-sending
		})
	}
}

func TestAPanicInTheSessionOfAnExecutorEndsOnlyThat(t *testing.T) {
	t.Parallel()
	conn := serveSecured(t, nil, func(context.Context, ExecutorSessionStream) error { panic("a mistake") })
	for range 2 {
		es, err := OpenExecutorSession(testContext(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := es.Recv(); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("the executor is told %v", err)
		}
		_ = es.Close()
	}
}

func TestAnExecutorIsToldWhichCertificateItMet(t *testing.T) {
	t.Parallel()
	conn := serveSecured(t, nil, echoTasks)
	_, other, err := tlsconf.Ephemeral("another driver")
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenExecutorSession(testContext(t), dial(t, conn.Addr(), DialConfig{TLS: tlsconf.Pinned(other)}))
	if !errors.Is(err, model.ErrUnavailable) || !errors.Is(err, tlsconf.ErrWrongPin) {
		t.Errorf("got error %v, want ErrUnavailable and ErrWrongPin", err)
	}
}

// FuzzExecutorFrames: whatever comes in over a stream of frames, in whatever
// pieces, is a message or an error at either end.
func FuzzExecutorFrames(f *testing.F) {
	var up, down Frames
	up.Begin()
	up.Result(&model.TaskResult{ID: 1, Attempt: 1, Outcome: model.TaskDone, Value: []byte("v")})
	up.End()
	down.Begin()
	down.Acks([]model.TaskID{1, 2})
	down.Call(&model.ExecTask{ID: 3, Attempt: 1, Function: "f", Argument: []byte("a")})
	down.End()
	f.Add(up.buf)
	f.Add(down.buf)
	f.Add(bytes.Repeat(down.buf, 3)[:2*len(down.buf)+3])
	f.Add([]byte{frameEnd, 0, 0, 0, 2, 8, 7})
	f.Add([]byte{frameMessage, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var tasks, results [2]int
		for i, src := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			x := &directExecutorEnd{frameConn: frameConn{in: frameReader{src: src, limit: MaxReplyBytes}}}
			for {
				m, err := x.Recv()
				if err != nil {
					break
				}
				tasks[i] += len(m.Tasks)
			}
			if cap(x.in.buf) > 2*len(data)+frameChunk {
				t.Fatalf("%d bytes came in and %d are held", len(data), cap(x.in.buf))
			}
		}
		for i, src := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			d := &directDriverEnd{frameConn: frameConn{in: frameReader{src: src, limit: MaxMessageBytes}}, reading: make(chan struct{}, 1)}
			for {
				m, err := d.Recv()
				if err != nil {
					break
				}
				results[i] += len(m.Results)
				d.Free(m.Results)
			}
		}
		// Several messages that come together are taken as one, or not at all if one
		// of them is wrong.
		if tasks[0] > tasks[1] || results[0] > results[1] {
			t.Fatalf("%v tasks and %v results came, in one piece and byte by byte", tasks, results)
		}
	})
}
