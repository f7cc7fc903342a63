package driver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

func TestCallsRunOnExecutorsOfTheirProfileOnly(t *testing.T) {
	var s *sdk
	s = newSDK(t, func(p *Program) {
		where := placing(p)
		p.Run(func(ctx context.Context, app *App) error {
			big, err := app.NewProfile(ctx, ProfileSpec{Cores: 4, MemoryMiB: 2048, Resources: map[string]int{"gpu": 1}, CoresPerTask: 2})
			if err != nil {
				return err
			}
			if err := big.SetExecutors(ctx, 1); err != nil {
				return err
			}
			// There is none yet: the call waits, and calls of the default profile pass it.
			late := make(chan error, 1)
			go func() {
				got, err := Call(ctx, app, where, false, WithProfile(big), WithLocality(Locality{Hosts: []string{"host-0"}}))
				if err == nil && got != 7 {
					err = errors.New("it ran on an executor of another profile")
				}
				late <- err
			}()
			eventuallySDK(t, "the call waits", func() bool {
				n := 0
				_ = app.drv.call(ctx, func(l *loop) { n = l.lane(big.Number()).waiting() })
				return n == 1
			})
			own, err := Map(ctx, app, where, make([]bool, 200))
			if err != nil {
				return err
			}
			if slices.Contains(own, 7) {
				t.Error("a call without a profile ran on an executor that is not there yet")
			}
			s.startSized(7, 4, big.Number())
			if err := <-late; err != nil {
				t.Errorf("the call that waited: %v", err)
			}
			// Both are there: each call goes to its own, however free the others are.
			own, err = Map(ctx, app, where, make([]bool, 200))
			if err != nil {
				return err
			}
			if slices.Contains(own, 7) {
				t.Error("a call without a profile ran on an executor of one")
			}
			theirs, err := Map(ctx, app, where, make([]bool, 200), WithProfile(big))
			for _, id := range theirs {
				if id != 7 {
					t.Errorf("a call of the profile ran on executor %d", id)
				}
			}
			for _, e := range app.Executors(ctx) {
				if e.ID == 7 && (e.Slots != 2 || e.Profile != big.Number()) {
					t.Errorf("got %+v, want two slots: each call takes two of its four cores", e)
				}
			}
			return err
		})
	})
	if code := s.run(t.Context(), []int{1, 1}); code != CodeOK {
		t.Fatalf("exit code %d\n%s", code, &s.stderr)
	}
	got := locked(s.cluster, func() map[int]int { return s.targets })
	if got[1] != 1 || s.profiles[1].Cores != 4 || s.profiles[1].Resources["gpu"] != 1 {
		t.Errorf("the cluster was asked for %v of %v", got, s.profiles)
	}
}

func TestTheSameSizeIsTheSameProfile(t *testing.T) {
	ran(t, []int{1}, func(p *Program) func(context.Context, *App) error {
		p.ExecutorCores = 2
		return func(ctx context.Context, app *App) error {
			one, err := app.NewProfile(ctx, ProfileSpec{Cores: 4})
			if err != nil {
				return err
			}
			again, err := app.NewProfile(ctx, ProfileSpec{Cores: 4})
			if err != nil {
				return err
			}
			other, err := app.NewProfile(ctx, ProfileSpec{Cores: 4, MemoryMiB: 1024})
			if err != nil {
				return err
			}
			if one != again || one.Number() != 1 || other.Number() != 2 {
				t.Errorf("got profiles %d, %d and %d, want 1, 1 and 2", one.Number(), again.Number(), other.Number())
			}
			if _, err := app.NewProfile(ctx, ProfileSpec{CoresPerTask: 3}); !errors.Is(err, model.ErrInvalid) {
				t.Errorf("a call that is larger than its executor: %v", err)
			}
			return nil
		}
	})
}

