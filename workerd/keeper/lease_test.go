//go:build linux

package keeper

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (r *rig) startLeased(key, script string) (Started, error) {
	req := r.request(key, script)
	req.Leased = true
	return r.c.Start(r.ctx(), req)
}

func (r *rig) lease(l Lease) {
	r.t.Helper()
	if err := r.c.Lease(r.ctx(), l); err != nil {
		r.t.Fatal(err)
	}
}

func TestALeaseSaysWhatIsDue(t *testing.T) {
	l := Lease{TermAt: 50, KillAt: 70}
	for _, c := range []struct {
		now        time.Duration
		term, kill bool
		next       time.Duration
	}{
		{0, false, false, 50},
		{49, false, false, 1},
		{50, true, false, 20},
		{69, true, false, 1},
		{70, true, true, leaseIdle},
		{1 << 50, true, true, leaseIdle},
	} {
		if term, kill, next := l.Due(c.now); term != c.term || kill != c.kill || next != c.next {
			t.Errorf("at %d: %v, %v, %d; want %v, %v, %d", c.now, term, kill, next, c.term, c.kill, c.next)
		}
	}
	for _, bad := range []Lease{{}, {TermAt: -1, KillAt: 1}, {TermAt: 2, KillAt: 1}} {
		if bad.check() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// An agent that is stopped, hangs or only thinks that it is connected renews nothing: here it does
// nothing at all.
func TestPR15ALeaseThatNobodyRenewsEndsWhatIsLeasedAndNothingElse(t *testing.T) {
	r := newRig(t)
	if _, err := r.startLeased("a/0", "exec sleep 300"); ReasonOf(err) != ReasonLeaseOver {
		t.Fatalf("leased start without a lease: %v, want %s", err, ReasonLeaseOver)
	}
	begun := SinceBoot()
	long := Lease{TermAt: begun + time.Hour, KillAt: begun + 2*time.Hour}
	r.lease(long)
	if _, err := r.startLeased("a/1", "exec sleep 300"); err != nil {
		t.Fatal(err)
	}
	deaf, err := r.startLeased("a/2", "trap '' TERM; touch deaf; while :; do sleep 0.05; done")
	if err != nil {
		t.Fatal(err)
	}
	other := r.start("a/3", "exec sleep 300").Proc
	r.waitFiles("a/2", "deaf")

	short := Lease{TermAt: SinceBoot() + 300*time.Millisecond, KillAt: SinceBoot() + 900*time.Millisecond}
	r.lease(short)
	if x := r.exit("a/1"); !x.LeaseOver || x.Signal != int(unix.SIGTERM) {
		t.Errorf("exit %+v, want SIGTERM because the lease was over", x)
	}
	if now := SinceBoot(); now < short.TermAt {
		t.Errorf("it was ended %s before its lease was over", short.TermAt-now)
	}
	if x := r.exit("a/2"); !x.LeaseOver || x.Signal != int(unix.SIGKILL) {
		t.Errorf("exit %+v, want SIGKILL because the lease was over", x)
	}
	if now := SinceBoot(); now < short.KillAt {
		t.Errorf("it was killed %s too early", short.KillAt-now)
	}
	r.gone(deaf.Proc)
	stillThere(t, other)
	if _, err := r.startLeased("a/4", "exec sleep 300"); ReasonOf(err) != ReasonLeaseOver {
		t.Errorf("leased start after the end of the lease: %v, want %s", err, ReasonLeaseOver)
	}
	r.lease(long)
	if _, err := r.startLeased("a/4", "exec sleep 300"); err != nil {
		t.Errorf("leased start after a renewal: %v", err)
	}
	r.kill("a/3", 0)
	if x := r.exit("a/3"); x.LeaseOver {
		t.Errorf("exit %+v of what is not leased", x)
	}
}

// A planned restart hands the children from one agent to the next. That must not be a way for a
// leased process to outlive its lease.
func TestPR15AKeepDoesNotStretchALease(t *testing.T) {
	r := newRig(t)
	r.lease(Lease{TermAt: SinceBoot() + time.Hour, KillAt: SinceBoot() + 2*time.Hour})
	leased, err := r.startLeased("a/0", "exec sleep 300")
	if err != nil {
		t.Fatal(err)
	}
	other := r.start("a/1", "exec sleep 300").Proc
	r.lease(Lease{TermAt: SinceBoot() + 400*time.Millisecond, KillAt: SinceBoot() + 600*time.Millisecond})
	if err := r.c.Keep(r.ctx(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := r.c.Close(); err != nil {
		t.Fatal(err)
	}
	r.gone(leased.Proc)
	stillThere(t, other)
	r.attach()
	poll(t, "the next agent finds an end by the lease", func() bool {
		e := r.entry("a/0")
		return e.Exit != nil && e.Exit.LeaseOver
	})
}
