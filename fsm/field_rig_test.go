package fsm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"github.com/hearthd/hearth/scheduler"
)

// rigStep is how far the cluster clock of a rig moves at a time.
const rigStep = 100

// fate is what becomes of a process on a worker of a rig.
type fate struct {
	missing bool  // it cannot be started
	after   int64 // ms until it ends by itself; 0 = never
	code    int   // of that end
	term    int64 // ms that it takes to end when it is told to
}

// rigProcess is one of them.
type rigProcess struct {
	ref     model.ExecutorRef
	worker  model.WorkerID
	fate    fate
	began   int64
	running bool // reported as RUNNING
	killed  int64
}

// rig is a cluster without daemons: the state, the scheduler, and workers that do what their orders say, by the cluster
// clock. An hour of it takes less than a second.
type rig struct {
	*world
	t     testing.TB
	index *scheduler.Index
	fates func(e *model.Executor) fate
	procs map[model.ExecutorRef]*rigProcess
	off   map[model.WorkerID]bool // lost power
	// launches counts, by worker, what was started or could not be.
	launches map[model.WorkerID]int
}

// forever is the fate of what runs until it is told to end.
func forever(*model.Executor) fate { return fate{} }

func newRig(t testing.TB, workers, cores int, fates func(*model.Executor) fate) *rig {
	t.Helper()
	return &rig{
		world: newWorld(t).withWorkers(workers, cores), t: t, index: scheduler.NewIndex(), fates: fates,
		procs: make(map[model.ExecutorRef]*rigProcess), off: make(map[model.WorkerID]bool), launches: make(map[model.WorkerID]int),
	}
}

// failover goes on with a replica that was made from a snapshot, as a master that becomes leader after a restart.
func (r *rig) failover() {
	r.t.Helper()
	next := New(CheckInvariants())
	if err := next.Restore(bytes.NewReader(r.snapshot())); err != nil {
		r.t.Fatal(err)
	}
	if next.View().Hash() != r.f.View().Hash() {
		r.t.Fatal("the restored state has another hash")
	}
	r.f, r.index = next, scheduler.NewIndex()
}

// run lets ms of cluster clock pass, and calls each after every step.
func (r *rig) run(ms int64, each func()) {
	r.t.Helper()
	for end := r.tick + ms; r.tick < end; {
		r.step()
		if each != nil {
			each()
		}
	}
}

// until runs until ok holds, and returns how long that took; the test ends if it is longer than limit.
func (r *rig) until(what string, limit int64, ok func() bool) int64 {
	r.t.Helper()
	began := r.tick
	for !ok() {
		if r.tick-began > limit {
			r.t.Fatalf("not within %d ms: %s", limit, what)
		}
		r.step()
	}
	return r.tick - began
}

func (r *rig) step() {
	r.t.Helper()
	r.tick += rigStep
	r.work()
	if due := r.v().Due(r.tick); len(due) > 0 {
		if !r.v().MayFallDue() { // then nobody would have looked
			r.t.Fatalf("%v are due in a view in which nothing may fall due", due)
		}
		names := make([]string, 0, len(due))
		for _, id := range due {
			names = append(names, string(id))
		}
		r.must(settle(names...))
	}
	r.plan()
}

// plan is one pass of the scheduler. What it plans must be accepted.
func (r *rig) plan() {
	r.t.Helper()
	plan := r.index.Pass(r.v().At(r.tick), scheduler.Changes{All: true}, scheduler.Options{})
	var cmds []*replogv1.Command
	if len(plan.Drivers) > 0 {
		ps := make([]*replogv1.DriverPlacement, 0, len(plan.Drivers))
		for _, p := range plan.Drivers {
			p.Secret = secret
			ps = append(ps, DriverPlacementToProto(p))
		}
		cmds = append(cmds, placeDrivers(ps...))
	}
	if len(plan.Executors) > 0 {
		ps := make([]*replogv1.Placement, 0, len(plan.Executors))
		for _, p := range plan.Executors {
			p.Secret = secret
			ps = append(ps, PlacementToProto(p))
		}
		cmds = append(cmds, place(ps...))
	}
	if len(cmds) == 0 {
		return
	}
	for _, res := range r.do(cmds...) {
		for _, v := range res.Placements {
			if v.Rejection != model.RejectNone {
				r.t.Fatalf("a placement of %+v was refused: %s %s", plan, v.Rejection, v.Text)
			}
		}
	}
}

