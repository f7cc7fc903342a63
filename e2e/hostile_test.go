//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/hearthd/hearth/internal/tlsconf"
)

const (
	hostileTimeout  = 300 * time.Millisecond // of one connection
	hostileAtOnce   = 16
	http2Preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	hostileSeed     = 20261130
	oversizedBytes  = 8 << 20
	randomPerLength = 3
	// hostileMemoryMiB is more than a daemon of a small cluster ever needs.
	hostileMemoryMiB = 512
)

// hostileBytes are what strangers send: random, and near to what each
// protocol expects.
func hostileBytes() map[string][]byte {
	rnd := rand.New(rand.NewPCG(hostileSeed, 0))
	random := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(rnd.Uint32())
		}
		return out
	}
	out := map[string][]byte{
		"nothing": nil,
		"http/1":  []byte("GET /json HTTP/1.1\r\nHost: x\r\n\r\n"), "http garbage": []byte("GET / HTTP/9.9\r\n\x00\x01\r\n\r\n"),
		"long header": []byte("GET / HTTP/1.1\r\nX: " + strings.Repeat("y", 1<<20)),
		"post":        []byte("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nabc"),
		"traversal":   []byte("GET /../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n"),
		"tls hello":   append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, random(508)...),
		"preface":     []byte(http2Preface), "preface and garbage": append([]byte(http2Preface), random(4096)...),
		"huge frame":     append([]byte(http2Preface), 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1),
		"settings flood": append([]byte(http2Preface), []byte(strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 5000))...),
		"ping flood":     append([]byte(http2Preface), []byte(strings.Repeat("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678", 5000))...),
		"headers":        append([]byte(http2Preface), append([]byte{0, 0, 16, 1, 5, 0, 0, 0, 1}, random(16)...)...),
		"zeros":          make([]byte, 64<<10),
	}
	// Raft: one byte of type, then msgpack; 0xdf and 0xdd announce maps and
	// arrays of 2^32-1 elements, 0xc6 as many bytes.
	for kind := range 8 {
		for _, body := range [][]byte{random(512), {0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0xc6, 0xff, 0xff, 0xff, 0xff}, {0x80}, {0xc0}} {
			out[fmt.Sprintf("raft %d %x", kind, body[:1])] = append([]byte{byte(kind)}, body...)
		}
	}
	// Memberlist: one byte of type; 6 is push and pull, 9 compressed, 10
	// encrypted, 244 labelled.
	for _, kind := range []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 244} {
		head := binary.BigEndian.AppendUint32([]byte{kind}, 0xffffffff)
		out[fmt.Sprintf("memberlist %d length", kind)] = append(head, random(64)...)
		out[fmt.Sprintf("memberlist %d random", kind)] = append([]byte{kind}, random(256)...)
	}
	for _, n := range []int{1, 9, 100, 1400, 64 << 10} {
		for i := range randomPerLength {
			out[fmt.Sprintf("random %d %d", n, i)] = random(n)
		}
	}
	return out
}

// Whatever strangers send to a port, the processes live and the state is
// unchanged (the fuzz targets of the packages go deeper).
func TestHostileBytesOnEveryPortChangeNothing(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2})
	app := c.run(t, "submit", "--executors", "2", "--", "sleep", "600").wantCode(t, 0).app(t)
	before := pids(c.awaitRunning(t, app, 2))
	c.sameState(t)
	leader := c.leader(t)
	view, err := leader.view()
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(hostileAtOnce)
	started, sent := time.Now(), 0
	payloads := hostileBytes()
	for _, n := range c.nodes() {
		for _, addr := range []string{n.GRPC, n.Raft, n.Serf, n.HTTP} {
			if addr == "" {
				continue
			}
			for _, data := range payloads {
				sent++
				g.Go(func() error { sendTCP(addr, data); return nil })
				if addr == n.Serf && len(data) <= 1400 {
					sendUDP(t, addr, data)
				}
			}
		}
	}
	_ = g.Wait() // strangers get no promise
	t.Logf("%d hostile connections in %s", sent, time.Since(started).Round(time.Millisecond))
	for _, n := range c.nodes() {
		if !n.proc.alive() {
			t.Errorf("%s died", n.name)
		} else if peak := peakMiB(t, n.proc.pid); peak > hostileMemoryMiB {
			t.Errorf("%s needed %d MiB", n.name, peak)
		}
	}
	c.sameState(t)
	after, err := c.leader(t).view()
	if err != nil {
		t.Fatal(err)
	}
	if after.StateHash != view.StateHash {
		t.Errorf("the state changed: %+v, was %+v", after, view)
	}
	if c.leader(t) != leader || after.Staleness.Term != view.Staleness.Term {
		t.Errorf("leadership moved from %s in term %d to %s in term %d", view.Staleness.Leader, view.Staleness.Term, after.Staleness.Leader, after.Staleness.Term)
	}
	for id, pid := range pids(c.awaitRunning(t, app, 2)) {
		if before[id] != pid {
			t.Errorf("executor %d is process %d, was %d", id, pid, before[id])
		}
	}
}

