//go:build linux

package keeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// Lease bounds how long leased processes may run unless it is renewed. It is what ends the only copy
// of something on a machine that is cut off, and for that it must not depend on the agent: one that
// is stopped, hangs or is being replaced renews nothing, and the keeper ends them all the same.
//
// Times are absolute and of CLOCK_BOOTTIME (see SinceBoot): a message that waits somewhere makes no
// lease longer, and the time for which the machine was suspended counts.
type Lease struct {
	// TermAt is when leased processes get SIGTERM, KillAt when those left get SIGKILL.
	TermAt time.Duration `json:"term_at_ns"`
	KillAt time.Duration `json:"kill_at_ns"`
}

// SinceBoot reads CLOCK_BOOTTIME.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("keeper: no CLOCK_BOOTTIME: " + err.Error()) // every kernel since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

func (l Lease) check() error {
	if l.TermAt <= 0 || l.KillAt < l.TermAt {
		return invalid("lease with SIGTERM at %d and SIGKILL at %d", l.TermAt, l.KillAt)
	}
	return nil
}

// Due says what has to happen to leased processes at now, and how long that stays so.
func (l Lease) Due(now time.Duration) (term, kill bool, next time.Duration) {
	switch {
	case now >= l.KillAt:
		return true, true, leaseIdle
	case now >= l.TermAt:
		return true, false, l.KillAt - now
	}
	return false, false, l.TermAt - now
}

// renew takes a new lease in place of the present one, also if it is a shorter one.
func (s *Server) renew(l Lease) error {
	if err := l.check(); err != nil {
		return err
	}
	s.mu.Lock()
	s.lease = l
	s.mu.Unlock()
	s.leaseChanged()
	return nil
}

func (s *Server) leaseChanged() {
	select {
	case s.leaseNews <- struct{}{}:
	default:
	}
}

// leaseHolds reports whether something may be started under the lease; mu is held.
func (s *Server) leaseHolds() bool {
	term, _, _ := s.lease.Due(SinceBoot())
	return !term
}

// enforceLease ends leased processes whose lease has run out, until stop is closed.
func (s *Server) enforceLease(stop <-chan struct{}) {
	for {
		timer := time.NewTimer(s.checkLease(SinceBoot()))
		select {
		case <-s.leaseNews:
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// checkLease does what is due at now and returns when to look again. Timers stand still while the
// machine is suspended, so they are kept short as long as there is something to end.
func (s *Server) checkLease(now time.Duration) time.Duration {
	s.mu.Lock()
	term, _, next := s.lease.Due(now)
	killAt := time.Now().Add(s.lease.KillAt - now)
	var leased []*entry
	for _, e := range s.entries {
		if e.leased && e.state != StateExited {
			leased = append(leased, e)
		}
	}
	for _, e := range leased {
		if term && !e.leaseOver && !e.reaped {
			e.leaseOver = true
			s.log.Warn("lease has run out, ending process", "key", e.key, "pid", e.proc.PID)
		}
	}
	s.mu.Unlock()
	if term {
		for _, e := range leased {
			s.requestKill(e, killAt, true) // again at KillAt: then it is at once, whatever slept meanwhile
		}
	}
	if len(leased) == 0 {
		return leaseIdle
	}
	return min(next, leasePoll)
}
