package fsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	startWall = 1796100000000 // 2026-12-01, for ids
	token     = "token-of-the-app"
	secret    = "secret"
)

// world is a state with its own clock, to which tests send commands.
type world struct {
	t     testing.TB
	f     *FSM
	index uint64
	tick  int64
	last  Outcome
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, f: New(CheckInvariants()), tick: 1000}
}

func (w *world) v() *View { return w.f.View() }

// after moves the cluster clock.
func (w *world) after(ms int64) *world { w.tick += ms; return w }

// do applies the commands as one entry.
func (w *world) do(cmds ...*replogv1.Command) []Result {
	w.t.Helper()
	for _, c := range cmds {
		if c.GetTick() == 0 {
			c.Tick = w.tick
		}
		if c.GetWall() == 0 {
			c.Wall = startWall + w.tick
		}
	}
	entry, err := EncodeBatch(cmds)
	if err != nil {
		w.t.Fatalf("encode: %v", err)
	}
	w.index++
	out, err := w.f.Apply(w.index, entry)
	if err != nil {
		w.t.Fatalf("apply %v: %v", cmds, err)
	}
	w.last = out
	return out.Results
}

// must applies one command that is to be accepted.
func (w *world) must(c *replogv1.Command) Result {
	w.t.Helper()
	res := w.do(c)[0]
	if err := res.Err(); err != nil {
		w.t.Fatalf("%T refused: %v", c.GetKind(), err)
	}
	return res
}

// refused applies one command that is to be refused, and checks that nothing
// but the clock has moved.
func (w *world) refused(c *replogv1.Command, want model.Rejection) {
	w.t.Helper()
	before := w.v().HashString()
	res := w.do(c)[0]
	if res.Rejection != want {
		w.t.Errorf("%T: rejection %q (%s), want %q", c.GetKind(), res.Rejection, res.Text, want)
	}
	if res.Text == "" {
		w.t.Errorf("%T: refused without a reason", c.GetKind())
	}
	if after := w.v().HashString(); after != before || len(w.last.Changes) != 0 {
		w.t.Errorf("%T: a refused command changed the state: %v", c.GetKind(), w.last.Changes)
	}
}

func (w *world) app(id model.AppID) *model.App {
	w.t.Helper()
	a, ok := w.v().App(id)
	if !ok {
		w.t.Fatalf("application %s is not there", id)
	}
	return a
}

func (w *world) executor(app model.AppID, id model.ExecutorID) *model.Executor {
	w.t.Helper()
	e, ok := w.v().Executor(model.ExecutorRef{App: app, Executor: id})
	if !ok {
		w.t.Fatalf("executor %s/%d is not there", app, id)
	}
	return e
}

func (w *world) worker(id model.WorkerID) *model.Worker {
	w.t.Helper()
	x, ok := w.v().Worker(id)
	if !ok {
		w.t.Fatalf("worker %s is not there", id)
	}
	return x
}

func (w *world) snapshot() []byte {
	w.t.Helper()
	var buf bytes.Buffer
	n, err := w.f.Snapshot().WriteTo(&buf)
	if err != nil {
		w.t.Fatalf("snapshot: %v", err)
	}
	if n != int64(buf.Len()) {
		w.t.Errorf("WriteTo says %d bytes, wrote %d", n, buf.Len())
	}
	return buf.Bytes()
}

func offer(cores int, mem int64) *replogv1.Offer {
	return &replogv1.Offer{
		Hostname: "host", GrpcAddr: "127.0.0.1:7073", SerfAddr: "127.0.0.1:7074", Cores: int32(cores), MemoryMib: mem,
		Resources: []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{"0", "1"}}},
		Labels:    []*replogv1.Label{{Name: "zone", Value: "a"}}, Version: "v1",
	}
}

func regWorker(id string, inc uint64, cores int, inv ...*replogv1.ExecutorReport) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_RegisterWorker{RegisterWorker: &replogv1.RegisterWorker{
		Id: id, Incarnation: inc, BootId: "boot", Offer: offer(cores, 16384), Inventory: inv,
	}}}
}

func mark(id string, inc, seq uint64, state model.WorkerState) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_MarkWorker{MarkWorker: &replogv1.MarkWorker{
		Id: id, Incarnation: inc, ReportSeq: seq, State: string(state), Reason: "silent",
	}}}
}

