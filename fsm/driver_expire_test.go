package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// A driver that runs for longer than it may is FAILED with the code of a time-out, by the clock of the cluster and from its
// submission on, whatever it is doing then; its process holds its place until it is gone.
func TestADriverThatRunsForLongerThanItMayIsEnded(t *testing.T) {
	t.Parallel()
	limited := driverOf(true)
	limited.MaxRuntimeMilli = 60_000
	submit := func(t *testing.T) (*world, model.DriverID) {
		w := newWorld(t).withWorkers(2, 4)
		return w, w.must(submitDriver(limited)).Driver
	}
	over := func(w *world, id model.DriverID, state model.DriverState, attempt int) {
		t.Helper()
		if d := w.driverIs(id, state, attempt); d.ExitCode != 124 || d.Reason != "ran longer than 1m0s" {
			t.Errorf("it is %s with code %d (%q)", d.State, d.ExitCode, d.Reason)
		}
		if due := w.v().OvertimeDrivers(w.tick); len(due) != 0 {
			t.Errorf("%v are due still", due)
		}
	}
	t.Run("while it waits", func(t *testing.T) {
		t.Parallel()
		w, id := submit(t)
		w.must(expireDrivers(id, "driver-20261201044001-0009"))
		w.driverIs(id, model.DriverSubmitted, 0)
		w.after(60_001)
		w.must(expireDrivers(id))
		over(w, id, model.DriverFailed, 0)
	})
	t.Run("between two attempts", func(t *testing.T) {
		t.Parallel()
		w, id := submit(t)
		w.launch(id, "w1")
		w.after(60_001)
		w.report1("w1", ended(id.Owner(), 1, model.ExecutorFailed, model.CauseApp, 3, 0))
		w.driverIs(id, model.DriverRelaunching, 1)
		w.must(expireDrivers(id))
		over(w, id, model.DriverFailed, 1)
	})
	t.Run("while it runs", func(t *testing.T) {
		t.Parallel()
		w, id := submit(t)
		w.launch(id, "w1")
		app := w.must(regApp(ofDriver(id, 1))).App
		w.after(59_000)
		w.must(expireDrivers(id)) // the leader was early, as one whose clock runs ahead
		w.driverIs(id, model.DriverRunning, 1)
		if !w.v().MayFallDue() {
			t.Error("nothing may fall due, although it has a limit")
		}
		w.after(1_001)
		if due := w.v().OvertimeDrivers(w.tick); len(due) != 1 || due[0] != id {
			t.Fatalf("%v are due, want %s", due, id)
		}
		w.must(expireDrivers(id))
		over(w, id, model.DriverKilling, 1)
		if u := w.v().Usage("w1"); u.Cores != 1 {
			t.Errorf("it holds %d cores, want 1 until it is gone", u.Cores)
		}
		w.report1("w1", ended(id.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
		over(w, id, model.DriverFailed, 1)
		if a := w.app(app); a.State != model.AppFailed || a.ExitCode != 124 {
			t.Errorf("what it has registered is %s with code %d", a.State, a.ExitCode)
		}
	})
	t.Run("it ends well when it is told to", func(t *testing.T) {
		t.Parallel()
		w, id := submit(t)
		w.launch(id, "w1")
		w.after(60_001)
		w.must(expireDrivers(id))
		w.report1("w1", ended(id.Owner(), 1, model.ExecutorExited, model.CauseClean, 0, 0))
		if d := w.driverIs(id, model.DriverFinished, 1); d.ExitCode != 0 {
			t.Errorf("exit code %d", d.ExitCode)
		}
	})
	t.Run("somebody was faster", func(t *testing.T) {
		t.Parallel()
		w, id := submit(t)
		w.launch(id, "w1")
		w.after(60_001)
		w.must(killDriver(id))
		w.must(expireDrivers(id))
		w.report1("w1", ended(id.Owner(), 1, model.ExecutorKilled, model.CauseKill, -1, 15))
		if d := w.driverIs(id, model.DriverKilled, 1); d.ExitCode != 130 || d.Reason != "by ann" {
			t.Errorf("exit code %d (%q)", d.ExitCode, d.Reason)
		}
	})
}

// A launch may take as long as its artifacts keep coming, within the limit: each report of progress begins the time anew in
// which it must come up, a repeated one does not.
func TestALaunchThatFetchesGetsTimeAsLongAsMoreComes(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	w.offerDriver(id, "w1")
	fetching := func(text string) *model.Executor {
		t.Helper()
		r := says(id.Owner(), 1, model.ExecutorLaunching)
		r.Reason = text
		w.report1("w1", r)
		e, _ := w.v().AttemptAt(id.Ref(1))
		return e
	}
	w.report1("w1", says(id.Owner(), 1, model.ExecutorLaunching))
	w.after(45_000)
	if e := fetching("10 bytes are here"); e.StateTick != w.tick || e.Reason != "10 bytes are here" {
		t.Errorf("progress at %d: since %d (%q)", w.tick, e.StateTick, e.Reason)
	}
	since := w.tick
	w.after(45_000)
	if e := fetching("10 bytes are here"); e.StateTick != since {
		t.Errorf("no progress at %d: since %d, want %d", w.tick, e.StateTick, since)
	}
	if e := fetching("20 bytes are here"); e.StateTick != w.tick {
		t.Errorf("progress at %d: since %d", w.tick, e.StateTick)
	}
	since = w.tick
	w.after(model.MaxFetchMilli)
	if e := fetching("30 bytes are here"); e.StateTick != since {
		t.Errorf("beyond the limit the time began anew at %d", e.StateTick)
	}
	w.report1("w1", says(id.Owner(), 1, model.ExecutorRunning))
	if e, _ := w.v().AttemptAt(id.Ref(1)); e.State != model.ExecutorRunning || e.Reason != "" {
		t.Errorf("it is %s (%q)", e.State, e.Reason)
	}
}
