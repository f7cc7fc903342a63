package masterd

import (
	"context"
	"errors"
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

// atOnce returns how many loops of one term have run at the same time at most.
func (s *scopes) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
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
		if most := seen.atOnce(); most != 1 {
			t.Errorf("%d loops ran in one term at once", most)
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
