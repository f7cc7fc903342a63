package raftnode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

func TestAHelloReadsBackAsItWasWritten(t *testing.T) {
	for _, want := range []hello{
		{},
		{Cluster: ourCluster().ClusterIdentity, From: "m1", To: "m2"},
		{Verdict: verdictRefused, From: "m1", Reason: "another cluster"},
		{From: model.MasterID(strings.Repeat("i", maxIDBytes)), Reason: strings.Repeat("r", maxReasonBytes)},
	} {
		stream := bytes.NewReader(append(want.append(nil), "raft"...))
		got, err := readHello(stream)
		if err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("hello (-want +got):\n%s", diff)
		}
		if rest, _ := io.ReadAll(stream); string(rest) != "raft" {
			t.Errorf("left for the library: got %q, want %q", rest, "raft")
		}
	}
}

func TestAMalformedHelloIsAnError(t *testing.T) {
	good := hello{Cluster: ourCluster().ClusterIdentity, From: "m1", To: "m2"}.append(nil)
	edit := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good)) }
	for name, c := range map[string]struct {
		bytes []byte
		want  error
	}{
		"nothing":                {nil, io.EOF},
		"an HTTP request":        {[]byte("GET / HTTP/1.1\r\n\r\n"), errNotHearth},
		"cut in the body":        {good[:len(good)-1], io.ErrUnexpectedEOF},
		"a later version":        {edit(func(b []byte) []byte { b[len(helloMagic)+1]++; return b }), errHelloVersion},
		"a body beyond the size": {edit(func(b []byte) []byte { b[len(helloMagic)+2] = 0xff; return b }), errBadHello},
		"an unknown verdict":     {edit(func(b []byte) []byte { b[helloHeaderSize] = 9; return b }), errBadHello},
		"a text beyond the body": {edit(func(b []byte) []byte { b[helloHeaderSize+1] = 1; return b }), errBadHello},
		"bytes behind the body":  {edit(func(b []byte) []byte { b[len(helloMagic)+3]++; return append(b, 0) }), errBadHello},
	} {
		if _, err := readHello(bytes.NewReader(c.bytes)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// streamPair returns the streams of two masters on loopback.
func streamPair(t *testing.T, a, b Identity) (*helloStream, *helloStream, *logBuffer) {
	t.Helper()
	log, buf := newLog(t)
	open := func(id model.MasterID, identity Identity) *helloStream {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := newHelloStream(NewTCPStream(listener, "", StreamTLS{}), id, identity, log)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close %s: %v", id, err)
			}
		})
		return s
	}
	return open("m1", a), open("m2", b), buf
}

func TestOnlyAMemberOfTheSameClusterGetsThrough(t *testing.T) {
	ours := ourCluster()
	foreign := testIdentity{model.ClusterIdentity{ID: "cluster-b", Epoch: 1, EpochID: 5}}
	stale := testIdentity{model.ClusterIdentity{ID: "cluster-a", Epoch: 0, EpochID: 77}}
	split := testIdentity{model.ClusterIdentity{ID: "cluster-a", Epoch: 1, EpochID: 78}}
	for _, c := range []struct {
		name string
		peer Identity
		to   model.MasterID
		want string
	}{
		{"the same cluster", ours, "m2", ""},
		{"a node that has yet to join", testIdentity{}, "m2", ""},
		{"another cluster", foreign, "m2", "other cluster"},
		{"an older epoch", stale, "m2", "recovery epoch"},
		{"the same epoch recovered twice", split, "m2", "recovery epoch"},
		{"another master at the address", ours, "m3", "the peer wants master m3, this is m2"},
		{"its own address", ours, "m1", "the peer wants master m1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dialer, listener, log := streamPair(t, c.peer, ours)
			conn, err := dialer.Dial(routeTo(c.to, listener.Addr().String()), time.Second)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				accepted, err := listener.Accept()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 1)
				if _, err := io.ReadFull(accepted, got); err != nil || got[0] != 'x' {
					t.Errorf("first byte after the handshake: got %q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			for range 3 {
				_, _ = dialer.Dial(routeTo(c.to, listener.Addr().String()), time.Second)
			}
			if got := strings.Count(log.String(), "\n"); got > 2 {
				t.Errorf("lines about the refusal: got %d, want one at each end:\n%s", got, log)
			}
		})
	}
}

