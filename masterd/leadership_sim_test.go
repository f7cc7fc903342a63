package masterd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// scopes watches the leader scopes of a cluster: how many run in each term, and
// for how long each master's loop and Raft differ.
type scopes struct {
	mu      sync.Mutex
	running map[uint64]int
	most    int                          // at once in one term
	entered map[int]map[uint64]time.Time // by master: terms whose set-up began
}

func newScopes() *scopes {
	return &scopes{running: map[uint64]int{}, entered: map[int]map[uint64]time.Time{}}
}

// enter notes that master n sets a term up, until leave.
func (s *scopes) enter(n int, term uint64) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[term]++
	s.most = max(s.most, s.running[term])
	if s.entered[n] == nil {
		s.entered[n] = map[uint64]time.Time{}
	}
	if _, again := s.entered[n][term]; !again {
		s.entered[n][term] = time.Now()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[term]--
	}
}

// led returns how many terms master n has begun to lead since a moment.
func (s *scopes) led(n int, since time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := 0
	for _, at := range s.entered[n] {
		if at.After(since) {
			out++
		}
	}
	return out
}

// belief measures, until stop, for how long at most a master's loop has differed
// from Raft without a break, and for how long its main loop has not come round.
func (c *simCluster) belief(every time.Duration) (stop func() (differed, stood time.Duration)) {
	quit, done := make(chan struct{}), make(chan struct{})
	var differed, stood time.Duration
	go func() {
		defer close(done)
		equal := make(map[*simMaster]time.Time)
		for {
			for _, m := range c.ms {
				term, leads := m.node.Belief()
				scope := m.scope.Load()
				now := time.Now()
				if _, seen := equal[m]; !seen || leads == (scope != 0) && (!leads || scope == term) {
					equal[m] = now
				}
				differed = max(differed, now.Sub(equal[m]))
				if id, _ := m.node.Leader(); id != "" {
					stood = max(stood, time.Duration(m.sinceStart()-m.lastLeader.Load())*time.Millisecond)
				}
			}
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
		}
	}()
	return func() (time.Duration, time.Duration) {
		close(quit)
		<-done
		return differed, stood
	}
}

// raftLeader is the master that Raft calls leader; its scope may not be ready.
func (c *simCluster) raftLeader() *simMaster {
	for _, m := range c.ms {
		if _, leads := m.node.Belief(); leads {
			return m
		}
	}
	return nil
}

