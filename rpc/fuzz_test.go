package rpc

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/hearthd/hearth/model"
	pb "github.com/hearthd/hearth/proto/cluster/v1"
)

// fuzzPatience bounds one hostile exchange.
const fuzzPatience = 2 * time.Second

// fuzzTarget is a running server and a connection that must go on working.
type fuzzTarget struct {
	addr    string
	conn    *Conn
	service string
	methods []grpc.MethodInfo
}

func newFuzzTarget(f *testing.F, service string) *fuzzTarget {
	f.Helper()
	s, _ := serve(f, ServerConfig{}, allServices(&fakeServices{}))
	name := "hearth.cluster.v1." + service
	info := s.grpc.GetServiceInfo()[name]
	methods := slices.SortedFunc(slices.Values(info.Methods), func(a, b grpc.MethodInfo) int { return strings.Compare(a.Name, b.Name) })
	if len(methods) == 0 {
		f.Fatalf("no service %s", name)
	}
	return &fuzzTarget{addr: s.Addr().String(), conn: dial(f, s.Addr().String(), DialConfig{}), service: name, methods: methods}
}

// rawBytes sends data to the listener as it is.
func (x *fuzzTarget) rawBytes(t *testing.T, data []byte) {
	c, err := net.DialTimeout("tcp", x.addr, fuzzPatience)
	if err != nil {
		t.Fatalf("the listener is gone: %v", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(fuzzPatience)); err != nil {
		t.Fatal(err)
	}
	// The server may close while we write; that is its right.
	if _, err := c.Write(data); err != nil {
		return
	}
	_, _ = c.Read(make([]byte, 64))
}

// body sends data as the message of a method. An index beyond the methods asks
// for one that does not exist.
func (x *fuzzTarget) body(t *testing.T, index int, data []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), fuzzPatience)
	defer cancel()
	ctx = withCall(ctx, x.conn, CallInfo{RequestID: "fuzz"})
	m := grpc.MethodInfo{Name: "Nonesuch"}
	if index < len(x.methods) {
		m = x.methods[index]
	}
	name := "/" + x.service + "/" + m.Name
	if !m.IsClientStream && !m.IsServerStream {
		// Any answer will do, but an answer: a hang ends as a deadline.
		err := fromStatus(x.conn.cc.Invoke(ctx, name, &rawFrame{data: data}, &rawFrame{}))
		if ctx.Err() != nil {
			t.Fatalf("%s hangs: %v", name, err)
		}
		return
	}
	s, err := x.conn.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, name)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	for range 2 {
		if err := s.SendMsg(&rawFrame{data: data}); err != nil {
			break // the server has ended the stream
		}
	}
	_ = s.CloseSend()
	for {
		if err := s.RecvMsg(&rawFrame{}); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		t.Fatalf("%s hangs", name)
	}
}

func (x *fuzzTarget) stillServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := ClusterClient(x.conn).Staleness(ctx); err != nil {
		t.Fatalf("the server does not answer any more: %v", err)
	}
}

// hostileHTTP2 are opening bytes of connections that know some HTTP/2.
func hostileHTTP2(path string) [][]byte {
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"grpc-timeout", "1S"},
	} {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // to memory
	}
	build := func(frames func(*http2.Framer)) []byte {
		b := bytes.NewBufferString(http2.ClientPreface)
		fr := http2.NewFramer(b, nil)
		fr.AllowIllegalWrites = true
		_ = fr.WriteSettings()
		frames(fr)
		return b.Bytes()
	}
	open := func(fr *http2.Framer) {
		_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	}
	return [][]byte{
		[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		{0x16, 0x03, 0x01, 0x02, 0x00, 0x01},
		[]byte(http2.ClientPreface),
		build(func(fr *http2.Framer) { // a message that claims 4 GiB
			open(fr)
			_ = fr.WriteData(1, true, []byte{0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3})
		}),
		build(func(fr *http2.Framer) { // a compressed message nobody agreed on
			open(fr)
			_ = fr.WriteData(1, true, []byte{1, 0, 0, 0, 1, 0})
		}),
		build(func(fr *http2.Framer) { // data and resets on streams never opened
			_ = fr.WriteData(7, true, []byte{0, 0, 0, 0, 0})
			_ = fr.WriteRSTStream(9, http2.ErrCodeInternal)
		}),
		build(func(fr *http2.Framer) {
			_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 2, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}),
		build(func(fr *http2.Framer) { _ = fr.WriteRawFrame(0xfa, 0xff, 0xffffffff, make([]byte, 100)) }),
	}
}

