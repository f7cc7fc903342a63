package masterd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// scriptedWorker is the far end of a worker session, driven by the test. It
// holds real listeners on the addresses it offers, so that dial-back finds a
// process.
type scriptedWorker struct {
	t       *testing.T
	id      model.WorkerID
	inc     uint64
	seq     uint64 // of the last report of this incarnation
	grpc    net.Listener
	serf    net.Listener
	conn    *rpc.Conn
	session rpc.WorkerSessionClient
	down    chan model.WorkerDown
	cancel  context.CancelFunc
	mute    bool // it sends no beats

	sending *sync.Mutex

	rhythm *rhythm
}

// rhythm is what a scriptedWorker knows of its beats.
type rhythm struct {
	mu       sync.Mutex
	sent     map[uint64]time.Time // by number, since Hello
	answered time.Time            // when the last one was sent that was answered; before that, Hello
}

func (r *rhythm) hello() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.answered = make(map[uint64]time.Time), time.Now()
}

func (r *rhythm) sends(beat uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[beat] = time.Now()
}

func (r *rhythm) acked(beat uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sent, ok := r.sent[beat]; ok {
		r.answered = sent
	}
}

// silence is for how long the leader can have heard nothing, at most. The time since a session was cut off says less: a
// busy machine may have sent no beat for a while before.
func (r *rhythm) silence() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.answered)
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func newScriptedWorker(t *testing.T, id string) *scriptedWorker {
	t.Helper()
	w := &scriptedWorker{t: t, id: model.WorkerID(id), inc: 1, grpc: listenLoopback(t), serf: listenLoopback(t), sending: new(sync.Mutex), rhythm: new(rhythm)}
	t.Cleanup(w.disconnect)
	return w
}

