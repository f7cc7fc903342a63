package fsm

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"pgregory.net/rapid"
)

// gen draws commands about a few workers and applications, right ones and
// wrong ones, from what the state holds.
type gen struct {
	rt *rapid.T
	v  *View
}

func (g gen) pick(name string, from ...string) string {
	return rapid.SampledFrom(from).Draw(g.rt, name)
}
func (g gen) num(name string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(g.rt, name) }

func (g gen) app() model.AppID {
	ids := append(g.v.AppByPrefix(""), "app-20261201044001-9999")
	return rapid.SampledFrom(ids).Draw(g.rt, "app")
}

func (g gen) worker() (string, uint64) {
	id := g.pick("worker", "w1", "w2", "w3", "w11")
	inc := uint64(1)
	if w, ok := g.v.Worker(model.WorkerID(id)); ok {
		inc = w.Incarnation
	}
	if g.num("stale", 0, 9) == 0 {
		inc += uint64(g.num("by", 0, 1))
	}
	return id, inc
}

// executor draws an executor that exists, mostly.
func (g gen) executor() (model.AppID, int) {
	var refs []model.ExecutorRef
	g.v.AllExecutors(func(e *model.Executor) bool { refs = append(refs, e.Ref()); return true })
	if len(refs) == 0 || g.num("any", 0, 9) == 0 {
		return g.app(), g.num("id", 0, 5)
	}
	r := rapid.SampledFrom(refs).Draw(g.rt, "executor")
	return r.App, int(r.Executor)
}

// reportsOn draws reports, mostly of executors on the worker.
func (g gen) reportsOn(worker string) []*replogv1.ExecutorReport {
	var here []model.ExecutorRef
	g.v.WorkerExecutors(model.WorkerID(worker), func(e *model.Executor) bool { here = append(here, e.Ref()); return true })
	var out []*replogv1.ExecutorReport
	for range g.num("reports", 0, 5) {
		app, id := g.executor()
		if len(here) > 0 && g.num("here", 0, 4) > 0 {
			r := rapid.SampledFrom(here).Draw(g.rt, "executor here")
			app, id = r.App, int(r.Executor)
		}
		out = append(out, g.reportOf(app, id))
	}
	return out
}

// reportOf draws what a worker says: mostly something that makes sense.
func (g gen) reportOf(app model.AppID, id int) *replogv1.ExecutorReport {
	switch g.num("report", 0, 9) {
	case 0, 1:
		return ended(app, id, model.ExecutorExited, model.CauseClean, 0, 0)
	case 2, 3:
		return ended(app, id, model.ExecutorFailed, model.CauseApp, g.num("code", -1, 3), g.num("signal", 0, 15))
	case 4:
		return ended(app, id, model.ExecutorFailed, model.CauseStart, 127, 0)
	case 5, 6:
		return says(app, id, model.ExecutorRunning)
	case 7:
		return says(app, id, model.ExecutorLaunching)
	}
	state := rapid.SampledFrom(append(model.ExecutorStates(), "NONSENSE")).Draw(g.rt, "state")
	cause := rapid.SampledFrom([]model.Cause{model.CauseNone, model.CauseClean, model.CauseApp, model.CauseStart, model.CauseInfra, model.CauseKill}).Draw(g.rt, "cause")
	return ended(app, id, state, cause, g.num("code", -2, 3), g.num("signal", -1, 15))
}

func (g gen) spec() model.AppSpec {
	if rapid.Bool().Draw(g.rt, "driver") {
		s := driverSpec()
		s.CoresMax, s.Executors = g.num("max", 0, 6), g.num("target", -1, 4)
		s.Profile.Cores = g.num("cores", 0, 2)
		s.MaxRuntimeMilli = int64(g.num("runtime", 0, 1) * 20_000)
		if rapid.Bool().Draw(g.rt, "gpu") {
			s.Profile.Resources = map[string]int{"gpu": 1}
		}
		s.User, s.MinExecutors = g.pick("user", "ann", "bob"), g.num("gang", 0, 2)
		if len(g.v.Settings().Queues) > 0 {
			s.Queue = g.pick("queue", "", "a", "b")
		}
		return s
	}
	restart := rapid.SampledFrom([]model.Restart{model.RestartAlways, model.RestartAlways, model.RestartNever}).Draw(g.rt, "restart")
	s := commandSpec(g.num("copies", 0, 3), g.num("completions", 0, 4), restart)
	s.Disconnect = rapid.SampledFrom([]model.DisconnectPolicy{"", model.DisconnectKeep, model.DisconnectSingleton}).Draw(g.rt, "disconnect")
	return s
}

