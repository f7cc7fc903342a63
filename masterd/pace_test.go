package masterd

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/fsm"
)

// looks runs a loop with a pace for a while of virtual time and returns when it
// has looked, since its begin. look says whether it is restless.
func looks(t *testing.T, h *hub, d time.Duration, look func() bool, during func(p *pace)) []time.Duration {
	t.Helper()
	var at []time.Duration
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	p, unpace := h.newPace()
	defer unpace()
	p.urgent = newPoke()
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		during(p)
	}()
	for restless := false; p.next(ctx, restless); {
		at = append(at, time.Since(began))
		restless = look()
	}
	<-ended
	return at
}

// somethingChanges is an entry that changed a record.
func somethingChanges(h *hub) { h.publish(1, []fsm.Change{{Kind: fsm.ChangeSettings}}) }

func TestALoopAtRestLooksAtTheNextMomentAfterAChangeAndElseEveryRestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		got := looks(t, h, 2*restLook, func() bool { return false }, func(*pace) {
			time.Sleep(2500 * time.Millisecond)
			somethingChanges(h)
			somethingChanges(h)
			time.Sleep(10 * time.Millisecond)
			h.publish(2, []fsm.Change{}) // changed nothing
		})
		// The rest is counted from the last look.
		want := []time.Duration{3 * time.Second, 3*time.Second + restLook + loopTick}
		if !slices.Equal(got, want) {
			t.Errorf("it looked at %v, want %v", got, want)
		}
	})
}

func TestARestlessLoopLooksAtEachMomentOfATicker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHub(), 0
		look := func() bool {
			n++
			time.Sleep(300 * time.Millisecond) // a look takes time, and moves no later moment
			return n < 3
		}
		got := looks(t, h, 20*time.Second, look, func(*pace) { somethingChanges(h) })
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("it looked at %v, want %v", got, want)
		}
	})
}

func TestAChangeDuringALookIsLookedAtWithinATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, n := newHub(), 0
		look := func() bool {
			if n++; n == 1 {
				somethingChanges(h) // after the view was read
			}
			return false
		}
		got := looks(t, h, 20*time.Second, look, func(*pace) { somethingChanges(h) })
		if want := []time.Duration{time.Second, 2 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("it looked at %v, want %v", got, want)
		}
	})
}

func TestWhatIsUrgentIsLookedAtAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		got := looks(t, h, 20*time.Second, func() bool { return false }, func(p *pace) {
			time.Sleep(2500 * time.Millisecond)
			p.urgent.wake()
		})
		if want := []time.Duration{2500 * time.Millisecond}; !slices.Equal(got, want) {
			t.Errorf("it looked at %v, want %v", got, want)
		}
	})
}

func TestAWaitThatIsOverTakesNoPokeAndMakesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		woken := newPoke()
		woken.wake()
		for _, d := range []time.Duration{0, -time.Second} {
			if why := await(t.Context(), d, woken, nil); why != byTime {
				t.Errorf("a wait of %v ended by %d, want byTime", d, why)
			}
		}
		if len(woken) != 1 {
			t.Error("the poke is lost")
		}
		if why := await(t.Context(), time.Hour, nil, woken); why != bySecond {
			t.Errorf("woken by %d, want bySecond", why)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		woken.wake()
		if why := await(ended, 0, woken, nil); why != byEnd {
			t.Errorf("the end of the context came as %d, want byEnd", why)
		}
	})
}