// submit registers an application through any of the masters.
func (c *simCluster) submit(name string, limit time.Duration, through ...*simMaster) (model.AppID, time.Duration) {
	c.t.Helper()
	cl := c.client(through...)
	defer func() {
		if err := cl.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	reply, err := cl.RegisterApp(ctx, sleeper(name))
	if err != nil {
		c.t.Fatalf("submit %s within %s: %v", name, limit, err)
	}
	return reply.App, time.Since(began)
}

func (c *simCluster) others(than *simMaster) []*simMaster {
	var out []*simMaster
	for _, m := range c.ms {
		if m != than {
			out = append(out, m)
		}
	}
	return out
}

// The set-up of a leader takes longer than most terms last. It is too long for
// many seeds: testcluster.TestSimHA09LeadershipIsHandedAround has those.
func TestHA09LeadershipThatFlapsLeavesOneLoopPerTerm(t *testing.T) {
	simulateSeed(t, 9, func(t *testing.T, c *simCluster) {
		const flaps = 500
		seen := newScopes()
		c.deps = func(n int, d *Deps) {
			d.seams.setUp = func(ctx context.Context, term uint64) error {
				defer seen.enter(n, term)()
				select {
				case <-time.After(2 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(40 * time.Second)
		stop := c.belief(10 * time.Millisecond)
		moved := 0
		for range flaps {
			if m := c.raftLeader(); m != nil {
				ctx, cancel := context.WithTimeout(context.Background(), transferTimeout)
				if err := m.node.TransferLeadership(ctx, ""); err == nil {
					moved++
				}
				cancel()
			}
			time.Sleep(time.Duration(c.rnd.Int63n(int64(50 * time.Millisecond))))
		}
		_, took := c.submit("after the last flap", 2*time.Second, c.ms...)
		differed, stood := stop()
		t.Logf("%d of %d transfers moved leadership; loop and raft differed for at most %s; a registration after the last took %s", moved, flaps, differed, took)
		if moved < flaps*9/10 {
			t.Errorf("only %d of %d transfers moved leadership", moved, flaps)
		}
		if differed > time.Second {
			t.Errorf("a loop differed from raft for %s, want at most 1 s", differed)
		}
		if stood > 10*time.Second {
			t.Errorf("a master's main loop stood still for %s", stood)
		}
		if seen.most != 1 {
			t.Errorf("%d loops ran in one term at once", seen.most)
		}
		c.settled(10 * time.Second)
		c.agree()
	})
}

// A leader whose disk hangs goes on sending heartbeats, so nobody else notices.
func TestSimHA10ALeaderWhoseDiskHangsIsReplacedAndItsLoopFollowsRaft(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		var stuck atomic.Int64 // master number + 1
		release := make(chan struct{})
		c.deps = func(n int, d *Deps) {
			d.Disk = func(string) error {
				if stuck.Load() == int64(n+1) {
					<-release
				}
				return nil
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		old, _ := c.settled(20 * time.Second)
		for n, m := range c.ms {
			if m == old {
				stuck.Store(int64(n + 1))
				m.fails = true
			}
		}
		first := make(chan error, 1)
		go func() { // it makes the disk hang
			_, err := clusterService{old.Master}.RegisterApp(context.Background(), rpc.CallInfo{RequestID: "during"}, sleeper("during"))
			first <- err
		}()
		differed := map[*simMaster]int{}
		for range 35 {
			time.Sleep(time.Second)
			for _, m := range c.ms {
				_, leads := m.node.Belief()
				if leads == (m.scope.Load() != 0) {
					differed[m] = 0
				} else if differed[m]++; differed[m] > 5 {
					t.Fatalf("%s: raft leads %v, its loop runs %v, for %d s", m.host, leads, !leads, differed[m])
				}
			}
		}
		close(release)
		_, took := c.submit("after", 10*time.Second, c.ms...)
		t.Logf("a registration after the release took %s", took)
		if err := <-first; !errors.Is(err, model.ErrOutcomeUnknown) {
			t.Errorf("the registration in the middle of it: %v, want outcome unknown", err)
		}
		if now, err := c.leader(old); err != nil || now == old {
			t.Errorf("no other master leads: %v", err)
		}
	})
}

// One master cannot set its terms up; the others can.
func TestSimHA11AMasterWhoseSetUpFailsHandsLeadershipOver(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		var bad atomic.Int64 // master number + 1
		seen := newScopes()
		c.deps = func(n int, d *Deps) {
			d.seams.setUp = func(_ context.Context, term uint64) error {
				defer seen.enter(n, term)()
				if bad.Load() == int64(n+1) {
					return errors.New("made to fail")
				}
				return nil
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		good, _ := c.settled(20 * time.Second)
		m1, n1 := c.others(good)[0], 0
		for n, m := range c.ms {
			if m == m1 {
				n1 = n
			}
		}
		bad.Store(int64(n1 + 1))
		began := time.Now()
		for time.Since(began) < time.Minute {
			if err := good.transfer(context.Background(), m1.ID()); err != nil {
				t.Fatalf("make %s the leader: %v", m1.host, err)
			}
			elected := time.Now()
			c.until("another master leads", 5*time.Second, func() (err error) {
				good, err = c.leader(m1)
				return err
			})
			t.Logf("%s had handed over after %s", m1.host, time.Since(elected))
			_, took := c.submit("through the others", 5*time.Second, c.others(m1)...)
			t.Logf("a registration took %s", took)
			time.Sleep(25 * time.Second)
		}
		if led := seen.led(n1, began); led > 3 {
			t.Errorf("%s has led %d times in a minute, want at most 3", m1.host, led)
		}
		c.agree()
	})
}

// Where no master can set a term up, leadership must not go round as fast as
// messages do.
func TestSimHA11ASetUpThatFailsEverywhereDoesNotMakeLeadershipSpin(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		var broken atomic.Bool
		seen := newScopes()
		c.deps = func(n int, d *Deps) {
			d.seams.setUp = func(_ context.Context, term uint64) error {
				defer seen.enter(n, term)()
				if broken.Load() {
					return errors.New("made to fail")
				}
				return nil
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		leader, _ := c.settled(20 * time.Second)
		broken.Store(true)
		began := time.Now()
		if err := leader.transfer(context.Background(), ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for n := range c.ms {
			if led := seen.led(n, began); led > int(time.Minute/handOverPace)+1 {
				t.Errorf("%s has led %d terms in a minute", c.ms[n].host, led)
			}
		}
		broken.Store(false)
		c.until("a leader once set-up works", 5*time.Second, func() error {
			_, err := c.leader()
			return err
		})
	})
}

// The fault is in every master: whoever leads panics at the same application.
func TestSimHA04AnApplicationThatPanicsTheLeaderIsLeftAlone(t *testing.T) {
	simulate(t, func(t *testing.T, c *simCluster) {
		var bad atomic.Pointer[model.AppID]
		c.deps = func(_ int, d *Deps) {
			d.seams.app = func(id model.AppID) {
				if b := bad.Load(); b != nil && *b == id {
					panic("application " + string(id) + " is looked at")
				}
			}
		}
		for n := range c.dirs {
			c.start(n)
		}
		c.settled(20 * time.Second)
		w := newSimWorker(c, "w1")
		w.connect()
		apps := c.waiting(100)
		bad.Store(&apps[57])
		recovering := c.recovering(100 * time.Millisecond)
		for range 3 { // each master in turn recovers with it
			leader, err := c.leader()
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.transfer(context.Background(), ""); err != nil {
				t.Fatal(err)
			}
			moved := time.Now()
			c.until("a leader that serves, and lists the application", 10*time.Second, func() error {
				if _, err := c.leader(leader); err != nil {
					return err
				}
				return c.listed(apps[57], true)
			})
			t.Logf("listed by every master after %s", time.Since(moved))
			w.connect()
			app, _ := c.submit("new", 5*time.Second, c.ms...)
			took := c.until("an executor of a new application", 5*time.Second, func() error { return c.placed(app) })
			t.Logf("a new application got its executor after %s", took)
		}
		if longest := recovering(); longest > 20*time.Second {
			t.Errorf("a master was recovering for %s", longest)
		}
		bad.Store(nil)
		c.until("the application is looked at again", 2*quarantineFirst, func() error { return c.listed(apps[57], false) })
		w.stop()
		c.agree()
	})
}

// waiting registers n applications that want more than any worker has.
func (c *simCluster) waiting(n int) []model.AppID {
	c.t.Helper()
	cl := c.client(c.ms...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var apps []model.AppID
	for i := range n {
		spec := sleeper(fmt.Sprintf("app %d", i))
		spec.Profile.MemoryMiB = 1 << 20
		reply, err := cl.RegisterApp(ctx, spec)
		if err != nil {
			c.t.Fatal(err)
		}
		apps = append(apps, reply.App)
	}
	if err := cl.Close(); err != nil {
		c.t.Error(err)
	}
	return apps
}

// recovering measures, until stop, for how long at most a master has led
// without being ready.
func (c *simCluster) recovering(every time.Duration) (stop func() time.Duration) {
	quit, done := make(chan struct{}), make(chan struct{})
	var longest time.Duration
	go func() {
		defer close(done)
		since := make(map[*simMaster]time.Time)
		for {
			for _, m := range c.ms {
				_, leads := m.node.Belief()
				if _, counting := since[m]; !leads || m.leading.Load() != nil || !counting {
					since[m] = time.Now()
				}
				longest = max(longest, time.Since(since[m]))
			}
			select {
			case <-quit:
				return
			case <-time.After(every):
			}
		}
	}()
	return func() time.Duration {
		close(quit)
		<-done
		return longest
	}
}

// listed checks what every master shows of an application.
func (c *simCluster) listed(id model.AppID, want bool) error {
	for _, m := range c.ms {
		v, err := m.clusterView()
		if err != nil {
			return err
		}
		for _, a := range v.Apps {
			got := a.Reason != ""
			switch {
			case a.ID == id && got != want:
				return fmt.Errorf("%s gives the reason %q for %s", m.host, a.Reason, id)
			case a.ID != id && got:
				return fmt.Errorf("%s lists %s as well: %s", m.host, a.ID, a.Reason)
			}
		}
	}
	return nil
}

func (c *simCluster) placed(app model.AppID) error {
	leader, err := c.leader()
	if err != nil {
		return err
	}
	err = errors.New("it has none")
	leader.fsm.View().Executors(app, func(*model.Executor) bool {
		err = nil
		return false
	})
	return err
}

// simWorker is a worker in the simulated network that obeys nothing.
type simWorker struct {
	c      *simCluster
	id     model.WorkerID
	grpc   string
	serf   string
	lis    []net.Listener
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func newSimWorker(c *simCluster, id string) *simWorker {
	c.t.Helper()
	w := &simWorker{c: c, id: model.WorkerID(id)}
	for _, port := range []string{"7073", "7074"} { // a dial-back finds its process
		l, err := c.net.Host(id).Listen(":" + port)
		if err != nil {
			c.t.Fatal(err)
		}
		w.lis = append(w.lis, l)
	}
	ip := c.net.Host(id).IP().String()
	w.grpc, w.serf = ip+":7073", ip+":7074"
	return w
}

// connect opens a session with the leader, instead of an earlier one.
func (w *simWorker) connect() {
	w.c.t.Helper()
	if w.cancel != nil {
		w.cancel()
	}
	leader, err := w.c.leader()
	if err != nil {
		w.c.t.Fatal(err)
	}
	conn, err := rpc.Dial(leader.GRPCAddr(), rpc.DialConfig{Dial: w.c.net.Host(string(w.id)).Dial})
	if err != nil {
		w.c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	s, err := rpc.OpenWorkerSession(ctx, conn)
	if err != nil {
		w.c.t.Fatal(err)
	}
	err = s.Send(model.WorkerUp{Hello: &model.WorkerHello{
		Worker: w.id, Incarnation: 1, BootID: "boot",
		Offer: model.Offer{Hostname: string(w.id), GRPCAddr: w.grpc, SerfAddr: w.serf, Cores: 8, MemoryMiB: 8192},
	}})
	if err != nil {
		w.c.t.Fatal(err)
	}
	welcome, err := s.Recv()
	if err != nil || welcome.Welcome == nil {
		w.c.t.Fatalf("worker %s got %+v, %v", w.id, welcome, err)
	}
	w.ended.Go(func() {
		for {
			if _, err := s.Recv(); err != nil {
				return
			}
		}
	})
	w.ended.Go(func() {
		defer func() { _ = conn.Close() }()
		for n := uint64(1); s.Send(model.WorkerUp{Beat: &model.Beat{Number: n}}) == nil; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	})
}

func (w *simWorker) stop() {
	w.cancel()
	w.ended.Wait()
	for _, l := range w.lis {
		_ = l.Close()
	}
}
