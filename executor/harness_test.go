package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// hub is a driver that tests play by hand, served over real gRPC.
type hub struct {
	t        *testing.T
	addr     string
	accepted chan *hubSession
	// refuse, if set, is asked with each Hello.
	refuse func(model.ExecutorHello) error
	// deaf hubs do not answer beats.
	deaf bool
	stop func()
}

type hubSession struct {
	t      *testing.T
	hello  model.ExecutorHello
	stream rpc.ExecutorSessionStream
	sendMu sync.Mutex
	up     chan model.ExecutorUp // all but beats
	beats  chan uint64
	ended  chan struct{} // the executor's end broke or closed
	finish chan error    // what the hub ends the stream with
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{t: t, accepted: make(chan *hubSession, 64)}
	h.serve("127.0.0.1:0")
	return h
}

// serve listens (again) at an address.
func (h *hub) serve(addr string) {
	h.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	h.addr = l.Addr().String()
	srv := rpc.NewServer(rpc.ServerConfig{Listener: l}, rpc.Services{Executors: h})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Errorf("hub: %v", err)
		}
	})
	h.t.Cleanup(h.stop)
}

// ExecutorSession serves one executor for the test.
func (h *hub) ExecutorSession(ctx context.Context, stream rpc.ExecutorSessionStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.Hello == nil {
		return model.ErrInvalid
	}
	if h.refuse != nil {
		if err := h.refuse(*first.Hello); err != nil {
			return err
		}
	}
	s := &hubSession{
		t: h.t, hello: *first.Hello, stream: stream, up: make(chan model.ExecutorUp, 4096),
		beats: make(chan uint64, 4096), ended: make(chan struct{}), finish: make(chan error, 1),
	}
	go func() {
		defer close(s.ended)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if m.Beat == nil {
				s.up <- m
				continue
			}
			s.beats <- m.Beat.Number
			if !h.deaf {
				s.send(model.ExecutorDown{BeatAck: m.Beat})
			}
		}
	}()
	h.accepted <- s
	select {
	case err = <-s.finish:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return err
}

// session waits for the executor's next session and welcomes it; adopted nil
// adopts everything.
func (h *hub) session(adopted []model.TaskID) *hubSession {
	h.t.Helper()
	select {
	case s := <-h.accepted:
		if adopted == nil {
			adopted = s.hello.Running
		}
		s.send(model.ExecutorDown{Welcome: &model.ExecutorWelcome{BeatMilli: 100, Adopted: adopted}})
		return s
	case <-time.After(patience):
		h.t.Fatal("no session came")
		return nil
	}
}

func (s *hubSession) send(m model.ExecutorDown) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	_ = s.stream.Send(m) // a broken stream shows in what does not come
}

func (s *hubSession) tasks(tasks ...model.ExecTask) { s.send(model.ExecutorDown{Tasks: tasks}) }

// shell sends one task that runs a script.
func (s *hubSession) shell(id model.TaskID, script string) { s.tasks(shellTask(id, script)) }

func shellTask(id model.TaskID, script string) model.ExecTask {
	return model.ExecTask{ID: id, Attempt: 1, Argv: []string{"sh", "-c", script}}
}

// result waits for one result.
func (s *hubSession) result() model.TaskResult {
	s.t.Helper()
	r := s.results(1)
	return r[0]
}

// results waits for n results and returns them by id.
func (s *hubSession) results(n int) []model.TaskResult {
	s.t.Helper()
	var out []model.TaskResult
	deadline := time.After(patience)
	for len(out) < n {
		select {
		case m := <-s.up:
			out = append(out, m.Results...)
		case <-s.ended:
			s.t.Fatalf("the stream ended after %d of %d results", len(out), n)
		case <-deadline:
			s.t.Fatalf("%d of %d results came", len(out), n)
		}
	}
	slices.SortFunc(out, func(a, b model.TaskResult) int { return int(a.ID) - int(b.ID) })
	return out
}

// fetch asks for a piece of output.
func (s *hubSession) fetch(f model.OutputFetch) model.OutputChunk {
	s.t.Helper()
	s.send(model.ExecutorDown{Fetch: &f})
	deadline := time.After(patience)
	for {
		select {
		case m := <-s.up:
			if m.Chunk != nil {
				return *m.Chunk
			}
		case <-deadline:
			s.t.Fatal("no chunk came")
		}
	}
}

// execProcess is an executor in a process of its own.
type execProcess struct {
	t      *testing.T
	app    model.AppID
	dir    string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	exited chan struct{}
}

// startExecutor runs an executor process in a directory of its own.
func startExecutor(t *testing.T, h *hub, timings string, env ...string) *execProcess {
	t.Helper()
	base := t.TempDir()
	secret := filepath.Join(base, "secret")
	if err := os.WriteFile(secret, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &execProcess{t: t, app: uniqueApp(), dir: filepath.Join(base, "work"), exited: make(chan struct{})}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(self)
	p.cmd.Dir = p.dir
	p.cmd.Stderr = &p.stderr
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/home/of/executor", "UNRELATED=1",
		asExecutor + "=" + timings,
		"HEARTH_APP_ID=" + string(p.app), "HEARTH_EXECUTOR_ID=3", "HEARTH_CORES=2", "HEARTH_MEMORY_MIB=512",
		"HEARTH_DRIVER_ADDR=" + h.addr, "HEARTH_SECRET_FILE=" + secret, "HEARTH_WORKER_ID=w1",
	}, env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // the orderly way: it takes orphans along
		select {
		case <-p.exited:
		case <-time.After(patience):
			t.Error("the executor does not end on SIGTERM")
			_ = p.cmd.Process.Kill()
			<-p.exited
		}
		p.gone()
		if t.Failed() {
			t.Logf("executor:\n%s", p.stderr.String())
		}
	})
	return p
}

// uniqueApp names an application that no other test uses: processes are found
// by it.
func uniqueApp() model.AppID {
	n := time.Now().UnixNano()
	return model.AppIDFor(n/1e6, uint64(n))
}

// exit waits for the executor's end and returns its exit code.
func (p *execProcess) exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatal("the executor does not end")
		return 0
	}
}

// gone checks that no process of the executor is left, marked ones at least.
func (p *execProcess) gone() {
	p.t.Helper()
	eventually(p.t, "all processes of the executor end", func() error {
		if left := marked("HEARTH_APP_ID=" + string(p.app)); len(left) > 0 {
			return fmt.Errorf("processes %v are left", left)
		}
		return nil
	})
}

// marked lists living processes with an entry in their environment.
func marked(entry string) []int {
	all, _ := os.ReadDir("/proc")
	var out []int
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := environOf(pid)
		if err != nil || !slices.Contains(env, entry) {
			continue
		}
		if st, err := readStat(pid); err == nil && !st.zombie() {
			out = append(out, pid)
		}
	}
	return out
}

// alive reports whether a process runs.
func alive(pid int) bool {
	st, err := readStat(pid)
	return err == nil && !st.zombie()
}

// eventually polls until check is content.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	err := errors.New("not checked")
	for err != nil {
		select {
		case <-tick.C:
			err = check()
		case <-deadline:
			t.Fatalf("waited for: %s: %v", what, err)
		}
	}
}

// pidFile waits for a process id that a script writes into a file.
func pidFile(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a process id in "+filepath.Base(path), func() error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(string(bytes.TrimSpace(b)))
		return err
	})
	return pid
}
