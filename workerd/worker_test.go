//go:build linux

package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// rig is a worker that runs in this process, with a keeper of its own.
type rig struct {
	t      testing.TB
	logger hclog.Logger
	dial   rpc.DialFunc                // nil = TCP
	check  func(context.Context) error // may be nil
	cfg    Config
	worker *Worker
	cancel context.CancelFunc
	ended  chan error
}

func newRig(t testing.TB, masters ...string) *rig {
	t.Helper()
	return newLoggedRig(t, testLogger(t), masters...)
}

func newLoggedRig(t testing.TB, logger hclog.Logger, masters ...string) *rig {
	t.Helper()
	r := &rig{t: t, logger: logger, cfg: rigConfig(t, masters...)}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func rigConfig(t testing.TB, masters ...string) Config {
	t.Helper()
	return Config{
		Masters: masters, Cores: 4, MemoryMiB: 1024, DataDir: filepath.Join(t.TempDir(), "data"), Bind: "127.0.0.1",
		Resources: model.Resources{"gpu": {"0"}}, Labels: map[string]string{"k": "v"}, Version: "test",
	}
}

func (r *rig) start() {
	r.t.Helper()
	w, err := New(r.cfg, Deps{
		Logger: r.logger, KeeperExe: self(r.t, "as-keeper"), ExecutorExe: self(r.t, "as-executor"), Environ: os.Environ(), Dial: r.dial,
		CheckSuccessor: r.check,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.worker, r.ended = w, make(chan error, 1)
	go func() { r.ended <- w.Run(ctx) }()
	select {
	case <-w.Ready():
	case err := <-r.ended:
		r.t.Fatalf("worker ended: %v", err)
	}
}

// stop ends the worker gracefully. Idempotent.
func (r *rig) stop() {
	if r.cancel == nil {
		return
	}
	r.cancel()
	r.cancel = nil
	if err := <-r.ended; err != nil {
		r.t.Errorf("worker: %v", err)
	}
}

func (r *rig) control() Control { return NewControl(r.cfg.DataDir) }

// over waits until the worker has ended by itself.
func (r *rig) over() error {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.cancel()
		r.cancel = nil
		return err
	case <-time.After(patience):
		r.t.Fatal("the worker has not ended")
		return nil
	}
}

// log reads one whole output through the worker's gRPC port.
func (r *rig) log(e model.ExecutorRef, s rpc.LogStream, follow bool) (string, error) {
	r.t.Helper()
	conn, err := rpc.Dial(r.worker.GRPCAddr(), rpc.DialConfig{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var b strings.Builder
	err = rpc.WorkerClient(conn).ReadLog(ctx, rpc.LogRequest{Ref: e, Stream: s, Follow: follow}, func(c rpc.LogChunk) error {
		b.Write(c.Data)
		return nil
	})
	return b.String(), err
}

func (r *rig) get(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.worker.HTTPAddr()+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	res, err := (&http.Client{Transport: tr, Timeout: patience}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// isRunning says whether a process is there and not merely waiting to be reaped by whoever adopted it.
func isRunning(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, _ := strings.Cut(string(b), ") ")
	return pid > 0 && err == nil && !strings.HasPrefix(after, "Z")
}

func TestAWorkerRunsWhatItIsOrderedTo(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	if o := s.hello.Offer; o.Cores != 4 || o.MemoryMiB != 1024 || o.GRPCAddr != r.worker.GRPCAddr() || len(o.Resources["gpu"]) != 1 {
		t.Errorf("offer %+v", o)
	}
	s.run(ref(0), "/bin/sh", "-c", "echo out $HEARTH_CORES $HEARTH_EXECUTOR_ID; echo err >&2; pwd")
	s.run(ref(1), "/bin/sh", "-c", "exit 3")
	s.run(ref(2), "/bin/sh", "-c", "kill -SEGV $$")
	s.run(ref(3), "/no/such/command")
	s.run(ref(4), "/bin/sleep", "1000")
	s.run(ref(5), "/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
	driver := s.launch(ref(6))
	driver.Spec.Kind, driver.Spec.DriverAddr = model.AppKindDriver, "driver:1"
	s.send(model.WorkerDown{Launch: driver})

	s.reported(ref(0), model.ExecutorExited)
	if got := s.reported(ref(1), model.ExecutorFailed); got.ExitCode != 3 || got.Cause != model.CauseApp {
		t.Errorf("exit 3: %+v", got)
	}
	if got := s.reported(ref(2), model.ExecutorFailed); got.Signal != int(syscall.SIGSEGV) || got.Cause != model.CauseApp {
		t.Errorf("SIGSEGV: %+v", got)
	}
	if got := s.reported(ref(3), model.ExecutorFailed); got.Cause != model.CauseStart {
		t.Errorf("no such command: %+v", got)
	}
	if got := s.reported(ref(4), model.ExecutorRunning); !isRunning(got.PID) {
		t.Errorf("sleep: %+v is not there", got)
	}
	s.reported(ref(5), model.ExecutorRunning)
	if got := s.reported(ref(6), model.ExecutorLaunching); !isRunning(got.PID) {
		t.Errorf("executor of a driver: %+v is not there", got)
	}
	for i, grace := range map[int]time.Duration{4: time.Minute, 5: 50 * time.Millisecond, 6: time.Minute} {
		s.kill(ref(i), grace)
		if got := s.reported(ref(i), model.ExecutorKilled); got.Cause != model.CauseKill || isRunning(got.PID) {
			t.Errorf("kill: %+v", got)
		}
	}
	if got := s.report(ref(5)).Signal; got != int(syscall.SIGKILL) {
		t.Errorf("a process deaf to SIGTERM ended by signal %d, want 9", got)
	}

	dir := filepath.Join(r.cfg.DataDir, "work", string(app1), "0")
	if got, err := r.log(ref(0), rpc.LogStdout, true); err != nil || got != "out 1 0\n"+dir+"\n" {
		t.Errorf("stdout %q, %v", got, err)
	}
	if got, err := r.log(ref(0), rpc.LogStderr, false); err != nil || !strings.HasSuffix(got, "\n"+headerRule+"\nerr\n") {
		t.Errorf("stderr %q, %v", got, err)
	}
	if got, err := r.log(ref(6), rpc.LogStdout, false); err != nil || got != "executor of "+string(app1)+" with driver:1\n" {
		t.Errorf("executor's stdout %q, %v", got, err)
	}
	if _, err := r.log(ref(77), rpc.LogStdout, true); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("log of nobody: %v, want ErrNotFound", err)
	}
	if code, got := r.get("/logs/" + string(app1) + "/0/stdout?offset=-4"); code != 200 || got != dir[len(dir)-3:]+"\n" {
		t.Errorf("log by HTTP: %d %q", code, got)
	}
	scratch := filepath.Join(r.cfg.DataDir, "work", string(app1), scratchDir)
	if _, err := os.Stat(scratch); err != nil {
		t.Error(err)
	}
	s.send(model.WorkerDown{AppEnded: &model.AppEndedOrder{Fence: s.fence, App: app1}})
	eventually(t, "scratch is removed", func() bool { _, err := os.Stat(scratch); return os.IsNotExist(err) })
	eventually(t, "the keeper has forgotten all ends", func() bool {
		return savedExits(t, r.cfg.DataDir) == 0
	})
}

func TestAWorkerSaysHowItIs(t *testing.T) {
	leader := newFakeLeader(t)
	leader.set(func() { leader.leads = false })
	r := newRig(t, leader.addr)
	if code, _ := r.get("/healthz"); code != 200 {
		t.Errorf("healthz %d", code)
	}
	if code, body := r.get("/readyz"); code != 503 || !strings.Contains(body, "no session") {
		t.Errorf("readyz without a leader: %d %q", code, body)
	}
	leader.set(func() { leader.leads = true })
	s := leader.welcomed(3)
	eventually(t, "ready", func() bool { code, _ := r.get("/readyz"); return code == 200 })
	s.run(ref(0), "/bin/sleep", "1000")
	s.reported(ref(0), model.ExecutorLaunching)
	var got Status
	_, body := r.get("/json")
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || got.Worker != r.worker.ID() || got.Leader != leader.addr || len(got.Executors) != 1 || got.Executors[0].ID != ref(0).String() {
		t.Errorf("status %s", body)
	}
	conn, err := rpc.Dial(r.worker.GRPCAddr(), rpc.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	id, err := rpc.WorkerClient(conn).Identify(t.Context())
	if err != nil || id.Worker != r.worker.ID() || id.Incarnation != 1 {
		t.Errorf("identity %+v, %v", id, err)
	}
	for _, path := range []string{"/logs/../x/stdout", "/logs/app/0/stdout", "/logs/" + string(app1) + "/0/secret", "/logs/" + string(app1) + "/0/stdout?offset=x"} {
		if code, _ := r.get(path); code < 400 || code >= 500 {
			t.Errorf("%s: %d, want a 4xx", path, code)
		}
	}
}

func TestALaunchOrderedTwiceRunsOnceAndAKilledOneNever(t *testing.T) {
	leader := newFakeLeader(t)
	newRig(t, leader.addr)
	s := leader.welcomed(3)
	count := filepath.Join(t.TempDir(), "count")
	s.kill(ref(1), time.Second)
	for range 5 {
		s.run(ref(0), "/bin/sh", "-c", "echo x >> "+count+"; sleep 1000")
		s.run(ref(1), "/bin/sh", "-c", "echo y >> "+count)
	}
	s.reported(ref(0), model.ExecutorRunning)
	if got := s.reported(ref(1), model.ExecutorKilled); got.PID != 0 {
		t.Errorf("killed before its launch: %+v", got)
	}
	if b, err := os.ReadFile(count); err != nil || string(b) != "x\n" {
		t.Errorf("they wrote %q, %v; want one x", b, err)
	}
}

func TestExecutorsOutliveTheirLeader(t *testing.T) {
	first, second := newFakeLeader(t), newFakeLeader(t)
	second.set(func() { second.leads, second.hint = false, first.addr })
	newRig(t, second.addr) // a standby that knows who leads
	s := first.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID

	second.set(func() { second.leads = true })
	first.set(func() { first.leads, first.hint = false, second.addr })
	s.end <- rpc.NotLeader(second.addr)
	s2 := second.welcomed(4)
	if inv := s2.hello.Inventory; len(inv) != 1 || inv[0].PID != pid || inv[0].State != model.ExecutorRunning || s2.hello.Incarnation != 1 || s2.hello.HighestTerm != 3 {
		t.Errorf("hello to the next leader: %+v", s2.hello)
	}
	s2.obeyed(ref(1))
	// A leader of the past is turned away, and so is its order.
	first.set(func() { first.leads, first.hint = true, "" })
	second.set(func() { second.leads, second.hint = false, first.addr })
	s2.end <- rpc.NotLeader(first.addr)
	stale := first.welcomed(3)
	stale.kill(ref(0), 0)
	stale.refused()
	second.set(func() { second.leads = true })
	first.set(func() { first.leads, first.hint = false, second.addr })
	s3 := second.welcomed(4)
	if !isRunning(pid) {
		t.Error("the executor was killed by a leader of the past")
	}
	s3.kill(ref(0), time.Second)
	s3.reported(ref(0), model.ExecutorKilled)
}

func TestALeaderThatFallsSilentIsLeftAndRehelloCountsAnIncarnation(t *testing.T) {
	leader := newFakeLeader(t)
	newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	leader.set(func() { leader.silent = true })
	s.refused()
	leader.set(func() { leader.silent = false })

	s2 := leader.next()
	if s2.hello.Incarnation != 1 || s2.hello.ReportSeq == 0 {
		t.Errorf("hello after silence: %+v", s2.hello)
	}
	s2.send(model.WorkerDown{Rehello: &model.Rehello{Fence: model.Fence{Cluster: clusterA1, Term: 3}, Reason: "declared dead"}})
	s3 := leader.welcomed(3)
	if h := s3.hello; h.Incarnation != 2 || h.ReportSeq != 0 || len(h.Inventory) != 1 || h.Inventory[0].PID != pid {
		t.Errorf("hello after Rehello: %+v", h)
	}
	// An order for the worker that was declared dead is refused.
	s3.fence.Incarnation = 1
	s3.kill(ref(0), 0)
	s3.fence.Incarnation = 2
	s3.run(ref(1), "/bin/true")
	s3.reported(ref(1), model.ExecutorExited)
	if !isRunning(pid) {
		t.Error("an order for another incarnation was obeyed")
	}
}

func TestReportsAreRepeatedToTheNextSessionUntilAcknowledged(t *testing.T) {
	leader := newFakeLeader(t)
	newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.mu.Lock()
	s.acks = false
	s.mu.Unlock()
	s.run(ref(0), "/bin/sh", "-c", "exit 4")
	s.reported(ref(0), model.ExecutorFailed)
	before := s.sequences()
	eventually(t, "the report is repeated on the same session", func() bool { return s.sequences() > before })
	s.end <- nil
	s2 := leader.welcomed(3)
	if inv := s2.hello.Inventory; len(inv) != 1 || inv[0].ExitCode != 4 {
		t.Errorf("inventory %+v", inv)
	}
	s2.reported(ref(0), model.ExecutorFailed)
	s2.end <- nil
	eventually(t, "what is acknowledged is no longer in the inventory", func() bool {
		s := leader.welcomed(3)
		empty := len(s.hello.Inventory) == 0
		s.end <- nil
		return empty
	})
}

func TestAStoppedWorkerEndsItsExecutorsAndLeaves(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	r.stop()
	if !s.stopping {
		t.Error("the leader was not told at once that the worker stops")
	}
	if got := s.report(ref(0)); got.State != model.ExecutorLost || got.Cause != model.CauseInfra || !s.hasLeft() || isRunning(pid) {
		t.Errorf("last report %+v, left %v", got, s.hasLeft())
	}
	// It returns as the same worker, still obeys no older term, and has nothing to report.
	r.start()
	stale := leader.welcomed(2)
	stale.refused()
	s2 := leader.welcomed(3)
	if h := s2.hello; h.Worker != s.hello.Worker || h.Incarnation != 2 || len(h.Inventory) != 0 || h.HighestTerm != 3 {
		t.Errorf("hello after a restart: %+v", h)
	}
}

// Told to stop is not a failure, however early.
func TestAWorkerThatIsToldToStopWhileItStartsEndsWithoutAnError(t *testing.T) {
	w, err := New(rigConfig(t, "127.0.0.1:1"), Deps{
		Logger: testLogger(t), KeeperExe: self(t, "as-keeper"), ExecutorExe: self(t, "as-executor"), Environ: os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestAKeeperThatDiesIsReplacedAndItsExecutorsAreLost(t *testing.T) {
	leader := newFakeLeader(t)
	r := newRig(t, leader.addr)
	s := leader.welcomed(3)
	s.run(ref(0), "/bin/sleep", "1000")
	pid := s.reported(ref(0), model.ExecutorRunning).PID
	for i := range 2 {
		old := keeperPID(t, r)
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if got := s.reported(ref(i), model.ExecutorLost); got.Cause != model.CauseInfra {
			t.Errorf("report %+v", got)
		}
		s.run(ref(i+1), "/bin/sleep", "1000")
		s.reported(ref(i+1), model.ExecutorRunning)
	}
	if isRunning(pid) {
		t.Error("an executor outlived its keeper")
	}
}

// keeperPID finds this rig's keeper among the children of the test.
func keeperPID(t *testing.T, r *rig) int {
	t.Helper()
	pids, err := processesWith(filepath.Join(r.cfg.DataDir, keeperDir))
	if err != nil || len(pids) != 1 {
		t.Fatalf("keepers %v, %v; want one", pids, err)
	}
	return pids[0]
}

// processesWith lists processes that have word on their command line, beside this one.
func processesWith(word string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join(d, "cmdline"))
		pid, numErr := strconv.Atoi(filepath.Base(d))
		if err != nil || numErr != nil || pid == os.Getpid() {
			continue
		}
		if slices.Contains(strings.Split(string(b), "\x00"), word) {
			out = append(out, pid)
		}
	}
	return out, nil
}
