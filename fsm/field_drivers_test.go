package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// balanced fails when a worker uses less than nothing, more than it offers, or not the sum of what lives there. The state
// is checked for it after each entry; this looks from outside, as a page would.
func (r *rig) balanced() {
	r.t.Helper()
	r.v().Workers(func(w *model.Worker) bool {
		used, sum := r.v().Usage(w.ID), 0
		r.v().WorkerExecutors(w.ID, func(e *model.Executor) bool {
			sum += e.Cores
			return true
		})
		if used.Cores != sum || used.Cores < 0 || used.MemoryMiB < 0 || used.Cores > w.Offer.Cores || used.MemoryMiB > w.Offer.MemoryMiB {
			r.t.Fatalf("%s of %d cores uses %+v, and what lives there has %d", w.ID, w.Offer.Cores, used, sum)
		}
		return true
	})
}

// A driver and two executors run, the leader changes, and both are ended: the books never show less than nothing, and end
// at nothing.
func TestAC01AfterAFailoverAndTheEndNothingIsInUse(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"driver first", "application first", "together"} {
		r := newRig(t, 2, 4, forever)
		driver := r.must(submitDriver(driverOf(false))).Driver
		app := r.must(regApp(commandSpec(2, 0, model.RestartAlways))).App
		r.until("all run", 5000, func() bool { return r.runs(app, 2) && r.driver(driver).State == model.DriverRunning })
		r.failover()
		r.balanced()
		if order != "application first" {
			r.must(killDriver(driver))
		}
		if order == "driver first" {
			r.run(2000, r.balanced)
		}
		r.must(killApp(app))
		if order == "application first" {
			r.run(2000, r.balanced)
			r.must(killDriver(driver))
		}
		r.run(5000, r.balanced)
		for _, w := range []model.WorkerID{"w1", "w2"} {
			if u := r.v().Usage(w); u.Cores != 0 || u.MemoryMiB != 0 || u.Executors != 0 {
				t.Errorf("%s: %s uses %+v in the end", order, w, u)
			}
		}
	}
}

// A worker of four cores runs a driver of one. After a failover an application that wants four gets three.
func TestAC02WhatADriverUsesIsNotForgottenByTheNextLeader(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, 4, forever)
	driver := r.must(submitDriver(driverOf(false))).Driver
	r.until("the driver runs", 5000, func() bool { return r.driver(driver).State == model.DriverRunning })
	r.failover()
	app := r.must(regApp(commandSpec(4, 0, model.RestartAlways))).App
	r.run(10_000, r.balanced)
	if a := r.app(app); !r.runs(app, 3) || a.CoresGranted != 3 || r.v().Usage("w1").Cores != 4 {
		t.Errorf("it has %d cores in %v, and %d of the worker are in use; want 3 and 4", a.CoresGranted, r.states(app), r.v().Usage("w1").Cores)
	}
}

// Six programs, each a driver of one core in the cluster and an application that needs one core, on four cores of which
// drivers may have half: all finish, and something always computes while something waits.
func TestSC06DriversLeaveRoomForTheirExecutors(t *testing.T) {
	t.Parallel()
	const programs, works = 6, 5000
	ends := make(map[model.AppID]bool) // drivers whose work is done
	r := newRig(t, 1, 4, func(e *model.Executor) fate {
		if model.IsDriver(e.App) {
			return fate{}
		}
		return fate{after: works}
	})
	r.must(setting(model.SettingDriverShare, "0.5"))
	drivers := make(map[model.DriverID]model.AppID)
	for range programs {
		drivers[r.must(submitDriver(driverOf(false))).Driver] = ""
	}
	idle := int64(0)
	each := func() {
		held, executors := 0, 0
		r.balanced()
		r.v().AllExecutors(func(e *model.Executor) bool {
			if model.IsDriver(e.App) {
				held += e.Cores
			} else {
				executors++
			}
			return true
		})
		if held > 2 {
			t.Fatalf("drivers hold %d of 4 cores", held)
		}
		if idle += rigStep; executors > 0 {
			idle = 0
		}
		if idle > 10_000 {
			t.Fatalf("nothing has computed for %d ms, and programs wait", idle)
		}
		for d, app := range drivers {
			rec := r.driver(d)
			p := r.procs[d.Ref(rec.Attempt)]
			switch {
			case p == nil || ends[d.Owner()]:
			case app == "":
				spec := driverSpec()
				spec.Executors = 1
				drivers[d] = r.must(regApp(spec)).App
			case r.app(app).FinishedCount[model.CauseClean]+len(r.app(app).Finished) > 0:
				r.must(finish(app, model.AppFinished, 0))
				p.fate.after, ends[d.Owner()] = 1, true // the program exits
			}
		}
	}
	r.run(1000, each)
	r.failover()
	began := r.tick
	for r.v().CountActiveDrivers() > 0 {
		if r.tick-began > 5*rigMinute {
			t.Fatalf("%d drivers have not ended", r.v().CountActiveDrivers())
		}
		r.step()
		each()
	}
	for d, app := range drivers {
		if s := r.driver(d).State; s != model.DriverFinished || r.app(app).State != model.AppFinished {
			t.Errorf("%s is %s and %s is %s, want both FINISHED", d, s, app, r.app(app).State)
		}
	}
}