func leave(id string, inc uint64) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_LeaveWorker{LeaveWorker: &replogv1.LeaveWorker{Id: id, Incarnation: inc}}}
}

func driverSpec() model.AppSpec {
	return model.AppSpec{
		Name: "job", User: "ann", Kind: model.AppKindDriver, Profile: model.Profile{Cores: 1, MemoryMiB: 512},
		Executors: model.TargetUnlimited, DriverAddr: "127.0.0.1:4000",
	}
}

func commandSpec(copies, completions int, restart model.Restart) model.AppSpec {
	return model.AppSpec{
		Name: "copies", User: "ann", Kind: model.AppKindCommand, Profile: model.Profile{Cores: 1, MemoryMiB: 512},
		Executors: copies, Completions: completions, Restart: restart,
		Command: model.Command{Argv: []string{"/bin/true"}, Env: []string{"A=b"}},
		Files:   []model.File{{Name: "in/data", Mode: 0o600, Data: []byte{0, 1, 2}}},
	}
}

func regApp(spec model.AppSpec) *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_RegisterApp{RegisterApp: &replogv1.RegisterApp{
		Spec: SpecToProto(spec), Token: token,
	}}}
}

func finish(app model.AppID, state model.AppState, code int) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_FinishApp{FinishApp: &replogv1.FinishApp{
		App: string(app), Token: token, State: string(state), Reason: "done", ExitCode: int32(code),
	}}}
}

func noteApp(app model.AppID, reason string) *replogv1.Command {
	return &replogv1.Command{Principal: principalMaster, Kind: &replogv1.Command_NoteApp{NoteApp: &replogv1.NoteApp{App: string(app), Reason: reason}}}
}

func killApp(app model.AppID) *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_KillApp{KillApp: &replogv1.KillApp{App: string(app), Reason: "by ann"}}}
}

func placement(app model.AppID, worker string, inc uint64, cores int) *replogv1.Placement {
	return PlacementToProto(model.Placement{
		App: app, Worker: model.WorkerID(worker), Incarnation: inc, Cores: cores, MemoryMiB: 512, Secret: secret,
	})
}

func place(ps ...*replogv1.Placement) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_PlaceExecutors{PlaceExecutors: &replogv1.PlaceExecutors{Placements: ps}}}
}

// lateExecs is killExecs for not coming up in time.
func lateExecs(app model.AppID, ids ...int32) *replogv1.Command {
	c := killExecs(app, ids...)
	c.GetKillExecutors().FailedToStart = true
	return c
}

func killExecs(app model.AppID, ids ...int32) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_KillExecutors{KillExecutors: &replogv1.KillExecutors{App: string(app), Executors: ids, Reason: "by ann"}}}
}

func says(app model.AppID, id int, state model.ExecutorState) *replogv1.ExecutorReport {
	return &replogv1.ExecutorReport{App: string(app), Executor: int32(id), State: string(state), Pid: int32(100 + id)}
}

func ended(app model.AppID, id int, state model.ExecutorState, cause model.Cause, code, signal int) *replogv1.ExecutorReport {
	r := says(app, id, state)
	r.Cause, r.ExitCode, r.Signal, r.Pid = string(cause), int32(code), int32(signal), 0
	return r
}

func report(worker string, inc, seq uint64, rs ...*replogv1.ExecutorReport) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_ReportExecutors{ReportExecutors: &replogv1.ReportExecutors{
		Worker: worker, Incarnation: inc, Seq: seq, Executors: rs,
	}}}
}

func confirm(app model.AppID, ids ...int32) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_ConfirmExecutors{ConfirmExecutors: &replogv1.ConfirmExecutors{App: string(app), Executors: ids}}}
}

func expire(app model.AppID, id int32, at uint64) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_ExpireExecutors{ExpireExecutors: &replogv1.ExpireExecutors{
		Executors: []*replogv1.Expiry{{App: string(app), Executor: id, ChangeIndex: at, Reason: "never acknowledged"}},
	}}}
}

func settle(apps ...string) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_SettleApps{SettleApps: &replogv1.SettleApps{Apps: apps}}}
}