// sendTCP writes data and reads what comes until the other side hangs up or
// time is over.
func sendTCP(addr string, data []byte) {
	conn, err := net.DialTimeout("tcp", addr, hostileTimeout)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(hostileTimeout))
	_, _ = conn.Write(data)
	_, _ = io.Copy(io.Discard, conn)
}

func sendUDP(t *testing.T, addr string, data []byte) {
	t.Helper()
	conn, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write(data)
}

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot receive into a %T", v)
	}
	*b = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = rawCodec{}

// Calls that are well-formed gRPC and still wrong get an error that says so.
func TestUnknownMethodsAndBadMessagesAreAnsweredWithErrors(t *testing.T) {
	c := newCluster(t, size{workers: 1})
	c.sameState(t)
	before, err := c.leader(t).view()
	if err != nil {
		t.Fatal(err)
	}
	var stranger *tls.Config // nobody else gets as far with a worker
	if secure() {
		_, stranger = c.issue(t, tlsconf.RoleMaster, "stranger")
	}
	for _, n := range []*node{c.masters[0], c.masters[1], c.masters[2], c.workers[0]} {
		creds := insecure.NewCredentials()
		if secure() {
			creds = credentials.NewTLS(tlsconf.ForHost(stranger, "127.0.0.1"))
		}
		conn, err := grpc.NewClient("passthrough:///"+n.GRPC, grpc.WithTransportCredentials(creds), grpc.WithNoProxy())
		if err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			method string
			body   []byte
			code   []codes.Code // nil: any error
		}{
			{"/no.such.Service/Method", nil, []codes.Code{codes.Unimplemented}},
			{"/hearth.cluster.v1.Cluster/NoSuchMethod", nil, []codes.Code{codes.Unimplemented}},
			{"/" + strings.Repeat("x", 3000), nil, nil},
			{"/hearth.cluster.v1.Cluster/RegisterApp", []byte("\xff\xff\xff\xff\xff"), nil},
			{"/hearth.cluster.v1.Cluster/RegisterApp", nil, nil},
			{"/hearth.cluster.v1.Cluster/KillApp", nil, nil},
			{"/hearth.cluster.v1.Cluster/SetSettings", nil, nil},
			{"/hearth.cluster.v1.Cluster/RegisterApp", make([]byte, oversizedBytes), nil},
			{"/hearth.cluster.v1.Worker/ReadLog", []byte("\x0a\xff\xff\xff\x7f"), nil},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			var reply []byte
			err := conn.Invoke(ctx, tc.method, tc.body, &reply, grpc.ForceCodecV2(rawCodec{}))
			cancel()
			code := status.Code(err)
			if err == nil || errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded {
				t.Errorf("%s: %s with %d bytes: %v", n.name, clip(tc.method), len(tc.body), err)
			}
			for _, want := range tc.code {
				if code != want {
					t.Errorf("%s: %s: code %s, want %s", n.name, clip(tc.method), code, want)
				}
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	c.sameState(t)
	after, err := c.leader(t).view()
	if err != nil {
		t.Fatal(err)
	}
	if after.StateHash != before.StateHash {
		t.Errorf("the state changed: %+v, was %+v", after, before)
	}
}
