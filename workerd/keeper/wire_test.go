//go:build linux

package keeper

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func frameOf(t testing.TB, message any) []byte {
	t.Helper()
	frame, err := encodeFrame(message)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func rawFrame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestARequestIsReadStrictly(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		bad   bool
	}{
		{"a well-formed request", rawFrame(`{"id":1,"list":{}}`), false},
		{"no body", rawFrame(`{"id":1}`), true},
		{"two bodies", rawFrame(`{"id":1,"list":{},"keep":{"for_ms":1}}`), true},
		{"no id", rawFrame(`{"list":{}}`), true},
		{"an unknown body", rawFrame(`{"id":1,"format_disk":{}}`), true},
		{"an unknown member inside", rawFrame(`{"id":1,"list":{"x":1}}`), true},
		{"a second object in the frame", rawFrame(`{"id":1,"list":{}}{}`), true},
		{"a wrong type", rawFrame(`{"id":"1","list":{}}`), true},
		{"no object", rawFrame(`null`), true},
		{"an empty frame", rawFrame(``), true},
		{"a frame that is cut short", rawFrame(`{"id":1,"list":{}}`)[:10], true},
		{"a frame beyond the limit", binary.BigEndian.AppendUint32(nil, MaxFrameBytes+1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := readRequest(bytes.NewReader(c.bytes)); (err != nil) != c.bad {
				t.Errorf("error %v, want one: %v", err, c.bad)
			}
		})
	}
	if _, err := readRequest(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end of the stream: %v, want %v", err, io.EOF)
	}
}

func TestAFullListPageFitsIntoAFrame(t *testing.T) {
	page := &listReply{More: true}
	for range listPageEntries {
		page.Entries = append(page.Entries, Entry{
			Key: strings.Repeat("k", MaxKeyBytes), State: StateRunning, Killing: true, Stuck: true,
			Proc: Proc{PID: 1 << 22, StartTicks: 1 << 63, BootID: strings.Repeat("b", 36)},
			Exit: &Exit{Code: -1, Signal: 64, Time: time.Now(), OOMKilled: true, KillRequested: true, LeaseOver: true},
		})
	}
	frameOf(t, &reply{ID: 1 << 63, List: page})
}