// hello opens a session with the leader.
func (w *scriptedWorker) hello(leader *testMaster, inventory ...model.ExecutorReport) {
	w.t.Helper()
	conn, err := rpc.Dial(leader.GRPCAddr(), rpc.DialConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	w.conn, w.session, w.cancel = conn, s, cancel
	w.down = make(chan model.WorkerDown, 256)
	w.rhythm.hello()
	go func(down chan model.WorkerDown) {
		defer close(down)
		for {
			d, err := s.Recv()
			if err != nil {
				return
			}
			if d.BeatAck != nil {
				w.rhythm.acked(d.BeatAck.Number)
			}
			down <- d
		}
	}(w.down)
	w.send(model.WorkerUp{Hello: &model.WorkerHello{
		Worker: w.id, Incarnation: w.inc, BootID: "boot",
		Offer: model.Offer{
			Hostname: "127.0.0.1", GRPCAddr: w.grpc.Addr().String(), SerfAddr: w.serf.Addr().String(),
			Cores: 8, MemoryMiB: 8192,
		},
		Inventory: inventory, ReportSeq: w.seq,
	}})
	if !w.mute {
		go w.beats(ctx, s, leader.cfg.WorkerBeat)
	}
}

// beats sends beats until the session ends.
func (w *scriptedWorker) beats(ctx context.Context, s rpc.WorkerSessionClient, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.rhythm.sends(n)
		w.sending.Lock()
		err := s.Send(model.WorkerUp{Beat: &model.Beat{Number: n}})
		w.sending.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *scriptedWorker) send(up model.WorkerUp) {
	w.t.Helper()
	w.sending.Lock()
	defer w.sending.Unlock()
	if err := w.session.Send(up); err != nil {
		w.t.Fatalf("worker %s sends: %v", w.id, err)
	}
}

// next returns the first message that pick accepts, skipping the others.
func (w *scriptedWorker) next(what string, pick func(model.WorkerDown) bool) model.WorkerDown {
	w.t.Helper()
	deadline := time.NewTimer(testPatience)
	defer deadline.Stop()
	for {
		select {
		case d, ok := <-w.down:
			if !ok {
				w.t.Fatalf("worker %s: the session ended while waiting for %s", w.id, what)
			}
			if pick(d) {
				return d
			}
		case <-deadline.C:
			w.t.Fatalf("worker %s: no %s within %s", w.id, what, testPatience)
		}
	}
}

func isWelcome(d model.WorkerDown) bool { return d.Welcome != nil }
func isLaunch(d model.WorkerDown) bool  { return d.Launch != nil }
func isKill(d model.WorkerDown) bool    { return d.Kill != nil }

func (w *scriptedWorker) report(seq uint64, reports ...model.ExecutorReport) {
	w.t.Helper()
	w.seq = seq
	w.send(model.WorkerUp{Report: &model.WorkerReport{Incarnation: w.inc, Seq: seq, Executors: reports}})
	w.next(fmt.Sprintf("acknowledgement of report %d", seq), func(d model.WorkerDown) bool {
		return d.ReportAck != nil && d.ReportAck.Seq >= seq
	})
}

// disconnect closes the session but keeps the listeners.
func (w *scriptedWorker) disconnect() {
	if w.session == nil {
		return
	}
	w.cancel()
	_ = w.session.Close() // the stream may be gone already
	_ = w.conn.Close()
	w.session = nil
}

// die closes everything, as a killed process would.
func (w *scriptedWorker) die() {
	_ = w.grpc.Close()
	_ = w.serf.Close()
	w.disconnect()
}

func running(ref model.ExecutorRef) model.ExecutorReport {
	return model.ExecutorReport{Ref: ref, State: model.ExecutorRunning, PID: 42, ExitCode: -1}
}

func startOne(t *testing.T) (*testMaster, context.Context) {
	t.Helper()
	m := startCluster(t, 1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	t.Cleanup(cancel)
	return m, ctx
}

func TestAWorkerIsOrderedToLaunchAndToKill(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	welcome := w.next("welcome", isWelcome).Welcome
	if welcome.Fence.Term == 0 || welcome.Fence.Cluster.IsZero() || welcome.Fence.Incarnation != 1 {
		t.Errorf("got fence %+v, want term, cluster and incarnation 1", welcome.Fence)
	}
	app, err := c.RegisterApp(ctx, sleeper("one"))
	if err != nil {
		t.Fatal(err)
	}
	launch := w.next("launch", isLaunch).Launch
	want := model.ExecutorRef{App: app.App, Executor: 0}
	if launch.Ref != want || launch.Secret == "" || launch.Cores != 1 {
		t.Fatalf("got launch %+v, want %s with a secret and one core", launch, want)
	}
	w.report(1, running(launch.Ref))
	if err := c.KillApp(ctx, app.App, "enough"); err != nil {
		t.Fatal(err)
	}
	kill := w.next("kill", isKill).Kill
	if kill.Ref != want {
		t.Fatalf("got kill of %s, want %s", kill.Ref, want)
	}
	v := m.fsm.View()
	if used := v.Usage(w.id).Cores; used != 1 {
		t.Errorf("got %d cores used while the process is being killed, want 1", used)
	}
	w.report(2, model.ExecutorReport{Ref: want, State: model.ExecutorKilled, Cause: model.CauseKill, Signal: 15, ExitCode: -1})
	if used := m.fsm.View().Usage(w.id).Cores; used != 0 {
		t.Errorf("got %d cores used after the process has gone, want 0", used)
	}
}

func TestAWorkerWhosePortsAreRefusedIsDeadAndItsExecutorsAreReplaced(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	a, b := newScriptedWorker(t, "worker-a"), newScriptedWorker(t, "worker-b")
	a.hello(m)
	a.next("welcome", isWelcome)
	app, err := c.RegisterApp(ctx, sleeper("one"))
	if err != nil {
		t.Fatal(err)
	}
	a.report(1, running(a.next("launch", isLaunch).Launch.Ref))
	b.hello(m)
	b.next("welcome", isWelcome)

	began := time.Now()
	a.die()
	launch := b.next("launch of the replacement", isLaunch).Launch
	if want := (model.ExecutorRef{App: app.App, Executor: 1}); launch.Ref != want {
		t.Errorf("got launch of %s, want %s", launch.Ref, want)
	}
	t.Logf("replacement ordered %s after the death", time.Since(began).Round(time.Millisecond))
	rec, _ := m.fsm.View().Worker("worker-a")
	if rec.State != model.WorkerDead {
		t.Errorf("got worker state %s, want DEAD", rec.State)
	}
}

func TestAWorkerWhoseSessionBreaksForAMomentLosesNothing(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	if _, err := c.RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	ref := w.next("launch", isLaunch).Launch.Ref
	w.report(1, running(ref))
	w.disconnect()
	w.hello(m, running(ref))
	w.next("welcome", isWelcome)
	e, ok := m.fsm.View().Executor(ref)
	if !ok || e.State != model.ExecutorRunning {
		t.Fatalf("got executor %+v, want it RUNNING", e)
	}
	workers := 0
	m.fsm.View().Workers(func(*model.Worker) bool { workers++; return true })
	if workers != 1 {
		t.Errorf("got %d worker records, want 1", workers)
	}
}

// A partition may hold a Hello back until after another session has begun.
func TestAHelloThatIsOlderThanALaterReportLosesNothing(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	if _, err := c.RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	ref := w.next("launch", isLaunch).Launch.Ref
	w.report(1, running(ref))
	late := *w
	late.session, late.seq, late.sending = nil, 0, new(sync.Mutex)
	t.Cleanup(late.disconnect)
	late.hello(m) // as it was made before the launch
	for range late.down {
		t.Error("the late session got an answer")
	}
	if e, ok := m.fsm.View().Executor(ref); !ok || e.State != model.ExecutorRunning {
		t.Errorf("got executor %+v, want it RUNNING", e)
	}
}

// Whatever lies between a worker and its leader may lose a report or deliver it late: the word that an executor has
// ended is not covered by the acknowledgement of a later one.
func TestAReportThatIsMissingIsNotAcknowledgedByALaterOne(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	if _, err := c.RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	ref := w.next("launch", isLaunch).Launch.Ref
	w.report(1, running(ref))
	w.send(model.WorkerUp{Report: &model.WorkerReport{Incarnation: w.inc, Seq: 1}}) // a copy of what is known
	w.send(model.WorkerUp{Report: &model.WorkerReport{Incarnation: w.inc, Seq: 3}}) // the second is lost
	for d := range w.down {
		if d.ReportAck != nil && d.ReportAck.Seq > 1 {
			t.Fatalf("report %d is acknowledged", d.ReportAck.Seq)
		}
	}
	w.disconnect()
	w.seq = 3
	w.hello(m, running(ref))
	w.next("welcome", isWelcome)
	w.report(4, running(ref))
}

func TestAProcessUnknownToTheStateIsKilledByItsOwnOrder(t *testing.T) {
	m, _ := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	stranger := model.ExecutorRef{App: "app-20261130061500-0099", Executor: 3}
	w.hello(m, running(stranger))
	w.next("welcome", isWelcome)
	if kill := w.next("kill", isKill).Kill; kill.Ref != stranger {
		t.Fatalf("got kill of %s, want %s", kill.Ref, stranger)
	}
}

func TestAWorkerThatSaysGoodbyeIsGone(t *testing.T) {
	m, _ := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	w.send(model.WorkerUp{Leave: &model.WorkerLeave{Reason: "stopped"}})
	w.next("leave ok", func(d model.WorkerDown) bool { return d.LeaveOK != nil })
	rec, _ := m.fsm.View().Worker(w.id)
	if rec.State != model.WorkerLeft {
		t.Errorf("got worker state %s, want LEFT", rec.State)
	}
	w.disconnect()

	t.Run("and must come back under a new incarnation", func(t *testing.T) {
		w.hello(m)
		w.next("rehello", func(d model.WorkerDown) bool { return d.Rehello != nil })
		w.disconnect()
		w.inc, w.seq = w.inc+1, 0
		w.hello(m)
		w.next("welcome", isWelcome)
	})
}

func TestAStandbySendsAWorkerToTheLeader(t *testing.T) {
	ms := startCluster(t, 3)
	leader := leaderOf(ms)
	for _, m := range ms {
		if m == leader {
			continue
		}
		eventually(t, "standby knows the leader", func() error {
			if got := (leaderInfo{m.Master}).LeaderAddr(); got != leader.GRPCAddr() {
				return fmt.Errorf("leader address %q", got)
			}
			return nil
		})
		conn, err := rpc.Dial(m.GRPCAddr(), rpc.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := rpc.OpenWorkerSession(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		if hint, ok := rpc.LeaderHint(err); !errors.Is(err, model.ErrNotLeader) || !ok || hint != leader.GRPCAddr() {
			t.Errorf("got error %v, want not leader with hint %s", err, leader.GRPCAddr())
		}
		_ = s.Close()
		_ = conn.Close()
	}
}