func (g gen) placements() []*replogv1.Placement {
	var out []*replogv1.Placement
	for range g.num("placements", 1, 6) {
		id, inc := g.worker()
		app := g.app()
		p := placement(app, id, inc, g.num("cores", 0, 2))
		a, known := g.v.App(app)
		if known && a.Spec.Profile.Cores > 0 && g.num("right size", 0, 9) > 0 {
			p.Cores = int32(a.Spec.Profile.Cores)
		}
		if known && len(a.Spec.Profile.Resources) > 0 {
			p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{g.pick("address", "0", "1", "2")}}}
		}
		if g.num("in a gang", 0, 4) == 0 {
			p.Gang = 1
		}
		out = append(out, p)
	}
	return out
}

func (g gen) drain(worker string) *replogv1.Command {
	return drain(model.Drain{Reason: "why", DeadlineTick: int64(g.num("deadline", 0, 2) * 5000), IdleOnly: g.num("idle only", 0, 3) == 0}, worker)
}

func (g gen) stopDrained(worker string) *replogv1.Command {
	var index uint64
	if w, ok := g.v.Worker(model.WorkerID(worker)); ok && w.Drain != nil && g.num("this drain", 0, 9) > 0 {
		index = w.Drain.Index
	}
	var refs []model.ExecutorRef
	for range g.num("stopped", 0, 3) {
		app, id := g.executor()
		refs = append(refs, model.ExecutorRef{App: app, Executor: model.ExecutorID(id)})
	}
	return stopDrained(worker, index, "it is replaced", refs...)
}

func (g gen) workerCommand() *replogv1.Command {
	id, inc := g.worker()
	seq := uint64(g.num("seq", 0, 40))
	if w, ok := g.v.Worker(model.WorkerID(id)); ok && g.num("honest", 0, 3) > 0 {
		seq = w.ReportSeq
	}
	switch g.num("worker command", 0, 12) {
	case 10:
		return g.drain(id)
	case 11:
		return undrain(id)
	case 12:
		return g.stopDrained(id)
	case 0, 1:
		return withCertificate(regWorker(id, inc+uint64(g.num("restart", 0, 1)), g.num("offer", 1, 6), g.reportsOn(id)...), g.pick("certificate", "", "", "node-1", "node-2"))
	case 2:
		return leave(id, inc)
	case 3, 4:
		c := mark(id, inc, seq, rapid.SampledFrom(model.WorkerStates()).Draw(g.rt, "mark"))
		m := c.GetMarkWorker()
		m.ProcessGone = rapid.Bool().Draw(g.rt, "process gone")
		m.RestartWindowMilli = rapid.SampledFrom([]int64{0, 1, 1000, 60_000, model.MaxRestartMilli, model.MaxRestartMilli + 1}).Draw(g.rt, "window")
		if w, ok := g.v.Worker(model.WorkerID(id)); ok {
			m.HeardTick = max(0, w.HeardTick+int64(g.num("heard", -1, 1)))
		}
		return c
	default:
		return report(id, inc, seq+1, g.reportsOn(id)...)
	}
}

func (g gen) command() *replogv1.Command {
	switch g.num("command", 0, 15) {
	case 0, 1:
		return regApp(g.spec())
	case 2, 3, 4, 5:
		return place(g.placements()...)
	case 6:
		app, id := g.executor()
		return killExecs(app, int32(id))
	case 7:
		app, id := g.executor()
		return confirm(app, int32(id))
	case 8:
		app, id := g.executor()
		at := uint64(g.num("change", 0, 30))
		if e, ok := g.v.Executor(model.ExecutorRef{App: app, Executor: model.ExecutorID(id)}); ok {
			at = e.ChangeIndex
		}
		return expire(app, int32(id), at)
	case 9:
		return g.rare()
	case 10:
		return settle(string(g.app()), string(g.app()))
	default:
		return g.workerCommand()
	}
}

