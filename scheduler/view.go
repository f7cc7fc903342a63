package scheduler

import "github.com/hearthd/hearth/model"

// View is what a pass reads. It must not change during a pass. Records and
// maps it hands out are read and never changed; an Index keeps them, so they
// must not change later either.
type View interface {
	Settings() model.Settings
	// SchedulableWorkers visits the ALIVE workers that hold no more than they
	// offer (ADR 0010) by ascending id (string order), each with what its live
	// executors hold, until f returns false. A pass counts the addresses that
	// are free as those offered less those in use, so the latter must be offered.
	SchedulableWorkers(f func(w *model.Worker, used model.Usage) bool)
	// SchedulableWorker finds one of them.
	SchedulableWorker(id model.WorkerID) (w *model.Worker, used model.Usage, ok bool)
	// ActiveApps visits the applications that have not ended, in order of
	// registration, which is that of model.App.Number, until f returns false.
	// f may call the other methods.
	ActiveApps(f func(a *model.App) bool)
	// ActiveApp finds one of them.
	ActiveApp(id model.AppID) (*model.App, bool)
	// AppBlocked reports whether nothing may be placed for the application at
	// the moment (back-off).
	AppBlocked(app model.AppID) bool
	// Excluded reports whether the application keeps off this worker. Nobody
	// asks if the record of the application names no exclusion.
	Excluded(app model.AppID, w model.WorkerID) bool
	// QueueCores are the cores that count against the cap of a queue. Nobody
	// asks where no queues are configured.
	QueueCores(queue string) int
	// UserCores are the cores that count against the cap of a user
	// (model.AppUser). Nobody asks where there is none.
	UserCores(user string) int
	// DueGangs visits the applications that are gangs without any executor and
	// have waited for as long as Settings.GangAfterMilli says, in order of
	// registration, until f returns false. Nobody asks where that is 0.
	DueGangs(f func(a *model.App) bool)

	// WaitingDrivers visits the drivers that may be placed now, in the order of
	// their queue, until f returns false.
	WaitingDrivers(f func(d *model.Driver) bool)
	// WaitingDriver finds one of them.
	WaitingDriver(id model.DriverID) (d *model.Driver, ok bool)
	// PlacedDrivers counts the drivers that are placed.
	PlacedDrivers() int
	// DriverCursor is the worker that got a driver last; it need not exist.
	DriverCursor() model.WorkerID
	// DriverCores are the cores of the drivers that are placed, and how many all
	// of them may hold, which may be none. Nobody asks where
	// Settings.DriverShareMilli is 0, which is no limit.
	DriverCores() (cores, most int)
}

// Options bound one pass.
type Options struct {
	// MaxPlacements is the most placements of one plan; 0 = no limit. A plan
	// ends before the first profile whose executors would pass the limit, so
	// that a later pass places them together. A profile that is over the limit
	// by itself is cut after a whole round over its workers, or after a whole
	// worker when consolidating, where a later pass goes on as this one would
	// have; the first round, the first worker and executors without a size are
	// never cut, so a plan may be longer than the limit.
	MaxPlacements int
	// WorkerBlocked reports workers that are to get nothing although the state
	// calls them ALIVE, such as those the leader cannot reach; nil = none.
	WorkerBlocked func(model.WorkerID) bool
	// AppHeld is asked before an application is looked at in a pass, and
	// reports those that are to be left alone although they want something;
	// nil = none.
	AppHeld func(model.AppID) bool
}

// Changes name the records of a view that may differ from what an Index has
// read. Naming too many costs a look at each and does no harm.
type Changes struct {
	// All stands for every record.
	All     bool
	Workers []model.WorkerID
	// Apps changed: the record, the executors, or what AppBlocked says. Drivers
	// that changed are named here too (DriverID.Owner).
	Apps []model.AppID
}
