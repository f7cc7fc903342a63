package masterd

import (
	"context"
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
	judged := verdict{worker: workerOf(t, m, w.id), state: model.WorkerDead, reason: "judged before it came back"}
	w.disconnect()
	w.inc, w.seq = w.inc+1, 0
	w.hello(m)
	w.next("welcome", isWelcome)
	l := m.leading.Load()
	judged.answered = time.Hour // so that the evidence alone decides
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
	l := m.leading.Load()
	judged := l.clock.now()
	w.hello(m)
	w.next("welcome", isWelcome)
	if err := l.markWorker(ctx, verdict{worker: workerOf(t, m, w.id), answered: judged, state: model.WorkerDead, reason: "too late"}); err != nil {
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

// judging returns a leadership without loops over one worker, whose clock the
// test moves.
func judging(m *testMaster, id model.WorkerID) *leadership {
	return &leadership{
		m: m.Master, log: m.log, ctx: context.Background(),
		workers: map[model.WorkerID]*workerSeat{id: {id: id, session: func() {}, gen: 1}},
		drivers: map[model.AppID]*driverSeat{},
		fallen:  departures[model.WorkerID]{}, departed: departures[model.AppID]{},
		schedule: newPoke(),
	}
}

// stand lets a time pass in which the master stood still, and then looks.
func (l *leadership) stand(d time.Duration) []verdict {
	l.clock.now()
	l.clock.last = l.clock.last.Add(-d)
	l.clock.look()
	return l.judgeWorkers(false)
}

func TestSilenceIsLookedAtMoreOftenWhileThereIsSome(t *testing.T) {
	m, _ := startTimed(t, time.Minute, time.Second)
	l := judging(m, "worker-a")
	s := l.workers["worker-a"]
	look := func(what string, want time.Duration) {
		t.Helper()
		if got := l.livenessPause(); got != want {
			t.Errorf("%s: the next look in %s, want %s", what, got, want)
		}
	}
	look("everybody answers", livenessRest)
	for range 4 { // more at once would be a master that stood still
		l.stand(stallNoticed)
	}
	look("a beat is overdue", livenessTick)
	l.answeredWorker(s.id, 1)
	look("it has come", livenessRest)
	s.session = nil
	look("a session is closed", livenessTick)
	l.workers = nil
	look("there is nobody", livenessRest)
	for beat, want := range map[time.Duration]time.Duration{600 * time.Millisecond: 150 * time.Millisecond, 10 * time.Millisecond: livenessTick} {
		if got := livenessAtRest(beat); got != want {
			t.Errorf("with beats every %s the next look is in %s, want %s", beat, got, want)
		}
	}
}

// A leader that was stopped for longer than worker_timeout finds everybody
// silent when it goes on; what they have said waits to be read.
func TestTheTimeThatAMasterStoodStillCountsAgainstNobody(t *testing.T) {
	m, _ := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	l := judging(m, w.id)
	for range 3 {
		if got := l.stand(10 * m.cfg.WorkerTimeout); len(got) != 0 {
			t.Errorf("got verdicts %+v, want none", got)
		}
	}
}

// HA-27, seen from inside: for a minute the master runs for 50 ms of each
// second. Who is heard in each of them stays alive, who is not is found dead.
func TestHA27AStarvedLeaderFindsOnlyTheSilentDead(t *testing.T) {
	m, _ := startOne(t)
	w := newScriptedWorker(t, "worker-a")
	w.hello(m)
	w.next("welcome", isWelcome)
	l := judging(m, w.id)
	const cycle, runs = time.Second, 50 * time.Millisecond
	for n := range 60 {
		if got := l.stand(cycle - runs); len(got) != 0 {
			t.Fatalf("second %d: got verdicts %+v on a worker that is heard", n, got)
		}
		l.answeredWorker(w.id, uint64(n+1))
		if got := l.stand(runs); len(got) != 0 {
			t.Fatalf("second %d: got verdicts %+v on a worker that is heard", n, got)
		}
	}
	silent := 0
	for silent < 60 {
		silent++
		got := append(l.stand(cycle-runs), l.stand(runs)...)
		if len(got) == 0 {
			continue
		}
		if d := got[0]; d.state != model.WorkerDead || d.beat != 60 || d.heard == 0 {
			t.Errorf("got verdict %+v, want DEAD on beat 60", d)
		}
		break
	}
	if least := int(m.cfg.WorkerTimeout / cycle); silent < least || silent > 3*least {
		t.Errorf("found dead after %d s of silence, want %d to %d", silent, least, 3*least)
	}
}
