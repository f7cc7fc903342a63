package driver

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// pretended is a cluster that gives what it is asked for at once, and calls that
// take no slot until they are told to.
type pretended struct {
	t       *testing.T
	a       *allocator
	now     time.Time
	next    model.ExecutorID
	there   []model.ExecutorID
	waiting int
	busy    map[model.ExecutorID]int
}

func newPretended(t *testing.T, d Dynamic, slots int) *pretended {
	t.Helper()
	d, err := d.prepare()
	if err != nil {
		t.Fatal(err)
	}
	p := &pretended{t: t, a: newAllocator(d, slots), now: time.Unix(1000, 0), busy: map[model.ExecutorID]int{}}
	p.grant()
	return p
}

func (p *pretended) grant() {
	for len(p.there) < p.a.target {
		p.there = append(p.there, p.next)
		p.next++
	}
}

func (p *pretended) load() load {
	l := load{waiting: p.waiting}
	for _, id := range p.there {
		l.running += p.busy[id]
		l.executors = append(l.executors, ExecutorInfo{ID: id, State: ExecutorReady, Slots: p.a.slots, Running: p.busy[id]})
	}
	return l
}

// pass lets time pass in the allocator's steps and returns the targets seen.
func (p *pretended) pass(d time.Duration) (targets []int) {
	p.t.Helper()
	for end := p.now.Add(d); p.now.Before(end); {
		p.now = p.now.Add(allocationInterval)
		for _, id := range p.a.decide(p.load(), p.now) {
			if p.busy[id] > 0 {
				p.t.Errorf("executor %d was to go with %d calls on it", id, p.busy[id])
			}
			p.there = slices.DeleteFunc(p.there, func(o model.ExecutorID) bool { return o == id })
		}
		p.grant()
		if len(targets) == 0 || targets[len(targets)-1] != p.a.target {
			targets = append(targets, p.a.target)
		}
	}
	return targets
}

// The numbers are those of Spark's ExecutorAllocationManager with its defaults.
func TestDynamicAllocationAsksForOneThenTwoThenFourExecutors(t *testing.T) {
	p := newPretended(t, Dynamic{Max: 100}, 2)
	if got := p.pass(time.Minute); !slices.Equal(got, []int{0}) {
		t.Fatalf("without calls: targets %v", got)
	}
	p.waiting = 60 // for 30 executors
	if got := p.pass(900 * time.Millisecond); !slices.Equal(got, []int{0}) {
		t.Errorf("before the backlog is old enough: targets %v", got)
	}
	if got, want := p.pass(6*time.Second), []int{0, 1, 3, 7, 15, 30}; !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
	if got := p.pass(time.Minute - time.Second); !slices.Equal(got, []int{30}) {
		t.Errorf("more than the calls need: %v", got)
	}
}

func TestDynamicAllocationStopsAtItsBounds(t *testing.T) {
	p := newPretended(t, Dynamic{Min: 2, Max: 5, Initial: 3}, 1)
	if len(p.there) != 3 {
		t.Fatalf("%d executors at first, want 3", len(p.there))
	}
	p.waiting = 100
	if got := p.pass(10 * time.Second); !slices.Equal(got, []int{3, 4, 5}) {
		t.Errorf("targets %v", got)
	}
	p.waiting = 0
	p.pass(2 * time.Minute)
	if len(p.there) != 2 || p.a.target != 2 {
		t.Errorf("%d executors and a target of %d when idle, want 2", len(p.there), p.a.target)
	}
}

func TestDynamicAllocationEndsIdleExecutorsOnly(t *testing.T) {
	p := newPretended(t, Dynamic{Max: 10, IdleTimeout: 30 * time.Second}, 1)
	p.waiting = 4
	p.pass(10 * time.Second)
	if len(p.there) != 4 {
		t.Fatalf("%d executors, want 4", len(p.there))
	}
	p.waiting = 0
	p.busy = map[model.ExecutorID]int{0: 1, 1: 1, 2: 1, 3: 1}
	p.pass(5 * time.Minute)
	if len(p.there) != 4 {
		t.Fatalf("%d executors while all are busy, want 4", len(p.there))
	}
	delete(p.busy, 1)
	delete(p.busy, 3)
	p.pass(29 * time.Second)
	if len(p.there) != 4 {
		t.Errorf("executors %v after 29 s of idleness, want all", p.there)
	}
	p.pass(2 * time.Second)
	if !slices.Equal(p.there, []model.ExecutorID{0, 2}) || p.a.target != 2 {
		t.Errorf("executors %v and target %d, want the busy ones", p.there, p.a.target)
	}
	// Work comes back: what was given back is asked for again.
	p.waiting = 3
	p.pass(10 * time.Second)
	if len(p.there) != 5 {
		t.Errorf("%d executors, want 5", len(p.there))
	}
}