func FuzzFrame(f *testing.F) {
	f.Add(frameOf(f, &request{ID: 1, Hello: &helloRequest{Versions: []int{1}, WorkerID: "w"}}))
	f.Add(frameOf(f, &request{ID: 2, Start: &StartRequest{Key: "a/0", Argv: []string{"true"}}}))
	f.Add(frameOf(f, &reply{ID: 3, Error: &Error{ReasonInvalid, "no"}}))
	f.Add(frameOf(f, &reply{Event: &Event{Kind: EventExited, Entry: Entry{Key: "a", State: StateExited, Exit: &Exit{}}}}))
	f.Add(rawFrame(`{"id":1,"list":{}}{}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if req, err := readRequest(bytes.NewReader(b)); err == nil {
			again, err := readRequest(bytes.NewReader(frameOf(t, req)))
			if err != nil {
				t.Fatalf("an accepted request is refused after encoding: %v", err)
			}
			diff(t, "request", again, req)
		}
		_, _ = readReply(bytes.NewReader(b))
		_, _ = decodeExit(b)
	})
}

// quietServer serves connections in this process and starts nothing.
func quietServer(t testing.TB, dir string) *Server {
	t.Helper()
	cfg, err := Config{StateDir: dir, WorkerID: "w"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(cfg, func(spawnSpec) (int, error) { return 0, unix.EAGAIN })
	s.devNil, err = os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.devNil.Close() })
	return s
}

// Whatever bytes come, the server neither panics nor hangs, and gives up the connection.
func FuzzServerConnection(f *testing.F) {
	hello := frameOf(f, &request{ID: 1, Hello: &helloRequest{Versions: []int{1}, WorkerID: "w"}})
	with := func(requests ...*request) []byte {
		all := bytes.Clone(hello)
		for i, r := range requests {
			r.ID = uint64(i + 2)
			all = append(all, frameOf(f, r)...)
		}
		return all
	}
	f.Add(hello)
	f.Add(with(&request{List: &listRequest{}}, &request{Keep: &keepRequest{ForMS: 1}}, &request{Forget: &forgetRequest{Key: "a"}}))
	f.Add(with(&request{Kill: &killRequest{Key: "a", GraceMS: -1}}, &request{Signal: &signalRequest{Key: "a", Signal: 9}}))
	f.Add(with(&request{Shutdown: &shutdownRequest{GraceMS: 1}}, &request{Hello: &helloRequest{}}))
	f.Add(with(&request{Start: &StartRequest{
		Key: "a/0", Argv: []string{"/bin/true"}, Env: []string{EnvWorkerID + "=w", EnvAppID + "=a", EnvExecutorID + "=0"},
		Dir: "/", Stdout: "/no/such/dir/out", Stderr: "/no/such/dir/err",
	}}))
	f.Add(with(&request{Lease: &Lease{TermAt: 1, KillAt: 2}}, &request{Lease: &Lease{TermAt: 2, KillAt: 1}}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append(bytes.Clone(hello), 0xff))
	s := quietServer(f, f.TempDir())
	f.Fuzz(func(t *testing.T, b []byte) {
		if opensFiles(b) {
			return
		}
		server, client := net.Pipe()
		served := make(chan struct{})
		a := newAgentConn(server)
		if !s.admit(a) {
			t.Fatal("no connection is left")
		}
		go func() {
			defer close(served)
			s.serveConn(a)
		}()
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = io.Copy(io.Discard, client)
		}()
		_, _ = client.Write(b)
		_ = client.Close()
		<-served
		<-drained
		s.mu.Lock()
		defer s.mu.Unlock()
		s.disarmIdle()
		if len(s.conns) != 0 || s.agent != nil || len(s.entries) != 0 {
			t.Errorf("left: %d connections, agent %v, %d entries", len(s.conns), s.agent, len(s.entries))
		}
	})
}

// opensFiles says whether the input could make the server write output files on this machine: the
// spawn is a stand-in, the files before it are not.
func opensFiles(b []byte) bool {
	r := bytes.NewReader(b)
	for {
		req, err := readRequest(r)
		if err != nil {
			return false
		}
		if req.Start != nil && !strings.HasPrefix(req.Start.Stdout, "/no/such/dir/") {
			return true
		}
	}
}

func TestAVersionNobodySpeaksIsRefused(t *testing.T) {
	s := quietServer(t, t.TempDir())
	server, client := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		a := newAgentConn(server)
		s.admit(a)
		s.serveConn(a)
	}()
	_, _ = client.Write(frameOf(t, &request{ID: 1, Hello: &helloRequest{Versions: []int{7, 8}, WorkerID: "w"}}))
	rep, err := readReply(client)
	if err != nil || rep.Error == nil || rep.Error.Reason != ReasonVersion {
		t.Errorf("answer %+v, %v, want %s", rep, err, ReasonVersion)
	}
	_, err = readReply(client)
	if !errors.Is(err, io.EOF) {
		t.Errorf("after a refused hello: %v, want %v", err, io.EOF)
	}
	_ = client.Close()
	<-served
}

func TestConnectionsWithoutAHelloAreFew(t *testing.T) {
	s := quietServer(t, t.TempDir())
	for i := range maxUnknownConns {
		if !s.admit(newAgentConn(nil)) {
			t.Fatalf("connection %d refused", i)
		}
	}
	if s.admit(newAgentConn(nil)) {
		t.Errorf("connection %d admitted", maxUnknownConns+1)
	}
}

func TestListHasEveryEntryInPages(t *testing.T) {
	s := quietServer(t, t.TempDir())
	const count = 2*listPageEntries + 1
	for i := range count {
		key := "a/" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strings.Repeat("y", i/50)
		s.entries[key] = loadedEntry(Entry{Key: key, State: StateExited, Exit: &Exit{}})
	}
	want, got := len(s.entries), 0
	for after, more := "", true; more; {
		page := s.list(after)
		for _, e := range page.Entries {
			if e.Key <= after {
				t.Fatalf("%q behind %q", e.Key, after)
			}
			after = e.Key
		}
		got, more = got+len(page.Entries), page.More
	}
	diff(t, "entries", got, want)
}
