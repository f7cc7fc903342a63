package client

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Limits of looking for the leader.
const (
	// RetryFirst and RetryMax bound the pause after each fruitless round over
	// all known masters; half of it is jitter.
	RetryFirst = 20 * time.Millisecond
	RetryMax   = 400 * time.Millisecond
	// MaxHintsInRow bounds hops from hint to hint; masters that point at each
	// other are then asked in turn again.
	MaxHintsInRow = 3
	// MaxSeeds bounds the addresses a finder keeps.
	MaxSeeds = 64
)

// LeaderFinder says which master to try next. Its caller reports what came of
// each try:
//
//	for {
//		addr := f.Next()
//		err := try(addr)
//		if err == nil { f.Reached(addr); … }
//		f.Failed(addr, err)
//		if err := f.Wait(ctx); err != nil { return err }
//	}
//
// The order is: the leader that the last answer pointed at, the leader last
// reached, then every known master in turn. Safe for concurrent use.
type LeaderFinder struct {
	mu     sync.Mutex
	rnd    *rand.Rand
	fixed  []string // given at the start; never dropped
	seeds  []string // fixed ones first, then those added
	next   int      // round robin over seeds
	tried  int      // of the present round
	rounds int      // fruitless ones since a leader was reached
	due    bool     // a pause is due
	leader string   // last reached, "" once it failed
	hint   string   // follow this next
	hints  int      // followed in a row
	failed string   // the last that failed
	// dead holds addresses that gave no answer when last asked.
	dead map[string]bool
}

// NewLeaderFinder starts with these gRPC addresses in random order, so that
// many callers do not all ask the same master first. rnd may be nil.
func NewLeaderFinder(seeds []string, rnd *rand.Rand) *LeaderFinder {
	f := &LeaderFinder{rnd: rnd, dead: map[string]bool{}}
	if f.rnd == nil {
		f.rnd = newRand()
	}
	for _, s := range seeds {
		if s != "" && !slices.Contains(f.fixed, s) && len(f.fixed) < MaxSeeds {
			f.fixed = append(f.fixed, s)
		}
	}
	f.seeds = slices.Clone(f.fixed)
	f.rnd.Shuffle(len(f.seeds), func(i, j int) { f.seeds[i], f.seeds[j] = f.seeds[j], f.seeds[i] })
	return f
}

// AddSeeds adds addresses learnt from gossip or from a leader. Of those added
// earlier the oldest make room once MaxSeeds is reached.
func (f *LeaderFinder) AddSeeds(addrs []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range addrs {
		f.addLocked(a)
	}
}

func (f *LeaderFinder) addLocked(addr string) {
	if addr == "" || slices.Contains(f.seeds, addr) || len(f.fixed) >= MaxSeeds {
		return
	}
	if len(f.seeds) >= MaxSeeds {
		oldest := slices.IndexFunc(f.seeds, func(s string) bool { return !slices.Contains(f.fixed, s) })
		f.seeds = slices.Delete(f.seeds, oldest, oldest+1)
	}
	f.seeds = append(f.seeds, addr)
}

// Seeds lists the known addresses.
func (f *LeaderFinder) Seeds() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seeds)
}

// Leader is the leader last reached or pointed at, "" = none.
func (f *LeaderFinder) Leader() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hint != "" {
		return f.hint
	}
	return f.leader
}

// Next returns the address to try now, "" if none is known.
func (f *LeaderFinder) Next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hint != "" {
		addr := f.hint
		f.hint = ""
		return addr
	}
	if f.leader != "" {
		return f.leader
	}
	if len(f.seeds) == 0 {
		f.due, f.rounds = true, f.rounds+1
		return ""
	}
	addr := f.turnLocked()
	if addr == f.failed && len(f.seeds) > 1 {
		addr = f.turnLocked() // it has just been asked, as the leader or by hint
	}
	return addr
}

// turnLocked returns the next address of the round.
func (f *LeaderFinder) turnLocked() string {
	f.next %= len(f.seeds)
	addr := f.seeds[f.next]
	f.next++
	f.tried++
	if f.tried >= len(f.seeds) {
		f.tried, f.due = 0, true
		f.rounds++
	}
	return addr
}

// Reached records that addr serves as the leader.
func (f *LeaderFinder) Reached(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader, f.hint, f.failed = addr, "", ""
	delete(f.dead, addr)
	f.hints, f.rounds, f.tried, f.due = 0, 0, 0, false
}

// Hint records that addr was named as the leader by an answer that succeeded
// elsewhere. It saves a hop, no more, so an address that could not be reached
// before is not tried for it.
func (f *LeaderFinder) Hint(addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr == "" || addr == f.leader || f.dead[addr] {
		return
	}
	f.leader = addr
	f.addLocked(addr)
}

// Failed records that addr did not serve as the leader; the hint in err, if
// there is one, is followed next.
func (f *LeaderFinder) Failed(addr string, err error) {
	hint, ok := rpc.LeaderHint(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = addr
	if !rpc.Answered(err) {
		if len(f.dead) >= MaxSeeds {
			clear(f.dead)
		}
		f.dead[addr] = true
	}
	if f.leader == addr {
		f.leader = ""
	}
	if !ok || hint == addr || !errors.Is(err, model.ErrNotLeader) {
		return
	}
	f.addLocked(hint)
	if f.hints >= MaxHintsInRow {
		f.hints = 0
		return
	}
	f.hints++
	f.hint, f.leader = hint, ""
}

// Wait blocks for the back-off that is due: nothing while there is a hint or a
// master not yet asked in this round. It returns the context's error once ctx
// has ended.
func (f *LeaderFinder) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	pause := f.pause()
	if pause == 0 {
		return nil
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *LeaderFinder) pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hint != "" || !f.due {
		return 0
	}
	f.due = false
	d := RetryMax
	if f.rounds < 8 { // 20 ms << 7 is beyond the maximum
		d = min(RetryMax, RetryFirst<<max(0, f.rounds-1))
	}
	return d/2 + time.Duration(f.rnd.Int64N(int64(d/2)+1))
}

// newRand returns a generator seeded by the system; 256 bits of seed make its
// output fit for request ids.
func newRand() *rand.Rand {
	var seed [32]byte
	// crypto/rand.Read never fails on a supported system (it ends the process).
	_, _ = crand.Read(seed[:])
	return rand.New(rand.NewChaCha8(seed))
}