// work lets every worker that has power look at its orders and its processes, and report.
func (r *rig) work() {
	r.t.Helper()
	var workers []model.WorkerID
	r.v().Workers(func(w *model.Worker) bool {
		if !w.State.Gone() && !r.off[w.ID] {
			workers = append(workers, w.ID)
		}
		return true
	})
	for _, id := range workers {
		var reports []*replogv1.ExecutorReport
		r.v().WorkerExecutors(id, func(e *model.Executor) bool {
			if rep := r.attend(e); rep != nil {
				reports = append(reports, rep)
			}
			return true
		})
		if len(reports) > 0 {
			r.report1(string(id), reports...)
		}
	}
}

// attend does the next thing for one executor, and says what there is to report.
func (r *rig) attend(e *model.Executor) *replogv1.ExecutorReport {
	app, id := e.App, int(e.ID)
	p := r.procs[e.Ref()]
	if p == nil {
		if e.State != model.ExecutorPlaced {
			return ended(app, id, model.ExecutorLost, model.CauseInfra, -1, 0)
		}
		r.launches[e.Worker]++
		f := r.fates(e)
		if f.missing {
			return ended(app, id, model.ExecutorFailed, model.CauseStart, -1, 0)
		}
		r.procs[e.Ref()] = &rigProcess{ref: e.Ref(), worker: e.Worker, fate: f, began: r.tick}
		return says(app, id, model.ExecutorLaunching)
	}
	if !e.State.Live() && p.killed == 0 {
		p.killed = r.tick
	}
	switch {
	case p.killed > 0 && r.tick-p.killed >= p.fate.term:
		delete(r.procs, p.ref)
		return ended(app, id, model.ExecutorKilled, model.CauseKill, -1, 15)
	case p.fate.after > 0 && r.tick-p.began >= p.fate.after:
		delete(r.procs, p.ref)
		if p.fate.code == 0 {
			return ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0)
		}
		return ended(app, id, model.ExecutorFailed, model.CauseApp, p.fate.code, 0)
	case !p.running && r.tick-p.began >= model.CommandSettleMilli:
		p.running = true
		return says(app, id, model.ExecutorRunning)
	}
	return nil
}

// murder ends n processes of an application by SIGKILL, the newest first.
func (r *rig) murder(app model.AppID, n int) {
	r.t.Helper()
	var refs []model.ExecutorRef
	for ref := range r.procs {
		if ref.App == app {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, model.ExecutorRef.Compare)
	slices.Reverse(refs)
	if len(refs) < n {
		r.t.Fatalf("%d processes of %s to kill, there are %d", n, app, len(refs))
	}
	for _, ref := range refs[:n] {
		p := r.procs[ref]
		delete(r.procs, ref)
		r.report1(string(p.worker), ended(app, int(ref.Executor), model.ExecutorFailed, model.CauseApp, -1, 9))
	}
}

// powerOff takes a worker's machine; the leader finds out.
func (r *rig) powerOff(id model.WorkerID) {
	r.t.Helper()
	r.off[id] = true
	for ref, p := range r.procs {
		if p.worker == id {
			delete(r.procs, ref)
		}
	}
	w := r.worker(id)
	r.must(mark(string(id), w.Incarnation, w.ReportSeq, model.WorkerDead))
}

// powerOn starts a worker again.
func (r *rig) powerOn(id model.WorkerID, cores int) {
	r.t.Helper()
	delete(r.off, id)
	r.must(regWorker(string(id), r.worker(id).Incarnation+1, cores))
}

// states counts an application's unfinished executors by state.
func (r *rig) states(app model.AppID) map[model.ExecutorState]int {
	out := make(map[model.ExecutorState]int)
	r.v().Executors(app, func(e *model.Executor) bool {
		out[e.State]++
		return true
	})
	return out
}

// runs says whether n executors of an application are RUNNING.
func (r *rig) runs(app model.AppID, n int) bool { return r.states(app)[model.ExecutorRunning] == n }
