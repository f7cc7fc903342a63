package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func TestALoneStandbyIsEnough(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	leader, standby := fc.master(t, nil), fc.master(t, nil)
	fc.setLeader(leader.addr)
	c := newClient(t, Config{Masters: []string{standby.addr}})
	got, err := c.RegisterApp(within(t, 10*time.Second), spec)
	if err != nil || got.App == "" || got.Token != "token" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAnswersCutAfterTheCommitTakeEffectOnce(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	var masters []*fakeMaster
	var cuts atomic.Int64
	for range 3 {
		masters = append(masters, fc.master(t, func(m *fakeMaster) {
			m.afterCommit = func() error {
				if cuts.Add(1)%3 == 1 {
					m.lis.cut()
				}
				return nil
			}
		}))
	}
	fc.setLeader(masters[0].addr)
	addrs := []string{masters[0].addr, masters[1].addr, masters[2].addr}
	const clients = 40
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	defer cancel()
	var moving sync.WaitGroup
	moving.Go(func() { // leadership moves all the while, with gaps
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for i := 1; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				fc.setLeader([]string{"", addrs[i/2%3]}[i%2])
			}
		}
	})
	var mu sync.Mutex
	apps := map[model.AppID]string{}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := newClient(t, Config{Masters: []string{addrs[i%3]}})
			id := fmt.Sprintf("request-%d", i)
			got, err := c.RegisterAppWithID(ctx, id, spec)
			if err != nil {
				t.Errorf("client %d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if other, taken := apps[got.App]; taken {
				t.Errorf("%s and %s got the same application", other, id)
			}
			apps[got.App] = id
		})
	}
	wg.Wait()
	cancel()
	moving.Wait()
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if len(fc.answers) != clients {
		t.Fatalf("%d applications for %d clients", len(fc.answers), clients)
	}
	repeated := 0
	for _, n := range fc.calls {
		if n > 1 {
			repeated++
		}
	}
	if repeated == 0 {
		t.Fatal("no call was repeated: the test cut nothing")
	}
}

// In virtual time an exchange takes none, so that the deadline always falls
// between two attempts.
func TestTheErrorAtTheDeadlineSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	const nobody = "master:1"
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, fc *fakeCluster) string
		want    error
	}{
		"no leader": {func(t *testing.T, fc *fakeCluster) string {
			return fc.master(t, nil).addr
		}, model.ErrNoLeader},
		"a leader that is gone": {func(t *testing.T, fc *fakeCluster) string {
			m := fc.master(t, nil)
			fc.setLeader(nobody)
			return m.addr
		}, model.ErrNoLeader},
		"an outcome that stays unknown": {func(t *testing.T, fc *fakeCluster) string {
			m := fc.master(t, func(m *fakeMaster) { m.afterCommit = func() error { return model.ErrOutcomeUnknown } })
			fc.setLeader(m.addr)
			return m.addr
		}, model.ErrOutcomeUnknown},
		"nobody there": {func(*testing.T, *fakeCluster) string { return nobody }, model.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fc := newFakeCluster()
				fc.sim = simnet.New(rand.New(rand.NewSource(1)))
				c := newClient(t, Config{Masters: []string{tc.prepare(t, fc)}, Dialer: fc.dialer(), Rand: seeded()})
				ctx := within(t, 5*time.Second)
				err := c.KillApp(ctx, "app-1", "")
				if !errors.Is(err, tc.want) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want %v", err, tc.want)
				}
				for _, other := range []error{model.ErrNoLeader, model.ErrOutcomeUnknown, model.ErrUnavailable} {
					if !errors.Is(tc.want, other) && errors.Is(err, other) {
						t.Errorf("%v also says %v", err, other)
					}
				}
			})
		})
	}
}

// A stopped process still has its connections accepted by the kernel (HA-36).
func TestAFrozenMasterHoldsAReadUpForASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fc := newFakeCluster()
		fc.sim = simnet.New(rand.New(rand.NewSource(1)))
		frozen, err := fc.listen()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = frozen.Close() }()
		addr := frozen.Addr().String()
		c := newClient(t, Config{Masters: []string{addr, fc.master(t, nil).addr}, Dialer: fc.dialer(), Rand: seeded()})
		for range 4 { // whichever master is asked first
			began := time.Now()
			if _, err := c.Settings(within(t, time.Minute)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > FirstReadTimeout+RetryMax {
				t.Errorf("the read took %s", took)
			}
			c.reader = NewLeaderFinder([]string{addr, c.reader.Leader()}, c.childRand())
		}
	})
}

func TestAnAnswerThatIsARefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, func(m *fakeMaster) { m.afterCommit = func() error { return model.RejectUnknownApp.Err("nope") } })
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	err := c.KillApp(within(t, 10*time.Second), "app-1", "")
	var rej *model.RejectedError
	if !errors.As(err, &rej) || !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	fc.mu.Lock()
	defer fc.mu.Unlock()
	for id, n := range fc.calls {
		if n != 1 {
			t.Errorf("%s arrived %d times", id, n)
		}
	}
}

func TestAClientWithAnOldBaseTakesANewOne(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, nil)
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	ctx := within(t, 10*time.Second)
	if err := c.KillApp(ctx, "app-1", ""); err != nil {
		t.Fatal(err)
	}
	fc.mu.Lock()
	fc.index, fc.oldest = 200000, 150000
	fc.mu.Unlock()
	if err := c.KillApp(ctx, "app-1", ""); err != nil {
		t.Fatal(err)
	}
}

func TestAnExpiredRepeatOfAnUnknownAttemptStaysUnknown(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, func(m *fakeMaster) {
		m.afterCommit = func() error {
			fc.mu.Lock()
			defer fc.mu.Unlock()
			clear(fc.answers)
			fc.oldest = 1 << 40
			return model.ErrOutcomeUnknown
		}
	})
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	if err := c.KillApp(within(t, 10*time.Second), "app-1", ""); !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
}

func TestATransferIsNotRepeatedOnceItMayHaveHappened(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, func(m *fakeMaster) {
		m.afterCommit = func() error { m.lis.cut(); return nil }
	})
	fc.setLeader(m.addr)
	c := newClient(t, Config{Masters: []string{m.addr}})
	if err := c.TransferLeadership(within(t, 10*time.Second), ""); !errors.Is(err, model.ErrOutcomeUnknown) {
		t.Fatalf("got %v", err)
	}
	// The call was cut: its handler may still be on its way out.
	fc.mu.Lock()
	defer fc.mu.Unlock()
	if fc.transfer != 1 {
		t.Fatalf("transferred %d times", fc.transfer)
	}
}

func TestReadsStayWithTheMasterThatAnsweredAndLeaveADeadOne(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	a, b := fc.master(t, nil), fc.master(t, nil)
	c := newClient(t, Config{Masters: []string{deadAddr(t), a.addr, b.addr}})
	ctx := within(t, 20*time.Second)
	read := func() {
		t.Helper()
		if _, err := c.Settings(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		read()
	}
	if (a.reads == 5) == (b.reads == 5) {
		t.Fatalf("reads were spread: %d and %d", a.reads, b.reads)
	}
	first, second := a, b
	if b.reads == 5 {
		first, second = b, a
	}
	first.stop()
	read()
	if second.reads != 1 {
		t.Fatalf("the other master served %d reads", second.reads)
	}
}

func TestAWaitOutlivesItsMaster(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	inside := make(chan struct{}, 2)
	var once sync.Once
	var a, b *fakeMaster
	block := func(m *fakeMaster) {
		m.waitApp = func(ctx context.Context, _ rpc.WaitAppRequest) (model.AppView, error) {
			first := false
			once.Do(func() { first = true })
			if !first {
				return model.AppView{ID: "app-1", Terminal: true, ChangeIndex: 5}, nil
			}
			inside <- struct{}{}
			<-ctx.Done()
			return model.AppView{}, ctx.Err()
		}
	}
	a, b = fc.master(t, block), fc.master(t, block)
	c := newClient(t, Config{Masters: []string{a.addr, b.addr}})
	got := make(chan error, 1)
	go func() {
		v, err := c.WaitEnded(within(t, 15*time.Second), "app-1")
		if err == nil && (!v.Terminal || v.ChangeIndex != 5) {
			err = fmt.Errorf("view %+v", v)
		}
		got <- err
	}()
	<-inside
	a.lis.cut()
	b.lis.cut()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}

func TestAReplicaThatLagsDoesNotHideAnApplication(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	leader := fc.master(t, nil)
	standby := fc.master(t, func(m *fakeMaster) { m.lagging = true })
	fc.setLeader(leader.addr)
	fc.setApp(model.AppView{ID: "app-1", ChangeIndex: 3})
	c := newClient(t, Config{Masters: []string{standby.addr}})
	ctx := within(t, 10*time.Second)
	if v, err := c.App(ctx, rpc.AppRequest{ID: "app-1"}); err != nil || v.ChangeIndex != 3 {
		t.Fatalf("got %+v, %v", v, err)
	}
	if _, err := c.App(ctx, rpc.AppRequest{ID: "app-2"}); !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if _, err := c.WaitApp(ctx, "app-2", 0); !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if v, err := c.Why(ctx, "app-1"); err != nil || v.Staleness.Master != model.MasterID(leader.addr) {
		t.Fatalf("why: got %+v, %v, want the leader's answer", v, err)
	}
	if _, err := c.Why(ctx, "app-2"); !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("why: got %v", err)
	}
}

