package fsm

import (
	"crypto/subtle"
	"slices"
	"strings"

	"github.com/hearthd/hearth/model"
)

// View is one version of the state for reading. It never changes, and neither
// may anything it returns: records are shared with the state.
type View struct{ s *state }

// Index is the index of the last entry applied; 0 before the first.
func (v *View) Index() uint64 { return v.s.index }

// Tick is the cluster clock of the last entry applied, in ms.
func (v *View) Tick() int64 { return v.s.tick }

// Cluster is the cluster's identity; zero before the bootstrap.
func (v *View) Cluster() model.ClusterIdentity { return v.s.meta.cluster }

// Settings are the scheduler's settings.
func (v *View) Settings() model.Settings { return *v.s.meta.settings }

// FeatureLevel is the level of replicated features in use.
func (v *View) FeatureLevel() uint32 { return v.s.meta.featureLevel }

// Hash is the state hash; see type Hash for what it covers.
func (v *View) Hash() [16]byte { return v.s.hash.bytes() }

// HashString is Hash as 32 hexadecimal digits.
func (v *View) HashString() string { return v.s.hash.String() }

// Master finds a master.
func (v *View) Master(id model.MasterID) (*model.Master, bool) { return v.s.masters.get([]byte(id)) }

// Masters visits the masters by id until visit returns false.
func (v *View) Masters(visit func(*model.Master) bool) { v.s.masters.walk(nil, visit) }

// Worker finds a worker, gone ones included while they are kept.
func (v *View) Worker(id model.WorkerID) (*model.Worker, bool) { return v.s.worker(id) }

// Workers visits the workers by id until visit returns false.
func (v *View) Workers(visit func(*model.Worker) bool) { v.s.workers.walk(nil, visit) }

// CountWorkers counts the workers, gone ones included.
func (v *View) CountWorkers() int { return v.s.workers.n }

// Usage is what the unfinished executors on a worker hold together.
func (v *View) Usage(id model.WorkerID) model.Usage { return v.s.used(id) }

// App finds an application, ended ones included while they are kept.
func (v *View) App(id model.AppID) (*model.App, bool) { return v.s.app(id) }

// ActiveApps visits the applications that have not ended, in order of
// registration, until visit returns false.
func (v *View) ActiveApps(visit func(*model.App) bool) {
	v.s.apps.walk(nil, func(a *model.App) bool { return a.State.Terminal() || visit(a) })
}

// CountActive counts the applications that have not ended.
func (v *View) CountActive() int { return v.s.apps.n - v.s.ended.n }

// EndedApps visits the ended applications that are kept, the newest first,
// until visit returns false.
func (v *View) EndedApps(visit func(*model.App) bool) {
	v.s.ended.tree.reverse(func(_ string, n uint64) bool {
		a, found := v.s.apps.get(numKey(n))
		return !found || visit(a)
	})
}

// CountEnded counts the ended applications that are kept.
func (v *View) CountEnded() int { return v.s.ended.n }

// AppByPrefix lists the applications whose ids begin with prefix, in order of
// registration.
func (v *View) AppByPrefix(prefix string) []model.AppID {
	var out []model.AppID
	v.s.apps.walk(nil, func(a *model.App) bool {
		if strings.HasPrefix(string(a.ID), prefix) {
			out = append(out, a.ID)
		}
		return true
	})
	return out
}

// AppByRequest finds the application that a request id registered.
func (v *View) AppByRequest(id string) (*model.App, bool) {
	n, ok := v.s.byReq.tree.get([]byte(id))
	if !ok {
		return nil, false
	}
	return v.s.apps.get(numKey(n))
}

// Executor finds an executor, or the process of a driver's attempt: an unfinished one, or one of the ended ones that
// its application still keeps.
func (v *View) Executor(ref model.ExecutorRef) (*model.Executor, bool) {
	if model.IsDriver(ref.App) {
		return v.s.attempt(ref)
	}
	a, ok := v.s.app(ref.App)
	if !ok || ref.Executor < 0 {
		return nil, false
	}
	if e, live := v.s.executors.get(executorKey(a.Number, ref.Executor)); live {
		return e, true
	}
	for _, e := range slices.Backward(a.Finished) {
		if e.ID == ref.Executor {
			return e, true
		}
	}
	return nil, false
}

// Executors visits an application's unfinished executors by id until visit
// returns false.
func (v *View) Executors(app model.AppID, visit func(*model.Executor) bool) {
	if a, ok := v.s.app(app); ok {
		v.s.executors.walk(numKey(a.Number), visit)
	}
}

// WorkerExecutors visits the unfinished executors on a worker and the processes
// of drivers, by application or driver number and id, until visit returns false.
func (v *View) WorkerExecutors(worker model.WorkerID, visit func(*model.Executor) bool) {
	v.s.walkWorker(worker, visit)
}

// AllExecutors visits every unfinished executor, and then the processes of
// drivers, by application or driver number and id,
// until visit returns false.
func (v *View) AllExecutors(visit func(*model.Executor) bool) { v.s.executors.walk(nil, visit) }

// CountExecutors counts the unfinished executors, without the processes of
// drivers.
func (v *View) CountExecutors() int { return v.s.executors.n - v.s.placedDrivers() }

// Audit returns the newest audit lines, newest first; limit ≤ 0 means all.
func (v *View) Audit(limit int) []model.AuditLine {
	if limit <= 0 || limit > v.s.audit.n {
		limit = v.s.audit.n
	}
	out := make([]model.AuditLine, 0, limit)
	v.s.audit.tree.reverse(func(_ string, e *entry[model.AuditLine]) bool {
		if len(out) == limit {
			return false
		}
		out = append(out, *e.rec)
		return true
	})
	return out
}

// AuditAfter returns the audit lines of entries after the one at index, the
// oldest first, at most limit of them; those of one entry stay together unless
// it alone has more.
func (v *View) AuditAfter(index uint64, limit int) []model.AuditLine {
	newest := v.Audit(0)
	from := slices.IndexFunc(newest, func(l model.AuditLine) bool { return l.Index <= index })
	if from >= 0 {
		newest = newest[:from]
	}
	slices.Reverse(newest)
	if len(newest) <= limit {
		return newest
	}
	end := limit
	for end > 0 && newest[end-1].Index == newest[end].Index {
		end--
	}
	if end == 0 {
		end = limit
	}
	return newest[:end]
}

// Token finds the token with this hash, an expired one included while it is
// kept.
func (v *View) Token(h model.TokenHash) (*model.Token, bool) {
	t, ok := v.s.tokens.get([]byte(h.ID()))
	if !ok || subtle.ConstantTimeCompare(t.Hash[:], h[:]) != 1 {
		return nil, false
	}
	return t, true
}

// Tokens visits the tokens by id until visit returns false.
func (v *View) Tokens(visit func(*model.Token) bool) { v.s.tokens.walk(nil, visit) }

// CheckInvariants recomputes all that is derived, the state hash included, and
// reports every rule that does not hold. The error wraps ErrBroken.
func (v *View) CheckInvariants() error { return v.s.checkInvariants() }

// At fixes the cluster clock for the scheduler: the flags of the result are
// those at that tick, which should be at least Tick().
func (v *View) At(tick int64) *Scheduling { return &Scheduling{s: v.s, tick: tick} }
