//go:build linux

package keeper

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func startRequest(dir string, n int) *request {
	return &request{ID: uint64(n + 2), Start: &StartRequest{ //nolint:gosec // small
		Key: fmt.Sprintf("a/%d", n), Argv: []string{"/bin/true"}, Dir: dir,
		Env:    []string{EnvWorkerID + "=w", EnvAppID + "=a", EnvExecutorID + "=" + strconv.Itoa(n)},
		Stdout: filepath.Join(dir, fmt.Sprintf("%d.out", n)), Stderr: filepath.Join(dir, fmt.Sprintf("%d.err", n)),
	}}
}

// A start that takes its time holds up neither the next one nor what is asked about it.
func TestWhileAProcessIsMadeOthersAreAndItCanBeKilled(t *testing.T) {
	s := quietServer(t, t.TempDir())
	forked := make(chan spawnSpec)
	s.spawn = func(spec spawnSpec) (int, error) {
		forked <- spec
		return 0, unix.EAGAIN
	}
	server, client := net.Pipe()
	a := newAgentConn(server)
	if !s.admit(a) {
		t.Fatal("not admitted")
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.serveConn(a)
	}()
	ask := func(r *request) {
		t.Helper()
		if _, err := client.Write(frameOf(t, r)); err != nil {
			t.Fatal(err)
		}
	}
	answer := func() *reply {
		t.Helper()
		rep, err := readReply(client)
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	ask(&request{ID: 1, Hello: &helloRequest{Versions: []int{ProtocolVersion}, WorkerID: "w"}})
	answer()
	dir := t.TempDir()
	ask(startRequest(dir, 0))
	ask(startRequest(dir, 1)) // taken although the first one is not made yet
	ask(&request{ID: 10, Kill: &killRequest{Key: "a/1"}})
	if rep := answer(); rep.ID != 10 || rep.Error != nil {
		t.Errorf("the kill of what is being started is answered with %+v", rep)
	}
	again := startRequest(dir, 0)
	again.ID = 11
	ask(again)
	if rep := answer(); rep.ID != 11 || ReasonOf(rep.Error) != ReasonDuplicateKey {
		t.Errorf("the second start of a key is answered with %+v", rep)
	}
	for range 2 {
		<-forked
		if rep := answer(); ReasonOf(rep.Error) != ReasonSpawnFailed {
			t.Errorf("a start that failed is answered with %+v", rep)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	<-served
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disarmIdle()
	if len(s.entries) != 0 || len(s.byID) != 0 {
		t.Errorf("left: %d keys, %d names", len(s.entries), len(s.byID))
	}
}