func targets(app model.AppID, profile, count int32) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_SetTargets{SetTargets: &replogv1.SetTargets{
		App: string(app), Token: token, Totals: []*replogv1.ProfileCount{{Id: profile, Count: count}},
	}}}
}

func setting(name, value string) *replogv1.Command {
	return &replogv1.Command{Principal: "ann", Kind: &replogv1.Command_SetSettings{SetSettings: &replogv1.SetSettings{
		Settings: []*replogv1.Setting{{Name: name, Value: value}},
	}}}
}

func initCluster(id string) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_InitCluster{InitCluster: &replogv1.InitCluster{
		Cluster: &replogv1.ClusterIdentity{Id: id, Epoch: 1, EpochId: 7}, Settings: SettingsToProto(model.DefaultSettings()),
	}}}
}

func regMaster(id, addr string) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_RegisterMaster{RegisterMaster: &replogv1.RegisterMaster{
		Master: &replogv1.Master{Id: id, GrpcAddr: addr, RaftAddr: addr, Version: "v1"},
	}}}
}

func removeMaster(id string) *replogv1.Command {
	return &replogv1.Command{Kind: &replogv1.Command_RemoveMaster{RemoveMaster: &replogv1.RemoveMaster{Id: id}}}
}

func hashOf(name string) []byte {
	h := model.HashBearer(model.Secret("secret of " + name))
	return h[:]
}

func tokenID(name string) model.TokenID { return model.TokenHash(hashOf(name)).ID() }

func createToken(name string, role model.Role, life int64) *replogv1.Command {
	return &replogv1.Command{Principal: "root", Kind: &replogv1.Command_CreateToken{CreateToken: &replogv1.CreateToken{
		Name: name, Role: string(role), Hash: hashOf(name), LifetimeMilli: life,
	}}}
}

func revokeToken(hash []byte) *replogv1.Command {
	return &replogv1.Command{Principal: "root", Kind: &replogv1.Command_RevokeToken{RevokeToken: &replogv1.RevokeToken{Id: string(model.TokenHash(hash).ID())}}}
}

func recordAudit(lines ...*model.AuditLine) *replogv1.Command {
	p := &replogv1.RecordAudit{}
	for _, l := range lines {
		p.Lines = append(p.Lines, AuditToProto(l))
	}
	p.Lines[0].Index = 4
	return &replogv1.Command{Kind: &replogv1.Command_RecordAudit{RecordAudit: p}}
}

func withCertificate(c *replogv1.Command, name string) *replogv1.Command {
	c.GetRegisterWorker().Certificate = name
	return c
}

// ownOnly is the command of a submitter.
func ownOnly(c *replogv1.Command, principal string) *replogv1.Command {
	c.Principal, c.OwnOnly = principal, true
	return c
}

func withID(c *replogv1.Command, id string, base uint64) *replogv1.Command {
	c.RequestId, c.Base = id, base
	return c
}

// withWorkers registers w1 … wn, each with the given cores, in incarnation 1.
func (w *world) withWorkers(n, cores int) *world {
	w.t.Helper()
	for i := range n {
		w.must(regWorker(fmt.Sprintf("w%d", i+1), 1, cores))
	}
	return w
}

// placed places one executor of the application and returns its id.
func (w *world) placed(app model.AppID, worker string, inc uint64) int {
	w.t.Helper()
	v := w.must(place(placement(app, worker, inc, 1))).Placements[0]
	if err := v.Err(); err != nil {
		w.t.Fatalf("placement refused: %v", err)
	}
	return int(v.Executor)
}

// report1 sends a report with the next sequence number of the worker.
func (w *world) report1(worker string, rs ...*replogv1.ExecutorReport) Result {
	w.t.Helper()
	x := w.worker(model.WorkerID(worker))
	return w.must(report(worker, x.Incarnation, x.ReportSeq+1, rs...))
}

// fails places an executor on the worker and lets it fail at once.
func (w *world) fails(app model.AppID, worker string, cause model.Cause) {
	w.t.Helper()
	id := w.placed(app, worker, 1)
	w.report1(worker, says(app, id, model.ExecutorLaunching))
	w.report1(worker, ended(app, id, model.ExecutorFailed, cause, 3, 0))
}
