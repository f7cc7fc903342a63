package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(7, 7)) }

func TestEveryMasterIsAskedOncePerRoundAndThenThereIsAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seeds := []string{"a:1", "b:1", "c:1"}
		f := NewLeaderFinder(append(seeds, "a:1", ""), seeded())
		var pauses []time.Duration
		for range 12 {
			var round []string
			began := time.Now()
			for range seeds {
				if since := time.Since(began); since != 0 {
					t.Fatalf("waited %s within a round", since)
				}
				addr := f.Next()
				round = append(round, addr)
				f.Failed(addr, model.ErrUnavailable)
				if err := f.Wait(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(round)
			if !cmp.Equal(round, seeds) {
				t.Fatalf("asked %v", round)
			}
			pauses = append(pauses, time.Since(began))
		}
		for i, p := range pauses {
			want := min(RetryMax, RetryFirst<<i)
			if p < want/2 || p > want {
				t.Errorf("pause %d is %s, want %s to %s", i, p, want/2, want)
			}
		}
	})
}

func TestAHintIsFollowedAtOnceAndTheLeaderRemembered(t *testing.T) {
	t.Parallel()
	f := NewLeaderFinder([]string{"a:1"}, seeded())
	f.Failed(f.Next(), rpc.NotLeader("b:1"))
	if err := f.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := f.Next(); got != "b:1" {
		t.Fatalf("asked %s, not the hint", got)
	}
	f.Reached("b:1")
	if got := f.Next(); got != "b:1" || f.Leader() != "b:1" {
		t.Fatalf("asked %s, not the leader", got)
	}
	f.Failed("b:1", model.ErrUnavailable)
	if got := f.Next(); got != "a:1" {
		t.Fatalf("asked %s, which has just failed", got)
	}
}

func TestALeaderThatCannotBeReachedIsNotTriedToSaveAHop(t *testing.T) {
	t.Parallel()
	f := NewLeaderFinder([]string{"a:1"}, seeded())
	f.Hint("b:1")
	if got := f.Next(); got != "b:1" {
		t.Fatalf("asked %s, not the leader", got)
	}
	f.Failed("b:1", model.ErrUnavailable)
	f.Reached(f.Next())
	f.Hint("b:1")
	if got := f.Next(); got != "a:1" {
		t.Fatalf("asked %s again", got)
	}
}

func TestMastersThatPointAtEachOtherDoNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewLeaderFinder([]string{"a:1", "b:1"}, seeded())
		other := map[string]string{"a:1": "b:1", "b:1": "a:1"}
		began := time.Now()
		for range 100 {
			addr := f.Next()
			f.Failed(addr, rpc.NotLeader(other[addr]))
			if err := f.Wait(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d < time.Second {
			t.Fatalf("100 tries in %s", d)
		}
	})
}

func TestAHintOnlyCountsFromAMasterThatDoesNotLead(t *testing.T) {
	t.Parallel()
	f := NewLeaderFinder([]string{"a:1"}, seeded())
	f.Failed("a:1", errors.New("no hint"))
	f.Failed("a:1", rpc.NotLeader("a:1"))
	f.Failed("a:1", rpc.NotLeader(""))
	if got := f.Next(); got != "a:1" {
		t.Fatalf("asked %s", got)
	}
}

func TestAddedSeedsAreBoundedAndThoseGivenAtTheStartStay(t *testing.T) {
	t.Parallel()
	f := NewLeaderFinder([]string{"a:1", "b:1"}, seeded())
	for i := range 3 * MaxSeeds {
		f.AddSeeds([]string{fmt.Sprintf("x%d:1", i), "", "a:1"})
	}
	got := f.Seeds()
	if len(got) != MaxSeeds || !slices.Contains(got, "a:1") || !slices.Contains(got, "b:1") || !slices.Contains(got, fmt.Sprintf("x%d:1", 3*MaxSeeds-1)) {
		t.Fatalf("%d seeds: %v", len(got), got)
	}
}

func TestAFinderWithoutSeedsWaitsForThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := NewLeaderFinder(nil, seeded())
		began := time.Now()
		if got := f.Next(); got != "" {
			t.Fatalf("asked %s", got)
		}
		if err := f.Wait(context.Background()); err != nil || time.Since(began) == 0 {
			t.Fatalf("%v after %s", err, time.Since(began))
		}
		f.AddSeeds([]string{"a:1"})
		if got := f.Next(); got != "a:1" {
			t.Fatalf("asked %q", got)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	})
}