// A call of a profile without executors must not be a riddle.
func TestCallsWithoutExecutorsOfTheirProfileSayWhyTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var events []Event
		d := &Driver{log: hclog.New(&hclog.LoggerOptions{Output: &out}), cfg: Config{CoresPerTask: 1, Observer: func(e Event) { events = append(events, e) }}}
		l := newLoop(d, nil)
		rec := make([]task, 2)
		for i := range rec {
			rec[i].fill(&Task{Function: "f", Profile: 3 * i})
			rec[i].spec.ID = model.TaskID(i + 1)
			l.enqueue(&rec[i])
		}
		look := func() {
			l.starve(time.Now())
			time.Sleep(noticeAfter / 2)
		}
		look()
		look()
		if len(events) != 0 {
			t.Fatalf("told after less than %s: %v", noticeAfter, events)
		}
		look()
		look()
		if len(events) != 1 || events[0].Kind != EventProfileWaits || events[0].Profile != 3 || events[0].Tasks != 1 {
			t.Fatalf("got %+v, want one event of one task of profile 3", events)
		}
		if !strings.Contains(out.String(), "Profile.SetExecutors") {
			t.Errorf("it does not say that nobody has asked for executors:\n%s", &out)
		}
		l.lane(3).asked = 2
		m := newMember(model.DriverExecutor{ID: 1, Cores: 1, Profile: 3}, l.lane(3), &l.rules)
		l.order = append(l.order, m)
		look() // one is there: it is over
		l.order = nil
		look()
		look()
		look()
		if len(events) != 2 || !strings.Contains(events[1].Reason, "hearth why") {
			t.Errorf("got %+v, want a second event that names hearth why", events)
		}
	})
}

func TestTasksOfAProfileWithoutExecutorsKeepOutNoOthers(t *testing.T) {
	wake := make(chan struct{}, 1)
	in := intake{wake: wake}
	stuck := make([]task, MaxQueued+1)
	for i := range stuck {
		stuck[i].profile = 1
	}
	mixed := append(make([]task, 2), stuck[:2]...)
	if _, taken, space := in.put(stuck); taken != MaxQueued || space == nil {
		t.Fatalf("%d were taken, want %d and a wait", taken, MaxQueued)
	}
	if _, taken, space := in.put(mixed); taken != 2 || space != nil {
		t.Errorf("%d of the default profile were taken, want both, without a wait", taken)
	}
	_, taken, space := in.put(mixed[2:])
	if taken != 0 || space == nil {
		t.Errorf("%d more of the full profile were taken", taken)
	}
	in.drain()
	in.left([]*lane{{profile: 0}, {profile: 1}})
	select {
	case <-space:
	default:
		t.Error("nobody was let in although nothing waits any more")
	}
}

func TestDynamicAllocationAsksForEachProfileByItsOwnCalls(t *testing.T) {
	s := newSDK(t, func(p *Program) {
		where := placing(p)
		p.ExecutorCores = 1
		p.Dynamic = &Dynamic{Max: 4, BacklogTimeout: 50 * time.Millisecond}
		p.Run(func(ctx context.Context, app *App) error {
			big, err := app.NewProfile(ctx, ProfileSpec{Cores: 2})
			if err != nil {
				return err
			}
			if err := big.SetExecutors(ctx, 1); !errors.Is(err, model.ErrConflict) {
				t.Errorf("with dynamic allocation executors can be asked for: %v", err)
			}
			if _, err := Call(ctx, app, where, false, WithProfile(big)); err != nil {
				return err
			}
			return nil
		})
	})
	s.cluster.mu.Lock()
	s.sized = func(profile, n int) {
		if profile == 1 && n == 1 {
			s.startSized(1, 2, 1)
		}
	}
	s.cluster.mu.Unlock()
	if code := s.run(t.Context(), nil); code != CodeOK {
		t.Fatalf("exit code %d\n%s", code, &s.stderr)
	}
	if got := locked(s.cluster, func() int { return s.targets[0] }); got != 0 {
		t.Errorf("%d executors of the default profile were asked for, and nothing needs them", got)
	}
}
