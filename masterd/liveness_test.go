package masterd

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

func TestAVerdictOnAnEarlierIncarnationDoesNotTouchTheWorker(t *testing.T) {
	m, ctx := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	judged := verdict{worker: workerOf(t, m, w.id), answered: time.Now(), state: model.WorkerDead, reason: "judged before it came back"}
	w.disconnect()
	w.inc, w.seq = w.inc+1, 0
	w.hello(m)
	w.next("welcome", isWelcome)
	l := m.leading.Load()
	judged.answered = time.Now() // so that the evidence alone decides
	if err := l.markWorker(ctx, judged); err != nil {
		t.Fatal(err)
	}
	if got := workerOf(t, m, w.id); got.State != model.WorkerAlive || got.Incarnation != 2 {
		t.Errorf("got worker %s in incarnation %d, want ALIVE in 2", got.State, got.Incarnation)
	}
}

func TestAWorkerHeardAfterItWasJudgedIsNotDead(t *testing.T) {
	m, ctx := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	judged := time.Now()
	w.hello(m)
	w.next("welcome", isWelcome)
	if err := m.leading.Load().markWorker(ctx, verdict{workerOf(t, m, w.id), judged, model.WorkerDead, "too late"}); err != nil {
		t.Fatal(err)
	}
	if got := workerOf(t, m, w.id); got.State != model.WorkerAlive {
		t.Errorf("got worker %s, want ALIVE", got.State)
	}
}

// Its stream may break between the commit of its Hello and its seat.
func TestAWorkerThatRegisteredAndVanishedIsFoundDead(t *testing.T) {
	m, ctx := startOne(t)
	grpc, serf := listenLoopback(t), listenLoopback(t)
	hello := model.WorkerHello{Worker: "worker-a", Incarnation: 1, BootID: "boot", Offer: model.Offer{
		Hostname: "127.0.0.1", GRPCAddr: grpc.Addr().String(), SerfAddr: serf.Addr().String(), Cores: 1, MemoryMiB: 512,
	}}
	_ = grpc.Close()
	_ = serf.Close()
	if err := m.propose(ctx, registerWorkerCommand(hello)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker to be dead", func() error {
		if w := workerOf(t, m, "worker-a"); w.State != model.WorkerDead {
			return fmt.Errorf("it is %s", w.State)
		}
		return nil
	})
}

// SC-15: a worker that is stopping answers each launch with LOST, which is no
// failure of the application and so has no back-off.
func TestAWorkerThatLosesWhatItIsGivenIsLeftAloneForAMoment(t *testing.T) {
	m, ctx := startOne(t)
	c := newClient(t, m)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	if _, err := c.RegisterApp(ctx, sleeper("one")); err != nil {
		t.Fatal(err)
	}
	ref := w.next("launch", isLaunch).Launch.Ref
	began := time.Now()
	w.report(1, model.ExecutorReport{Ref: ref, State: model.ExecutorLost, Cause: model.CauseInfra, ExitCode: -1, Reason: "the worker is stopping"})
	w.next("another launch", isLaunch)
	if waited := time.Since(began); waited < shunAfterLoss {
		t.Errorf("the next launch came after %s, want %s", waited, shunAfterLoss)
	}
}

// A leader that was stopped for longer than worker_timeout finds everybody
// silent when it goes on; what they have said waits to be read.
func TestTheTimeThatAMasterStoodStillCountsAgainstNobody(t *testing.T) {
	m, ctx := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	const stalled = 12 * time.Second
	l := &leadership{m: m.Master, log: m.log, ctx: ctx, workers: map[model.WorkerID]*workerSeat{
		w.id: {id: w.id, session: func() {}, answered: time.Now().Add(-stalled)},
	}, drivers: map[model.AppID]*driverSeat{}}
	if got := l.judgeWorkers(time.Now()); len(got) != 1 || got[0].state != model.WorkerDead {
		t.Fatalf("got verdicts %+v without forgiving, want the worker dead: this test shows nothing", got)
	}
	l.forgive(stalled)
	if got := l.judgeWorkers(time.Now()); len(got) != 0 {
		t.Errorf("got verdicts %+v, want none", got)
	}
	if at := l.workers[w.id].answered; at.After(time.Now()) {
		t.Errorf("last heard in %s", time.Until(at))
	}
}