func fuzzListener(f *testing.F, service string, seeds ...proto.Message) {
	x := newFuzzTarget(f, service)
	for i := range len(x.methods) + 1 {
		f.Add(true, uint8(i), []byte{})
		f.Add(true, uint8(i), []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
		f.Add(true, uint8(i), bytes.Repeat([]byte{0x0a, 0x02}, 64))
	}
	for _, m := range seeds {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for i := range x.methods {
			f.Add(true, uint8(i), data)
		}
	}
	for _, data := range hostileHTTP2("/" + x.service + "/" + x.methods[0].Name) {
		f.Add(false, uint8(0), data)
	}
	f.Fuzz(func(t *testing.T, framed bool, method uint8, data []byte) {
		if framed {
			x.body(t, int(method)%(len(x.methods)+1), data)
		} else {
			x.rawBytes(t, data)
		}
		x.stillServes(t)
	})
}

func FuzzClusterListener(f *testing.F) {
	fuzzListener(f, "Cluster",
		&pb.RegisterAppRequest{Spec: specToWire(commandSpec)},
		&pb.RegisterAppsRequest{Submissions: []*pb.Submission{submissionToWire(Submission{RequestID: "r", Base: 1, Spec: commandSpec}), nil}},
		setTargetsToWire(SetTargetsRequest{App: "a", Totals: map[int]int{0: -1}, Profiles: map[int]model.Profile{1: {Cores: -5}}}),
		logRequestToWire(LogRequest{Stream: LogStdout, Offset: -1 << 63}))
}

func FuzzWorkerSessionsListener(f *testing.F) {
	fuzzListener(f, "WorkerSessions",
		workerUpToWire(model.WorkerUp{Hello: &model.WorkerHello{Worker: "w", Inventory: []model.ExecutorReport{{PID: -1}}}}),
		workerUpToWire(model.WorkerUp{Beat: &model.Beat{Number: 1}}),
		workerUpToWire(model.WorkerUp{Report: &model.WorkerReport{Seq: 1<<64 - 1}}))
}

func FuzzDriverSessionsListener(f *testing.F) {
	fuzzListener(f, "DriverSessions",
		driverUpToWire(model.DriverUp{Hello: &model.DriverHello{App: "a", Token: "t"}}),
		driverUpToWire(model.DriverUp{Confirm: []model.ExecutorID{-1, 1 << 62}}))
}

func FuzzPeerListener(f *testing.F) {
	fuzzListener(f, "Peer",
		promiseToWire(PromiseRequest{From: "m", Expect: -1}),
		hashReportToWire(HashReport{From: "m"}), &pb.HashReport{Hash: []byte{1}})
}

func FuzzWorkerListener(f *testing.F) {
	fuzzListener(f, "Worker", logRequestToWire(LogRequest{Stream: LogStderr, Follow: true}))
}

func FuzzExecutorsListener(f *testing.F) {
	fuzzListener(f, "Executors",
		executorUpToWire(model.ExecutorUp{Hello: &model.ExecutorHello{App: "a", Executor: -1}}),
		executorUpToWire(model.ExecutorUp{Results: []model.TaskResult{{ID: 1, Stdout: []byte("x")}}, Beat: &model.Beat{}}))
}

func FuzzContentListener(f *testing.F) {
	fuzzListener(f, "Content",
		&pb.ContentRequest{Executor: refToWire(model.ExecutorRef{App: "a", Executor: -1}), Sha256: strings.Repeat("a", model.DigestBytes), Offset: -1},
		&pb.ContentHeld{Sha256: []string{"", "x"}})
}

// FuzzErrorDetail: what a hostile server sends as an error is an error.
func FuzzErrorDetail(f *testing.F) {
	seed, err := proto.Marshal(&pb.ErrorDetail{Codes: []pb.ErrorCode{1, 99}, Rejection: "X", LeaderAddr: "m:1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		detail := &pb.ErrorDetail{}
		if proto.Unmarshal(data, detail) != nil {
			return
		}
		for _, w := range wrapsOf(detail) {
			if w == nil || w.Error() == "" {
				t.Fatalf("an empty error came from %x", data)
			}
		}
	})
}