func TestDynamicAllocationKeepsWhatItIsToldTo(t *testing.T) {
	p := newPretended(t, Dynamic{Max: 3, IdleTimeout: time.Second, Keep: func(e ExecutorInfo) bool { return e.ID == 1 }}, 1)
	p.waiting = 3
	p.pass(5 * time.Second)
	p.waiting = 0
	p.pass(10 * time.Second)
	if !slices.Equal(p.there, []model.ExecutorID{1}) {
		t.Errorf("executors %v, want the kept one", p.there)
	}
}

func TestAnExecutorThatWasToGoIsNamedUntilItHasGone(t *testing.T) {
	d, err := Dynamic{Max: 3, IdleTimeout: time.Second}.prepare()
	if err != nil {
		t.Fatal(err)
	}
	a := newAllocator(d, 1)
	now := time.Unix(0, 0)
	l := load{executors: []ExecutorInfo{{ID: 7, State: ExecutorReady, Slots: 1}}}
	a.decide(l, now)
	for range 3 {
		now = now.Add(2 * time.Second)
		if got := a.decide(l, now); !slices.Equal(got, []model.ExecutorID{7}) {
			t.Fatalf("to go: %v", got)
		}
	}
	if got := a.decide(load{}, now); len(got) != 0 || len(a.leaving) != 0 {
		t.Errorf("after its end: %v, %v", got, a.leaving)
	}
}

func TestADynamicAllocationThatMakesNoSenseIsRefused(t *testing.T) {
	for _, d := range []Dynamic{{Min: -1}, {Min: 5, Max: 4}, {Max: 3, Initial: 4}, {Min: 2, Initial: 1}, {IdleTimeout: -1}, {Max: model.MaxExecutors + 1}} {
		if _, err := d.prepare(); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// SetTargets grants what is asked for, if the test has said how.
func (c *cluster) SetTargets(_ context.Context, _ rpc.CallInfo, req rpc.SetTargetsRequest) error {
	c.mu.Lock()
	grant, sized := c.grant, c.sized
	if c.targets == nil {
		c.targets, c.profiles = make(map[int]int), make(map[int]model.Profile)
	}
	maps.Copy(c.targets, req.Totals)
	maps.Copy(c.profiles, req.Profiles)
	c.mu.Unlock()
	if req.App != testApp || req.Token != testToken {
		return model.ErrUnauthenticated
	}
	if n, ok := req.Totals[model.ProfileDefault]; grant != nil && ok {
		grant(n)
	}
	if sized != nil {
		for profile, n := range req.Totals {
			sized(profile, n)
		}
	}
	return nil
}

func TestAProgramGetsExecutorsForItsCallsAndGivesIdleOnesBack(t *testing.T) {
	release := make(chan struct{})
	var s *sdk
	var mu sync.Mutex
	var targets []int
	s = newSDK(t, func(p *Program) {
		p.ExecutorCores = 1
		p.Dynamic = &Dynamic{Max: 3, BacklogTimeout: 50 * time.Millisecond, IdleTimeout: 200 * time.Millisecond}
		fn := Register(p, "wait", func(ctx context.Context, _ int) (model.ExecutorID, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return Executor(ctx).ID, ctx.Err()
		})
		p.Run(func(ctx context.Context, app *App) error {
			if err := app.SetExecutors(ctx, 5); !errors.Is(err, model.ErrConflict) {
				t.Errorf("a fixed number beside a dynamic one: %v", err)
			}
			go func() {
				eventuallySDK(t, "three executors are there", func() bool { return len(app.Executors(ctx)) == 3 })
				close(release)
			}()
			if _, err := Map(ctx, app, fn, make([]int, 6)); err != nil {
				return err
			}
			eventuallySDK(t, "all executors are told to go", func() bool {
				return locked(s.cluster, func() int { return len(s.killed) }) == 3
			})
			for id := range model.ExecutorID(3) {
				s.lose(id)
			}
			eventuallySDK(t, "none is left", func() bool { return len(app.Executors(ctx)) == 0 })
			return nil
		})
	})
	s.grant = func(n int) {
		mu.Lock()
		defer mu.Unlock()
		was := 0
		if len(targets) > 0 {
			was = targets[len(targets)-1]
		}
		targets = append(targets, n)
		for ; was < n; was++ {
			s.start(model.ExecutorID(was), 1)
		}
	}
	if code := s.run(t.Context(), nil); code != CodeOK {
		t.Fatalf("code %d\n%s", code, &s.stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	if spec := s.specs[0]; spec.Executors != 0 {
		t.Errorf("registered for %d executors, want none at first", spec.Executors)
	}
	// On the way down it depends on which calls are seen to run.
	if len(targets) < 3 || targets[0] != 1 || targets[1] != 3 || slices.Max(targets) != 3 || targets[len(targets)-1] != 0 {
		t.Errorf("targets %v, want 1 and 3 at first, 3 at most and 0 in the end", targets)
	}
}
