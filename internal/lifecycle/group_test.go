package lifecycle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untilCancelled is an actor that records when it stopped.
func untilCancelled(order *[]string, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		*order = append(*order, name)
		return ctx.Err()
	}
}

func TestFirstReturnStopsTheOthersInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		interrupts := 0
		g := New(0)
		g.Add("store", untilCancelled(&order, "store"), nil)
		g.Add("raft", untilCancelled(&order, "raft"), func(error) { interrupts++ })
		boom := errors.New("boom")
		g.Add("server", func(context.Context) error { time.Sleep(time.Second); return boom }, nil)

		err := g.Run(t.Context())
		if !errors.Is(err, boom) || err.Error() != "server: boom" {
			t.Errorf("got error %v, want the server's", err)
		}
		if diff := cmp.Diff([]string{"raft", "store"}, order); diff != "" {
			t.Errorf("stop order (-want +got):\n%s", diff)
		}
		if interrupts != 1 {
			t.Errorf("got %d calls of interrupt, want 1", interrupts)
		}
	})
}

func TestTheEndOfTheContextIsAnOrderlyStopWithoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		g := New(0)
		for _, name := range []string{"a", "b", "c"} {
			g.Add(name, untilCancelled(&order, name), nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := g.Run(ctx); err != nil {
			t.Errorf("got error %v, want none", err)
		}
		if diff := cmp.Diff([]string{"c", "b", "a"}, order); diff != "" {
			t.Errorf("stop order (-want +got):\n%s", diff)
		}
	})
}

func TestAnActorThatReturnsNilStopsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		g := New(0)
		g.Add("a", untilCancelled(&order, "a"), nil)
		g.Add("b", func(context.Context) error { return nil }, nil)
		if err := g.Run(t.Context()); err != nil {
			t.Errorf("got error %v, want none", err)
		}
		if diff := cmp.Diff([]string{"a"}, order); diff != "" {
			t.Errorf("stop order (-want +got):\n%s", diff)
		}
	})
}

func TestAllErrorsAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := errors.New("one"), errors.New("two")
		g := New(0)
		g.Add("a", func(ctx context.Context) error { <-ctx.Done(); return two }, nil)
		g.Add("b", func(context.Context) error { return one }, nil)
		err := g.Run(t.Context())
		if got, want := err.Error(), "b: one\na: two"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !errors.Is(err, one) || !errors.Is(err, two) {
			t.Errorf("got %v, want both errors inside", err)
		}
	})
}

func TestTheCauseReachesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		var cause, interrupted error
		g := New(0)
		g.Add("a", func(ctx context.Context) error { <-ctx.Done(); cause = context.Cause(ctx); return nil },
			func(err error) { interrupted = err })
		g.Add("b", func(context.Context) error { return boom }, nil)
		if err := g.Run(t.Context()); !errors.Is(err, boom) {
			t.Errorf("got %v, want boom", err)
		}
		if !errors.Is(cause, boom) || !errors.Is(interrupted, boom) {
			t.Errorf("got cause %v and interrupt %v, want boom in both", cause, interrupted)
		}
	})
}

func TestAStuckActorIsNamedAndDoesNotHoldUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		release := make(chan struct{})
		g := New(5 * time.Second)
		g.Add("a", untilCancelled(&order, "a"), nil)
		g.Add("stuck", func(context.Context) error { <-release; return nil }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := g.Run(ctx)
		if !errors.Is(err, ErrStuck) {
			t.Errorf("got %v, want ErrStuck", err)
		}
		if got, want := err.Error(), "stop stuck after 5s: did not stop in time"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := time.Since(start), 6*time.Second; got != want {
			t.Errorf("took %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{"a"}, order); diff != "" {
			t.Errorf("stop order (-want +got):\n%s", diff)
		}
		close(release)
		synctest.Wait()
	})
}

func TestACancellationOfItsOwnIsAnError(t *testing.T) {
	g := New(0)
	g.Add("a", func(context.Context) error { return context.Canceled }, nil)
	if err := g.Run(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled: nobody had interrupted the actor", err)
	}
}

func TestAnEmptyGroupReturnsAtOnce(t *testing.T) {
	if err := New(0).Run(t.Context()); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}
