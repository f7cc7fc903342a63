package masterd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// startTimed starts one master with a worker_timeout and a beat of its own.
func startTimed(t *testing.T, timeout, beat time.Duration) (*testMaster, context.Context) {
	t.Helper()
	m, err := New(Config{DataDir: t.TempDir(), BootstrapExpect: 1, WorkerTimeout: timeout, WorkerBeat: beat}, Deps{Logger: testLogger(t)})
	if err != nil {
		t.Fatalf("start master: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tm := &testMaster{Master: m, cancel: cancel, done: make(chan error, 1)}
	go func() { tm.done <- m.Run(ctx) }()
	t.Cleanup(func() { tm.stop(t) })
	eventually(t, "a leader", func() error {
		if m.leading.Load() == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
	patient, done := context.WithTimeout(t.Context(), testPatience)
	t.Cleanup(done)
	return tm, patient
}

// inState waits for a worker to be in a state and returns its record.
func inState(t *testing.T, m *testMaster, id model.WorkerID, want model.WorkerState) *model.Worker {
	t.Helper()
	eventually(t, fmt.Sprintf("worker %s to be %s", id, want), func() error {
		if w := workerOf(t, m, id); w.State != want {
			return fmt.Errorf("it is %s (%s)", w.State, w.StateReason)
		}
		return nil
	})
	return workerOf(t, m, id)
}

// launched registers an application with one executor and lets the worker say
// that it runs.
func launched(ctx context.Context, t *testing.T, m *testMaster, w *scriptedWorker, spec model.AppSpec) model.ExecutorRef {
	t.Helper()
	if _, err := newClient(t, m).RegisterApp(ctx, spec); err != nil {
		t.Fatal(err)
	}
	ref := w.next("launch", isLaunch).Launch.Ref
	w.report(w.seq+1, running(ref))
	return ref
}

func executorState(t *testing.T, m *testMaster, ref model.ExecutorRef) model.ExecutorState {
	t.Helper()
	e, ok := m.fsm.View().Executor(ref)
	if !ok {
		t.Fatalf("executor %s is not known", ref)
	}
	return e.State
}

// identified serves what a worker serves to a dial-back.
type identified struct{ rpc.WorkerIdentity }

func (i identified) Identify(context.Context) (rpc.WorkerIdentity, error) {
	return i.WorkerIdentity, nil
}

func (identified) ReadLog(context.Context, rpc.LogRequest, func(rpc.LogChunk) error) error {
	return model.ErrUnavailable
}

// A process that answers dial-backs is not taken for dead, whatever its
// incarnation; but without a session it is given up after worker_timeout.
func TestAWorkerThatAnswersDialBacksOnlyIsGivenUpAtItsTimeout(t *testing.T) {
	t.Parallel()
	for name, inc := range map[string]uint64{"the same process": 1, "its successor": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 2 * time.Second
			m, _ := startTimed(t, timeout, 200*time.Millisecond)
			w := newScriptedWorker(t, "worker-a")
			srv := rpc.NewServer(rpc.ServerConfig{Listener: w.grpc}, rpc.Services{Worker: identified{rpc.WorkerIdentity{Worker: w.id, Incarnation: inc}}})
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- srv.Run(ctx) }()
			t.Cleanup(func() {
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
			w.hello(m)
			w.next("welcome", isWelcome)
			w.disconnect()
			inState(t, m, w.id, model.WorkerDead)
			if after := w.rhythm.silence(); after < timeout {
				t.Errorf("given up %s after its last beat, want %s", after, timeout)
			}
		})
	}
}

func TestNothingIsPlacedOnAWorkerWhoseBeatIsOverdue(t *testing.T) {
	t.Parallel()
	m, ctx := startTimed(t, time.Minute, 200*time.Millisecond)
	w := newScriptedWorker(t, "worker-a")
	w.mute = true
	w.hello(m)
	w.next("welcome", isWelcome)
	l := m.leading.Load()
	eventually(t, "its beat to be overdue", func() error {
		if !l.workerBlocked(w.id) {
			return errors.New("it may get placements")
		}
		return nil
	})
	if state := workerOf(t, m, w.id).State; state != model.WorkerAlive {
		t.Errorf("it is %s already, want it ALIVE", state)
	}
	if _, err := newClient(t, m).RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	for range 20 { // each wakes the scheduler
		if err := m.propose(ctx, registerMasterCommand(m.record())); err != nil {
			t.Fatal(err)
		}
	}
	m.fsm.View().AllExecutors(func(e *model.Executor) bool {
		t.Errorf("executor %s was placed on %s", e.Ref(), e.Worker)
		return true
	})
	go w.beats(t.Context(), w.session, m.cfg.WorkerBeat)
	w.next("launch", isLaunch)
}

// A worker that stops gracefully gets nothing new from its first word on.
func TestNothingIsPlacedOnAWorkerThatHasBegunToStop(t *testing.T) {
	t.Parallel()
	m, ctx := startTimed(t, time.Minute, time.Second)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	w.send(model.WorkerUp{Stopping: &model.WorkerStopping{}})
	w.send(model.WorkerUp{Beat: &model.Beat{Number: 1000}})
	w.next("answer to the beat after it", func(d model.WorkerDown) bool { return d.BeatAck != nil && d.BeatAck.Number == 1000 })
	if !m.leading.Load().workerBlocked(w.id) {
		t.Error("it may get placements")
	}
	if _, err := newClient(t, m).RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	other := newScriptedWorker(t, "worker-b")
	other.hello(m)
	if got := other.next("launch", isLaunch).Launch; got.Fence.Incarnation != 1 {
		t.Errorf("got launch %+v", got)
	}
	w.disconnect()
	w.hello(m) // it has thought better of it
	w.next("welcome", isWelcome)
	eventually(t, "it may get placements", func() error {
		if m.leading.Load().workerBlocked(w.id) {
			return errors.New("it is blocked")
		}
		return nil
	})
}

// PR-15, the leader's half: refused ports end what may run twice, and the
// timeout what may not.
func TestPR15ASingletonIsReplacedAtTheTimeoutAndNotWhenPortsAreRefused(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	m, ctx := startTimed(t, timeout, 200*time.Millisecond)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	single := sleeper("single")
	single.Disconnect = model.DisconnectSingleton
	one, many := launched(ctx, t, m, w, single), launched(ctx, t, m, w, sleeper("many"))
	other := newScriptedWorker(t, "worker-b")
	other.hello(m)
	other.next("welcome", isWelcome)

	w.die()
	cut := time.Now()
	if got := other.next("launch", isLaunch).Launch.Ref; got.App != many.App {
		t.Fatalf("%s was launched first, want the replacement of %s", got, many)
	}
	if took := time.Since(cut); took > timeout/2 {
		t.Errorf("the executor that may run twice was replaced after %s, want at once", took)
	}
	if got := executorState(t, m, one); got != model.ExecutorRunning {
		t.Errorf("the singleton is %s, want it RUNNING", got)
	}
	if got := workerOf(t, m, w.id); got.State != model.WorkerUnreachable {
		t.Errorf("the worker is %s (%s), want it UNREACHABLE", got.State, got.StateReason)
	}
	if got := other.next("launch of the singleton", isLaunch).Launch.Ref; got.App != one.App {
		t.Fatalf("%s was launched, want the replacement of %s", got, one)
	}
	if took := w.rhythm.silence(); took < timeout {
		t.Errorf("the singleton was replaced %s after its worker's last beat, want %s", took, timeout)
	}
	inState(t, m, w.id, model.WorkerDead)
}

// HA-35: the masters have started without their data. What a worker is told
// names both clusters and the way out.
func TestHA35AWorkerOfAnotherClusterIsToldBothNamesAndTheWayOut(t *testing.T) {
	m, ctx := startOne(t)
	before := model.ClusterIdentity{ID: "hearth-before", Epoch: 1, EpochID: 7}
	stream := newDeafStream[model.WorkerDown](t, model.WorkerUp{Hello: &model.WorkerHello{
		Worker: "worker-a", Incarnation: 3, BootID: "boot", Cluster: before, HighestTerm: 900,
		Offer:     model.Offer{Hostname: "127.0.0.1", GRPCAddr: "127.0.0.1:1", SerfAddr: "127.0.0.1:1", Cores: 1, MemoryMiB: 512},
		Inventory: []model.ExecutorReport{running(model.ExecutorRef{App: "app-20261130061500-0099"})},
	}}, 0)
	err := sessionService{m.Master}.WorkerSession(ctx, stream)
	if !errors.Is(err, model.ErrForeignCluster) {
		t.Fatalf("got %v, want a refusal for the other cluster", err)
	}
	for _, want := range []string{before.ID, m.fsm.View().Cluster().ID, "hearth worker rejoin", "worker-a"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
	if _, known := m.fsm.View().Worker("worker-a"); known {
		t.Error("a worker of another cluster was registered")
	}
}
