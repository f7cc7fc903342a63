package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/hearthd/hearth/model"
)

// silenceParts is the part of the election time-out that is a moment: how much
// later than the asker another voter may find the leader silent, how late this
// process may wake up without having stood still, and how long the leader has to
// be heard once it has.
const silenceParts = 4

// silence tells how long the leader was not heard while this process ran. A
// process that was stopped, or starved of the processor, finds an old contact
// and a heartbeat that it has not read yet (ADR 0032).
type silence struct {
	limit time.Duration // the election time-out

	mu    sync.Mutex
	due   time.Time // when the next look was planned
	stood time.Time // when this process last found that it had stood still
	spent time.Time // the contact after which all rounds were used
}

// part is what silenceParts speaks of.
func (s *silence) part() time.Duration { return s.limit / silenceParts }

// wakeLocked notes whether this process stood still since the last look.
func (s *silence) wakeLocked(now time.Time) {
	if !s.due.IsZero() && now.Sub(s.due) > s.part() {
		s.stood = now
		s.due = now
	}
}

// endLocked returns when a leader that was heard last at that time counts as
// silent.
func (s *silence) endLocked(last time.Time) time.Time {
	end := last.Add(s.limit)
	if again := s.stood.Add(s.part()); last.Before(s.stood) && again.After(end) {
		return again
	}
	return end
}

// left returns how long a leader that was heard last at that time may stay
// silent yet, 0 if it is silent.
func (s *silence) left(now, last time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked(now)
	return max(0, s.endLocked(last).Sub(now))
}

// why says how it came that the leader is not silent yet, for the log.
func (s *silence) why(now, last time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last.Before(s.stood) && s.stood.Add(s.part()).After(last.Add(s.limit)) {
		return fmt.Sprintf("this master stood still until %s ago, and gives the leader a moment to be heard", now.Sub(s.stood))
	}
	return fmt.Sprintf("this master has heard the leader %s ago, within the election time-out", now.Sub(last))
}

// next plans the next look and returns the time until then. It is never far, so
// that standing still is noticed.
func (s *silence) next(now, last time.Time) time.Duration {
	wait := s.left(now, last)
	if wait == 0 || wait > s.part() {
		wait = s.part()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = now.Add(wait)
	return wait
}

// spend notes that this silence was looked after in vain: the library's own
// time-out follows.
func (s *silence) spend(last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = last
}

func (s *silence) isSpent(last time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent.Equal(last)
}

// listen wakes run when the leader is silent, until ctx ends. Who follows nobody,
// such as the leader itself, hears nobody and is not woken.
func (f *failover) listen(ctx context.Context) {
	for {
		last := f.n.raft.LastContact()
		left := f.silence.left(time.Now(), last) // also notes whether this process stood still
		if left == 0 && !f.silence.isSpent(last) && f.followed.get().leader != "" {
			poke(f.hush)
		}
		if !pause(ctx, f.silence.next(time.Now(), last)) {
			return
		}
	}
}

// endSilence replaces a leader that a majority does not hear. An election that
// nobody could win ends nothing: its candidate may have stood in line before one
// with a newer log whom the library's own time-out had made a candidate that
// asks for pre-votes, which nobody gives who follows the leader still. Now that
// both have left the leader's term they ask again.
func (f *failover) endSilence(ctx context.Context) {
	who, last := f.followed.get(), f.n.raft.LastContact()
	if who.leader == "" || last.IsZero() || f.silence.isSpent(last) {
		return
	}
	l := &loss{who: who, silent: true, began: time.Now()}
	for range failoverRounds {
		at := f.n.standing()
		if at.state != raft.Follower || !at.lost(who) || f.silence.left(time.Now(), f.n.raft.LastContact()) > 0 {
			return
		}
		if f.replace(ctx, l, at) || f.awaitChange(ctx, who, f.times.again) {
			return
		}
	}
	f.silence.spend(last)
}

// findSilent returns why this node does not find the leader silent, or nil. The
// asker may have heard it a moment earlier: it waits for what lacks, if that is
// no more than a moment.
func (f *failover) findSilent(ctx context.Context) error {
	left := f.silence.left(time.Now(), f.n.raft.LastContact())
	if left > 0 && left <= f.silence.part() && pause(ctx, left) {
		left = f.silence.left(time.Now(), f.n.raft.LastContact())
	}
	if left > 0 {
		return fmt.Errorf("%w: %s", model.ErrRefused, f.silence.why(time.Now(), f.n.raft.LastContact()))
	}
	return nil
}
