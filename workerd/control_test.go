//go:build linux

package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/unixsocket"
	"github.com/hearthd/hearth/model"
)

func TestTheWorkerOfADataDirectoryIsFoundByItsSocket(t *testing.T) {
	leader := newFakeLeader(t)
	r := &rig{t: t, logger: testLogger(t), cfg: rigConfig(t, leader.addr)}
	r.cfg.DataDir = filepath.Join(r.cfg.DataDir, strings.Repeat("deep/", 40)) // longer than a socket address
	path := filepath.Join(r.cfg.DataDir, controlFile)
	if _, err := r.control().Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("status before the first start: %v, want ErrNotRunning", err)
	}
	r.start()
	t.Cleanup(r.stop)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	got, err := r.control().Status(t.Context())
	if err != nil || got.Worker != r.worker.ID() || got.Leader != leader.addr || got.Cluster != clusterA1.ID || got.Process.PID != os.Getpid() ||
		len(got.Executors) != 1 || got.Executors[0].PID != pid || got.Version != statusVersion {
		t.Errorf("status %+v, %v", got, err)
	}
	for file, want := range map[string]fs.FileMode{path: 0o600, r.cfg.DataDir: 0o700} {
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", file, st.Mode(), err, want)
		}
	}
	// A second worker is turned away by the lock and leaves the socket alone.
	other, err := New(r.cfg, Deps{Logger: r.logger, KeeperExe: self(t, "as-keeper"), ExecutorExe: self(t, "as-executor")})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, ErrLocked) {
		t.Errorf("second worker: %v, want ErrLocked", err)
	}
	if _, err := r.control().Status(t.Context()); err != nil {
		t.Errorf("status after a second worker has tried: %v", err)
	}
	if _, err := r.control().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.over(); err != nil {
		t.Errorf("the worker ended with %v", err)
	}
	if !s.hasLeft() || isRunning(pid) {
		t.Errorf("left %v, executor runs %v", s.hasLeft(), isRunning(pid))
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	// What a worker that was killed has left is no worker, and does not disturb the next one.
	dead, err := unixsocket.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.control().Status(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("status of a dead worker: %v, want ErrNotRunning", err)
	}
	r.start()
	if _, err := r.control().Status(t.Context()); err != nil {
		t.Errorf("status after the next start: %v", err)
	}
}

func TestAWorkerThatDoesNotAnswerIsNotWaitedForForever(t *testing.T) {
	dir := t.TempDir()
	l, err := unixsocket.Listen(filepath.Join(dir, controlFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := NewControl(dir).Status(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("status of a worker that hangs: %v, want a timeout", err)
	}
}

func TestErrorsKeepTheirKindAcrossTheSocket(t *testing.T) {
	for _, want := range []error{model.ErrNoLeader, model.ErrRefused, model.ErrConflict, model.ErrInvalid, context.DeadlineExceeded} {
		b, err := json.Marshal(newControlError(errors.Join(errors.New("x"), want)))
		if err != nil {
			t.Fatal(err)
		}
		var got controlError
		if err := json.Unmarshal(b, &got); err != nil || !errors.Is(&got, want) || got.Error() != "x\n"+want.Error() {
			t.Errorf("%v became %+v, %v", want, got, err)
		}
	}
	if other := newControlError(errors.New("broken")); other.Code != "failed" || other.Unwrap() != nil {
		t.Errorf("another error became %+v", other)
	}
}

// Whatever bytes come to the control socket, they are answered or the connection is given up, and the
// worker goes on.
func FuzzControl(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"op":"status"}`, `{"version":1,"op":"stop"}`, `{"version":1,"op":"restart","window_ms":60000,"force":true}`,
		`{"version":1,"op":"keep","window_ms":-1}`, `{"version":1,"op":"keep","window_ms":9223372036854775807}`,
		`{"version":1,"op":"rejoin","cluster_id":"x"}`, `{"version":2,"op":"status"}`, `{"version":1,"op":"format"}`,
		`{"version":1,"op":"status"}{}`, `{`, ``, "GET / HTTP/1.1\r\n\r\n", strings.Repeat("[", maxControlRequest),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		rep := newReports(1)
		a := &agent{
			log: hclog.NewNullLogger(), id: &identity{id: "worker-1", incarnation: 1}, fence: &fence{}, reports: rep,
			table: newTable(hclog.NewNullLogger(), memoryRecorder(new([]journalRecord)), rep), contact: newContact(nil),
			journal: &journal{}, calls: make(chan func()), done: make(chan struct{}),
		}
		ended := make(chan struct{})
		go func() { // the agent's goroutine; it has no processes and no leader
			defer close(ended)
			for {
				select {
				case call := <-a.calls:
					a.together(call)
					if a.hand != nil {
						a.abandonHandover(model.ErrNoLeader)
					}
				case <-ctx.Done():
					return
				}
			}
		}()
		c := &controller{log: hclog.NewNullLogger(), agent: a}
		server, client := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); c.serve(ctx, server) }()
		go func() { _, _ = client.Write(b); _ = client.Close() }()
		<-served
		cancel()
		<-ended
	})
}