func TestAReplicaThatLagsDoesNotHideALog(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	leader := fc.master(t, func(m *fakeMaster) {
		m.readLog = func(_ context.Context, _ rpc.LogRequest, send func(rpc.LogChunk) error) error {
			return send(rpc.LogChunk{Data: []byte("said")})
		}
	})
	standby := fc.master(t, func(m *fakeMaster) {
		m.lagging = true
		m.readLog = func(_ context.Context, req rpc.LogRequest, _ func(rpc.LogChunk) error) error {
			return fmt.Errorf("%w: executor %s", model.ErrNotFound, req.Ref)
		}
	})
	fc.setLeader(leader.addr)
	fc.setApp(model.AppView{ID: "app-1", ChangeIndex: 3})
	c := newClient(t, Config{Masters: []string{standby.addr}})
	var said []byte
	keep := func(chunk rpc.LogChunk) error { said = append(said, chunk.Data...); return nil }
	req := rpc.LogRequest{Ref: model.ExecutorRef{App: "app-1"}, Stream: rpc.LogStdout}
	if err := c.ReadLog(within(t, 10*time.Second), req, keep); err != nil || string(said) != "said" {
		t.Fatalf("got %q, %v", said, err)
	}
	req.Ref.App = "app-2"
	if err := c.ReadLog(within(t, 10*time.Second), req, keep); !errors.Is(err, model.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
}

func TestALogIsResumedWhereItBroke(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	const whole = "the quick brown fox jumps over the lazy dog"
	piece := func(m *fakeMaster) {
		m.readLog = func(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
			from := req.Offset
			if from < 0 {
				from = 4
			}
			to := min(from+10, int64(len(whole)))
			if err := send(rpc.LogChunk{Offset: from, Data: []byte(whole[from:to])}); err != nil {
				return err
			}
			if to == int64(len(whole)) {
				return nil
			}
			return fmt.Errorf("%w: worker connection lost", model.ErrUnavailable)
		}
	}
	a, b := fc.master(t, piece), fc.master(t, piece)
	c := newClient(t, Config{Masters: []string{a.addr, b.addr}})
	var got string
	err := c.ReadLog(within(t, 10*time.Second), rpc.LogRequest{Stream: rpc.LogStdout, Offset: -39}, func(chunk rpc.LogChunk) error {
		got += string(chunk.Data)
		return nil
	})
	if err != nil || got != whole[4:] {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestALogOfALostWorkerIsGivenUp(t *testing.T) {
	t.Parallel()
	fc := newFakeCluster()
	m := fc.master(t, func(m *fakeMaster) {
		m.readLog = func(context.Context, rpc.LogRequest, func(rpc.LogChunk) error) error {
			return fmt.Errorf("%w: worker w1 does not answer", model.ErrUnavailable)
		}
	})
	c := newClient(t, Config{Masters: []string{m.addr}})
	err := c.ReadLog(within(t, 15*time.Second), rpc.LogRequest{Stream: rpc.LogStdout}, func(rpc.LogChunk) error { return nil })
	if !errors.Is(err, model.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
}

func TestAClosedClientAndABadConfigAreRefused(t *testing.T) {
	t.Parallel()
	for _, masters := range [][]string{nil, {""}, make([]string, MaxSeeds+1)} {
		for i := range masters {
			if len(masters) > 1 {
				masters[i] = fmt.Sprintf("m%d:1", i)
			}
		}
		if _, err := New(Config{Masters: masters}); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%d masters: %v", len(masters), err)
		}
	}
	c := newClient(t, Config{Masters: []string{deadAddr(t)}})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(within(t, 5*time.Second)); !errors.Is(err, model.ErrRefused) {
		t.Fatalf("got %v", err)
	}
}
