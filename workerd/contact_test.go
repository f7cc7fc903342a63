//go:build linux

package workerd

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

func TestALeaseCountsFromWhenTheLastAnsweredMessageWasSent(t *testing.T) {
	var now time.Duration
	c := newContact(func() time.Duration { return now })
	var b beats
	const death = 10 * time.Second
	want := func(sent time.Duration) {
		t.Helper()
		if got := c.lease; got != (keeper.Lease{TermAt: sent + 5*time.Second, KillAt: sent + 7*time.Second}) {
			t.Errorf("lease %+v, want one from %s", got, sent)
		}
	}
	now = time.Second
	first := b.next(now)
	now = 2 * time.Second
	second := b.next(now)
	third := b.next(now + time.Second)
	now = 4 * time.Second
	sent, ok := b.answered(second)
	if !ok || sent != 2*time.Second {
		t.Errorf("second beat was sent at %s, %v", sent, ok)
	}
	c.answered(sent, death)
	want(2 * time.Second)
	for _, n := range []uint64{first, second, 99} {
		if _, ok := b.answered(n); ok {
			t.Errorf("the answer to beat %d counts", n)
		}
	}
	c.answered(time.Second, death) // late
	want(2 * time.Second)
	c.handOver(4*time.Second, time.Minute)
	if got := c.lease; got != (keeper.Lease{TermAt: 34 * time.Second, KillAt: 46 * time.Second}) {
		t.Errorf("lease of a planned restart %+v", got)
	}
	sent, _ = b.answered(third)
	c.answered(sent, death)
	if got := c.lease.KillAt; got != 46*time.Second {
		t.Errorf("a beat changed the lease of a planned restart: %s", got)
	}
	c.resume()
	want(2 * time.Second)
	for range 3 * maxUnansweredBeats {
		b.next(now)
	}
	if len(b.sentAt) > maxUnansweredBeats {
		t.Errorf("%d beats are remembered", len(b.sentAt))
	}
}

func TestASilentLeaderIsLeftBeforeSingletonsAreEnded(t *testing.T) {
	for _, c := range []struct{ beat, death, want time.Duration }{
		{time.Second, 10 * time.Second, 3 * time.Second},
		{time.Second, 60 * time.Second, 18 * time.Second},
		{time.Second, 8 * time.Second, 3 * time.Second},
		{time.Second, 4 * time.Second, 2 * time.Second},
		{50 * time.Millisecond, 2 * time.Second, 600 * time.Millisecond},
	} {
		if got := patienceWith(c.beat, c.death); got != c.want {
			t.Errorf("with a beat of %s and a timeout of %s: %s, want %s", c.beat, c.death, got, c.want)
		}
	}
}

func simRuns(t *testing.T, least int) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("HEARTH_SIM_SEEDS"))
	if err != nil {
		return least
	}
	return max(n, least)
}

// PR-15 with its numbers: the worker is cut off in one direction or both, its clock and the leader's
// run up to 10 % apart, messages take their time, and so do the keeper and the process.
func TestSimPR15NoTwoCopiesOfASingletonLiveAtOnce(t *testing.T) {
	const (
		death = 8 * time.Second
		beat  = time.Second
	)
	closest := death
	for seed := range uint64(simRuns(t, 200)) {
		rnd := rand.New(rand.NewPCG(seed, 15))
		upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
		// One of the clocks is right, the other runs up to 10 % slower or faster; every fifth run is the
		// worst case.
		worker, leader := 0.9+0.2*rnd.Float64(), 1.0
		if rnd.IntN(2) == 0 {
			worker, leader = leader, worker
		}
		if seed%5 == 0 {
			worker, leader = 0.9, 1.0
		}
		boot := upTo(time.Hour)
		onWorker := func(passed time.Duration) time.Duration { return boot + time.Duration(float64(passed)*worker) }
		inReal := func(onWorker time.Duration) time.Duration { return time.Duration(float64(onWorker-boot) / worker) }

		cut := 3*time.Second + upTo(5*time.Second)
		upLost, downLost := true, true
		switch rnd.IntN(3) {
		case 0:
			downLost = false
		case 1:
			upLost = false
		}
		var now time.Duration
		c := newContact(func() time.Duration { return onWorker(now) })
		var b beats
		var heard time.Duration // by the leader, real
		for ; now < cut+2*death; now += time.Duration(float64(beat) / worker) {
			sent := c.now()
			number := b.next(sent)
			arrives := now + upTo(200*time.Millisecond)
			if upLost && arrives > cut {
				continue
			}
			heard = max(heard, arrives)
			if back := arrives + upTo(200*time.Millisecond); downLost && back > cut {
				continue
			}
			if sent, ok := b.answered(number); ok {
				c.answered(sent, death)
			}
			if !upLost && now > cut && heard > cut+death {
				break // answered all along: this cut has not hurt
			}
		}
		if c.lease.TermAt-c.sent != 4*time.Second {
			t.Fatalf("seed %d: SIGTERM %s after the last answered beat, want 4 s", seed, c.lease.TermAt-c.sent)
		}
		// The keeper looks at its clock at least every tenth of a second; a process needs a moment to go.
		dies := c.lease.KillAt + upTo(100*time.Millisecond) + upTo(50*time.Millisecond)
		if term, kill, _ := c.lease.Due(dies); !term || !kill || dies-c.sent > 6*time.Second {
			t.Fatalf("seed %d: dead %s after the last answered beat, want at most 6 s", seed, dies-c.sent)
		}
		replaced := heard + time.Duration(float64(death)/leader)
		overlap := inReal(dies) - replaced
		if overlap >= 0 {
			t.Fatalf("seed %d: two copies for %s (cut up %v, down %v, clocks %.3f and %.3f)", seed, overlap, upLost, downLost, worker, leader)
		}
		closest = min(closest, -overlap)
	}
	t.Logf("the closest that two copies came was %s", closest)
}

func TestAnExecutorEndedByItsLeaseIsLostAndSaysWhy(t *testing.T) {
	e := &executor{ref: ref(0)}
	got := e.verdict(keeper.Exit{Code: -1, Signal: 15, KillRequested: true, LeaseOver: true})
	if got.State != model.ExecutorLost || got.Cause != model.CauseInfra || got.Reason != reasonSingleton {
		t.Errorf("verdict %+v", got)
	}
	e.kill = &killing{reason: "by hand"}
	if got := e.verdict(keeper.Exit{Code: -1, Signal: 15, KillRequested: true, LeaseOver: true}); got.State != model.ExecutorKilled {
		t.Errorf("verdict on one that was killed by order: %+v", got)
	}
}
