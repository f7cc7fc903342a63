package fsm

import (
	"fmt"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

const sampleDriver = model.DriverID("driver-20261201044001-0001")

const sampleApp = model.AppID("app-20261201044001-0001")

// samples holds one command of each kind with all its fields in use, by the
// name of the kind. They are the golden encodings and the seeds of FuzzApply,
// which applies them to furnished's state.
func samples() map[string]*replogv1.Command {
	env := func(c *replogv1.Command) *replogv1.Command {
		c.Proposer, c.Wall, c.Tick, c.Principal = "master-1", startWall+90_000, 91_000, "ann"
		return c
	}
	spec := commandSpec(3, 9, model.RestartNever)
	spec.CoresMax, spec.MaxRuntimeMilli = 12, 60_000
	spec.Profile.Resources = map[string]int{"gpu": 1}
	spec.Command.Dir, spec.Disconnect = "/srv", model.DisconnectSingleton
	t := targets(sampleApp, 1, 4)
	t.GetSetTargets().Profiles = []*replogv1.NumberedProfile{{Id: 1, Profile: ProfileToProto(spec.Profile)}}
	p := placement(sampleApp, "w1", 1, 1)
	p.Resources = []*replogv1.ResourceAddresses{{Name: "gpu", Addresses: []string{"1"}}}
	l := leave("w1", 1)
	l.GetLeaveWorker().Reason = "it was stopped"
	rep := ended(sampleApp, 1, model.ExecutorFailed, model.CauseApp, 3, 0)
	rep.Pid, rep.Signal, rep.Reason = 41, 9, "out of memory"
	dead := mark("w1", 1, 2, model.WorkerDead)
	m := dead.GetMarkWorker()
	m.RestartWindowMilli, m.ProcessGone, m.Beat, m.HeardTick = 60_000, true, 17, 90_000
	out := map[string]*replogv1.Command{
		"init_cluster":      initCluster("c2"),
		"register_master":   {Kind: &replogv1.Command_RegisterMaster{RegisterMaster: &replogv1.RegisterMaster{Master: MasterToProto(&model.Master{ID: "m2", GRPCAddr: "h:7070", RaftAddr: "h:7071", SerfAddr: "h:7072", HTTPAddr: "h:8080", Version: "v1"})}}},
		"remove_master":     removeMaster("m1"),
		"set_settings":      setting(model.SettingDefaultCores, "8"),
		"register_worker":   withCertificate(regWorker("w1", 2, 4, says(sampleApp, 1, model.ExecutorRunning), rep), "node-1"),
		"leave_worker":      l,
		"mark_worker":       dead,
		"drain_workers":     drain(model.Drain{Reason: "new memory", DeadlineTick: 60_000, IdleOnly: true}, "w1", "w2"),
		"undrain_workers":   undrain("w1", "w2"),
		"stop_drained":      stopDrained("w1", 9, "replaced", model.ExecutorRef{App: sampleApp, Executor: 2}),
		"register_app":      regApp(spec),
		"finish_app":        finish(sampleApp, model.AppFailed, 3),
		"kill_app":          killApp(sampleApp),
		"set_targets":       t,
		"note_app":          noteApp(sampleApp, "it is left alone"),
		"create_token":      {Kind: &replogv1.Command_CreateToken{CreateToken: &replogv1.CreateToken{Name: "bob", Role: "viewer", Hash: hashOf("bob"), LifetimeMilli: 60_000, First: true}}},
		"revoke_token":      revokeToken(hashOf("ann")),
		"record_audit":      recordAudit(&model.AuditLine{Wall: startWall, Principal: "eve", Credential: "token-0123456789ab", From: "192.0.2.7", Action: "KillApp", Object: string(sampleApp), Outcome: model.AuditRefused, Reason: "needs role submitter", Count: 7}),
		"place_executors":   registeredBy("register-1", p, placement(sampleApp, "w2", 1, 1)),
		"kill_executors":    lateExecs(sampleApp, 0, 1),
		"report_executors":  report("w1", 1, 3, says(sampleApp, 0, model.ExecutorRunning), rep),
		"confirm_executors": confirm(sampleApp, 0, 1, 2),
		"expire_executors":  expire(sampleApp, 1, 7),
		"settle_apps":       settle(string(sampleApp)),
		"submit_driver":     submitDriver(fullDriverSpec()),
		"place_drivers":     placeDrivers(fullPlacement(sampleDriver, "w1", 1)),
		"kill_driver":       killDriver(sampleDriver),
		"kill_drivers":      killDrivers(),
		"expire_drivers":    expireDrivers("driver-20261201044000-0001"),
	}
	for name, c := range out {
		env(withID(c, "req-"+name, 3))
	}
	return out
}

// registeredBy is place for what a registration brings along.
func registeredBy(request string, ps ...*replogv1.Placement) *replogv1.Command {
	c := place(ps...)
	c.GetPlaceExecutors().RegisteredBy = request
	return c
}

// furnished is a world with something in each table.
func furnished(t testing.TB) *world {
	w := newWorld(t)
	w.must(initCluster("c1"))
	w.must(regMaster("m1", "a:1"))
	w.withWorkers(3, 8)
	app := w.must(withID(regApp(driverSpec()), "register-1", 0)).App
	if app != sampleApp {
		t.Fatalf("the sample application is %s, the samples say %s", app, sampleApp)
	}
	for i := range 6 {
		w.placed(app, fmt.Sprintf("w%d", i%2+1), 1)
	}
	w.report1("w1", says(app, 0, model.ExecutorLaunching), says(app, 2, model.ExecutorLaunching))
	w.must(confirm(app, 2))
	w.report1("w1", ended(app, 4, model.ExecutorFailed, model.CauseStart, 127, 0))
	copies := w.must(withID(regApp(commandSpec(2, 2, model.RestartAlways)), "register-2", 0)).App
	id := w.placed(copies, "w1", 1)
	w.report1("w1", ended(copies, id, model.ExecutorExited, model.CauseClean, 0, 0))
	over := w.must(regApp(driverSpec())).App
	w.placed(over, "w2", 1)
	w.must(killApp(over))
	w.must(leave("w3", 1))
	d := w.must(submitDriver(driverOf(true))).Driver
	if d != sampleDriver {
		t.Fatalf("the sample driver is %s, the samples say %s", d, sampleDriver)
	}
	w.must(placeDrivers(driverPlacement(d, "w1", 1)))
	w.must(submitDriver(fullDriverSpec()))
	w.must(killDriver(w.must(submitDriver(driverOf(false))).Driver))
	w.must(createToken("ann", model.RoleSubmitter, 0))
	w.must(createToken("op", model.RoleOperator, 60_000))
	w.must(recordAudit(&model.AuditLine{Action: "KillApp", Outcome: model.AuditRefused, Count: 3}))
	return w
}
