package masterd

import (
	"context"
	"fmt"
	"time"

	"github.com/hearthd/hearth/model"
)

// driverSecondDial is between the two refused dials that prove a driver's
// death.
const driverSecondDial = time.Second

// exitDriverLost is the exit code of an application whose driver was lost: a
// fault of the cluster's side, as far as anybody can tell (design 9).
const exitDriverLost = 255

// lostDriver is a driver whose application has to end.
type lostDriver struct {
	app    model.AppID
	reason string
}

// judgeDrivers returns the drivers that have been away for driver_timeout.
func (l *leadership) judgeDrivers() []lostDriver {
	v := l.m.fsm.View()
	now := l.clock.now()
	timeout := l.m.cfg.DriverTimeout
	var out []lostDriver
	l.mu.Lock()
	defer l.mu.Unlock()
	for app, s := range l.drivers {
		if s.session != nil && now-s.answered <= timeout {
			continue
		}
		a, ok := v.App(app)
		if !ok || a.State.Terminal() {
			if s.session == nil {
				s.pursuit = stopped(s.pursuit)
				delete(l.drivers, app)
			}
			continue
		}
		if now-s.answered <= timeout {
			continue
		}
		if s.session != nil {
			s.session()
		}
		out = append(out, lostDriver{app, fmt.Sprintf("its driver has not been heard for %s", timeout)})
	}
	return out
}

// pursueDriverLocked starts to dial the listener of a driver whose session of
// this term has closed, until it has one again or its application has ended.
func (l *leadership) pursueDriverLocked(s *driverSeat) {
	if l.closing || s.addr == "" {
		return
	}
	s.pursuit = stopped(s.pursuit)
	ctx, cancel := context.WithCancel(l.ctx)
	s.pursuit = cancel
	addr := s.addr
	l.sessions.Go(func() {
		defer cancel()
		for ctx.Err() == nil {
			if l.driverGone(ctx, s, addr) {
				err := l.failDriver(ctx, lostDriver{s.app, "its driver is gone: the listener is refused"})
				if err == nil {
					return
				}
				if ctx.Err() == nil {
					l.log.Warn("could not end the application of a dead driver", "app", string(s.app), "err", err)
				}
			}
			_ = sleep(ctx, dialBackAgain)
		}
	})
}

// driverGone proves a driver's death by two refused dials one second apart; it
// decides nothing when more than a quarter of the drivers go at once.
func (l *leadership) driverGone(ctx context.Context, s *driverSeat, addr string) bool {
	return l.driverRefuses(ctx, s, addr) && sleep(ctx, driverSecondDial) == nil &&
		l.driverRefuses(ctx, s, addr) && !l.driversGoAtOnce()
}

// driverRefuses dials a driver's listener and takes note of what that says.
func (l *leadership) driverRefuses(ctx context.Context, s *driverSeat, addr string) bool {
	ask, cancel := context.WithTimeout(ctx, dialBackTimeout)
	defer cancel()
	answer := l.m.knock(ask, addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.session != nil || ctx.Err() != nil {
		return false
	}
	switch answer {
	case portRefused:
		l.departed.note(s.app, time.Now())
		return true
	case portOpen:
		l.departed.explain(s.app)
	case portUnknown:
	}
	return false
}

func (l *leadership) driversGoAtOnce() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := func(app model.AppID) bool { return l.drivers[app] != nil }
	return l.departed.mass(known, len(l.drivers), massFloorDrivers, time.Now())
}

// failDriver ends the application of a lost driver.
func (l *leadership) failDriver(ctx context.Context, d lostDriver) error {
	err := l.m.propose(ctx, finishAppCommand(d.app, model.AppFailed, d.reason, exitDriverLost))
	if isRejected(err, model.RejectAppEnded, model.RejectUnknownApp) {
		return nil
	}
	if err == nil {
		l.log.Warn("application ended without its driver", "app", string(d.app), "reason", d.reason)
	}
	return err
}