func (g gen) rare() *replogv1.Command {
	switch g.num("rare", 0, 11) {
	case 7:
		return createToken(g.pick("holder", "ann", "bob", "master"), rapid.SampledFrom(append(model.Roles(), "king")).Draw(g.rt, "role"), int64(g.num("life", 0, 2)*5000))
	case 8:
		first := createToken(g.pick("holder", "op", "root"), model.RoleOperator, 20_000)
		first.GetCreateToken().First = true
		return first
	case 9:
		return revokeToken(hashOf(g.pick("holder", "ann", "bob", "op", "root")))
	case 10:
		return recordAudit(&model.AuditLine{Action: g.pick("action", "KillApp", ""), Outcome: g.pick("outcome", model.AuditOK, model.AuditRefused), Count: int64(g.num("count", -1, 3))})
	case 11:
		return ownOnly(killApp(g.app()), g.pick("principal", "ann", "bob"))
	case 0:
		return killApp(g.app())
	case 1:
		return finish(g.app(), rapid.SampledFrom(model.AppStates()).Draw(g.rt, "end"), g.num("code", 0, 2))
	case 2:
		return targets(g.app(), int32(g.num("profile", 0, 1)), int32(g.num("target", -1, 3)))
	case 3:
		return setting(g.pick("setting", append(model.SettingNames(), "color")...), g.pick("value", "true", "3", "WORKER_ID", "a,weight=2,cap_cores=4;b,priority=1", "0.5", "1s"))
	case 4:
		return regMaster(g.pick("master", "m1", "m2"), g.pick("address", "a:1", "b:1"))
	case 5:
		return removeMaster(g.pick("master", "m1", "m2"))
	}
	return initCluster(g.pick("cluster", "c1", "c2"))
}

// batch draws an entry; some commands carry request ids, some twice.
func (g gen) batch(tick int64, index uint64) []*replogv1.Command {
	cmds := make([]*replogv1.Command, g.num("batch", 1, 5))
	for i := range cmds {
		c := g.command()
		c.Tick, c.Wall = tick, startWall+tick
		if g.num("with id", 0, 2) == 0 {
			withID(c, fmt.Sprintf("r%d", g.num("request", 0, 60)), uint64(g.num("base", 0, int(index))))
		}
		cmds[i] = c
	}
	return cmds
}

// TestAC07AnyCommandsKeepTheInvariants applies random entries to two replicas. One
// checks every invariant after each entry (used ≤ offered, the state hash, all
// books and indexes); the other is now and then replaced by its own snapshot.
// They must answer alike and end alike.
func TestAC07AnyCommandsKeepTheInvariants(t *testing.T) {
	t.Parallel()
	var applied atomic.Int64
	t.Cleanup(func() { t.Logf("%d commands were applied", applied.Load()) })
	rapid.Check(t, func(rt *rapid.T) {
		a, b := New(CheckInvariants()), New()

		tick := int64(1)
		entries := uint64(rapid.IntRange(1, 50).Draw(rt, "entries"))
		for index := uint64(1); index <= entries; index++ {
			tick += int64(rapid.SampledFrom([]int{0, 1, 500, 2000, 11_000, 700_000}).Draw(rt, "pass"))
			entry, err := EncodeBatch(gen{rt, a.View()}.batch(tick, index))
			if err != nil {
				rt.Fatal(err)
			}
			oa, err := a.Apply(index, entry)
			if err != nil {
				rt.Fatal(err)
			}
			applied.Add(int64(len(oa.Results)))
			ob, err := b.Apply(index, entry)
			if err != nil {
				rt.Fatal(err)
			}
			if fmt.Sprintf("%+v", oa) != fmt.Sprintf("%+v", ob) {
				rt.Fatalf("the replicas answer differently:\n%+v\n%+v", oa, ob)
			}
			if a.View().Hash() != b.View().Hash() {
				rt.Fatalf("state hashes differ after entry %d", index)
			}
			if rapid.IntRange(0, 9).Draw(rt, "snapshot") == 0 {
				b = reborn(rt, b)
			}
		}
		if !bytes.Equal(written(rt, a), written(rt, b)) {
			rt.Fatal("the snapshots of the replicas differ")
		}
	})
}

func written(rt *rapid.T, f *FSM) []byte {
	var buf bytes.Buffer
	if _, err := f.Snapshot().WriteTo(&buf); err != nil {
		rt.Fatal(err)
	}
	return buf.Bytes()
}

func reborn(rt *rapid.T, f *FSM) *FSM {
	next := New()
	if err := next.Restore(bytes.NewReader(written(rt, f))); err != nil {
		rt.Fatal(err)
	}
	if next.View().Hash() != f.View().Hash() {
		rt.Fatal("the restored state has another hash")
	}
	return next
}
