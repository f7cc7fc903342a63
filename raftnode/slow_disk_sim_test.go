package raftnode

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"
)

// Heartbeats wait for no disk, neither the leader's nor a follower's: slow
// writes cost time, never an election.
func TestSimSlowDisksCauseNoElection(t *testing.T) {
	for name, c := range map[string]struct {
		delay    func(rng *rand.Rand) time.Duration
		during   time.Duration
		commands time.Duration // between two
	}{
		"one write in a hundred takes 300 ms": {func(rng *rand.Rand) time.Duration {
			if rng.Intn(100) == 0 {
				return 300 * time.Millisecond
			}
			return time.Millisecond
		}, 10 * time.Minute, 500 * time.Millisecond},
		"every other write takes up to 600 ms": {func(rng *rand.Rand) time.Duration {
			if rng.Intn(2) == 0 {
				return time.Duration(rng.Intn(600)) * time.Millisecond
			}
			return time.Millisecond
		}, 2 * time.Minute, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t *testing.T, seed int64) {
				during := c.during
				if seed > 0 {
					during = min(during, time.Minute) // the whole of it once
				}
				r := newFailoverRig(t, seed, 3, PresetLAN)
				defer r.stop()
				lead := r.settle()
				term := lead.node.Term()
				var mu sync.Mutex
				rng := rand.New(rand.NewSource(seed))
				var slow int
				r.fill(func(*member, string) error {
					mu.Lock()
					d := c.delay(rng)
					if d > 100*time.Millisecond {
						slow++
					}
					mu.Unlock()
					time.Sleep(d)
					return nil
				})
				failed := r.load(during, c.commands)
				r.fill(nil)
				r.unchanged(lead, term)
				mu.Lock()
				met := slow // a write may be on its way still
				mu.Unlock()
				if failed > 0 || met == 0 {
					t.Errorf("%d commands failed, %d writes were slow", failed, met)
				}
				if r.tookOver() {
					t.Error("somebody took over")
				}
				r.level()
			})
		})
	}
}

// load proposes commands through the leader, without waiting for one before
// the next, and returns how many failed.
func (f *failoverRig) load(during, every time.Duration) (failed int) {
	lead := f.leader()
	var wait sync.WaitGroup
	var mu sync.Mutex
	for i := range int(during / every) {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_, err := lead.node.Propose(ctx, command(fmt.Sprintf("load %d", i)))
			if err != nil {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
		time.Sleep(every)
	}
	wait.Wait()
	return failed
}