func TestASilentStrangerHoldsUpNobody(t *testing.T) {
	dialer, listener, _ := streamPair(t, ourCluster(), ourCluster())
	for range 10 {
		silent, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = silent.Close() }()
	}
	if _, err := dialer.Dial(routeTo("m2", listener.Addr().String()), time.Second); err != nil {
		t.Errorf("dial beside silent strangers: %v", err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	_, listener, _ := streamPair(t, ourCluster(), ourCluster())
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			_ = conn.Close()
		}
	}()
	for range maxInbound + 1 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	last := open[maxInbound]
	if err := last.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection over the limit: got %v, want it closed", err)
	}
}

func TestMessagesTheLibraryWouldPanicOnAreRefused(t *testing.T) {
	members := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{{ID: "m1", Address: "a:1"}}})
	entry := func(index uint64, kind raft.LogType, data []byte) *raft.Log {
		return &raft.Log{Index: index, Term: 1, Type: kind, Data: data}
	}
	for _, c := range []struct {
		name    string
		message any
		ok      bool
	}{
		{"entries in order", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry(1, raft.LogConfiguration, members), entry(2, raft.LogCommand, nil)}}, true},
		{"a vote", &raft.RequestVoteRequest{}, true},
		{"a snapshot", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: members}, true},
		{"a membership of garbage", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry(1, raft.LogConfiguration, []byte{0xff})}}, false},
		{"an empty membership", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry(1, raft.LogConfiguration, nil)}}, false},
		{"an unknown entry type", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry(1, 99, nil)}}, false},
		{"a missing entry", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{nil}}, false},
		{"a gap", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{entry(2, raft.LogCommand, nil)}}, false},
		{"an entry from a later term", &raft.AppendEntriesRequest{Term: 0, Entries: []*raft.Log{entry(1, raft.LogCommand, nil)}}, false},
		{"a snapshot without members", &raft.InstallSnapshotRequest{SnapshotVersion: 1}, false},
		{"a snapshot of an old version", &raft.InstallSnapshotRequest{Configuration: members}, false},
		{"a snapshot of negative size", &raft.InstallSnapshotRequest{SnapshotVersion: 1, Configuration: members, Size: -1}, false},
	} {
		if err := vet(c.message); (err == nil) != c.ok {
			t.Errorf("%s: got %v, want accepted = %v", c.name, err, c.ok)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(hello{Cluster: ourCluster().ClusterIdentity, From: "m1", To: "m2"}.append(nil))
	f.Add(hello{Verdict: verdictRefused, Reason: "no"}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if err != nil {
			return
		}
		again := h.append(nil)
		if !bytes.Equal(again, b[:min(len(b), len(again))]) {
			t.Errorf("hello %+v: got %x encoded, want the %x it was read from", h, again, b)
		}
	})
}

// FuzzListener throws bytes at a running replica, behind a good hello: the
// library's decoder must end the connection, not the process, and the replica
// must serve on.
func FuzzListener(f *testing.F) {
	for kind := range byte(6) {
		f.Add(append([]byte{kind}, 0x80))
		f.Add(append([]byte{kind}, 0x81, 0xa4, 'T', 'e', 'r', 'm', 0x01))
		f.Add(append([]byte{kind}, 0x81, 0xa7, 'E', 'n', 't', 'r', 'i', 'e', 's', 0xdd, 0x7f, 0xff, 0xff, 0xff))
	}
	f.Add([]byte{0xff})
	log, _ := newLog(f)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s := newHelloStream(NewTCPStream(listener, "", StreamTLS{}), "m2", ourCluster(), log)
	trans := newTransport(s, func(model.MasterID) (string, bool) { return "", false }, onDisk, log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case rpc := <-trans.Consumer():
				rpc.Respond(nil, errors.New("not today"))
			case <-trans.done:
				return
			}
		}
	}()
	f.Cleanup(func() {
		_ = trans.Close()
		<-done
	})
	greeting := hello{Cluster: ourCluster().ClusterIdentity, From: "m1", To: "m2"}.append(nil)
	f.Fuzz(func(t *testing.T, b []byte) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(append(bytes.Clone(greeting), b...)); err != nil {
			return // refused already
		}
		if answer, err := readHello(conn); err != nil || answer.Verdict != verdictWelcome {
			t.Fatalf("greeting: got %+v, %v", answer, err)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	})
}
