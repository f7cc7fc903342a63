package scheduler

import "github.com/hearthd/hearth/model"

// View is what a pass reads. It must not change during a pass. Records and
// maps it hands out are read, never changed, and not kept after the pass.
type View interface {
	Settings() model.Settings
	// SchedulableWorkers visits the ALIVE workers by ascending id (string
	// order), each with what its live executors hold, until f returns false.
	SchedulableWorkers(f func(w *model.Worker, used model.Usage) bool)
	// ActiveApps visits the applications that have not ended, in order of
	// registration, until f returns false. f may call the other methods.
	ActiveApps(f func(a *model.App) bool)
	// AppBlocked reports whether nothing may be placed for the application at
	// the moment (back-off).
	AppBlocked(app model.AppID) bool
	// Excluded reports whether the application keeps off this worker.
	Excluded(app model.AppID, w model.WorkerID) bool
}

// Options bound one pass.
type Options struct {
	// MaxPlacements is the most placements of one plan; 0 = no limit. A plan
	// ends before the first profile whose executors would pass the limit, so
	// that a later pass places them together; only a profile that is over the
	// limit by itself is cut.
	MaxPlacements int
	// WorkerBlocked reports workers that are to get nothing although the state
	// calls them ALIVE, such as those the leader cannot reach; nil = none.
	WorkerBlocked func(model.WorkerID) bool
}
