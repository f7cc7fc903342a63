package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// by makes a command that of an attempt of a driver which ann has submitted.
func by(id model.DriverID, attempt int, c *replogv1.Command) *replogv1.Command {
	c.Principal, c.Credential, c.OwnOnly = "ann", id.Ref(attempt).String(), true
	return c
}

func TestADriverRegistersAndEndsWhatIsItsOwnAndNothingElseOfItsOwner(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, false)
	w.launch(id, "w1")
	other := w.must(submitDriver(driverOf(false))).Driver
	w.launch(other, "w2")
	mine := w.must(by(id, 1, regApp(ofDriver(id, 1)))).App
	unnamed := w.must(by(id, 1, regApp(driverSpec()))).App
	if a := w.app(unnamed); a.Spec.Driver != id || a.Spec.Attempt != 1 || a.Principal != "ann" {
		t.Errorf("an application without a driver's name is of %q, attempt %d, registered by %s", a.Spec.Driver, a.Spec.Attempt, a.Principal)
	}
	w.refused(by(id, 1, regApp(ofDriver(other, 1))), model.RejectAttempt)
	w.refused(by(id, 2, regApp(ofDriver(id, 1))), model.RejectAttempt)
	byHand := w.must(ownOnly(regApp(driverSpec()), "ann")).App
	theirs := w.must(by(other, 1, regApp(ofDriver(other, 1)))).App
	for _, foreign := range []model.AppID{byHand, theirs} {
		w.refused(by(id, 1, killApp(foreign)), model.RejectNotOwner)
	}
	w.must(by(id, 1, killApp(mine)))
	// Whoever has submitted the driver may end what that has registered.
	w.must(ownOnly(killApp(unnamed), "ann"))
	w.must(ownOnly(killApp(theirs), "ann"))
}

// An attempt that is given up with its silent worker may come back, and is the one
// it was: its secret opens what it did.
func TestAnAttemptThatComesBackHasItsSecretStill(t *testing.T) {
	t.Parallel()
	w, id := withDriver()(t, true)
	w.launch(id, "w1")
	before, _ := w.v().AttemptAt(id.Ref(1))
	w.must(mark("w1", 1, w.worker("w1").ReportSeq, model.WorkerDead))
	d := w.driverIs(id, model.DriverRelaunching, 1)
	if e, ok := w.v().AttemptAt(d.Ref()); !ok || !e.Secret.Is(before.Secret) || !w.v().MayComeBack(d) {
		t.Fatalf("while it may come back: known %t with %+v, may come back %t", ok, e, w.v().MayComeBack(d))
	}
	w.must(regWorker("w1", 2, 4, says(id.Owner(), 1, model.ExecutorRunning)))
	w.driverIs(id, model.DriverRunning, 1)
	if e, ok := w.v().AttemptAt(id.Ref(1)); !ok || !e.Secret.Is(before.Secret) {
		t.Fatalf("back again it has the secret %q, had %q", e.Secret.Reveal(), before.Secret.Reveal())
	}
	// Once the next one begins the old one is known, and is over.
	w.report1("w1", ended(id.Owner(), 1, model.ExecutorFailed, model.CauseApp, 3, 0))
	w.after(model.DriverBackoffMaxMilli)
	w.launch(id, "w2")
	d = w.driverIs(id, model.DriverRunning, 2)
	if e, ok := w.v().AttemptAt(id.Ref(1)); !ok || e.Secret == "" || w.v().MayComeBack(d) {
		t.Errorf("the first attempt: known %t, %+v", ok, e)
	}
	if _, ok := w.v().AttemptAt(id.Ref(3)); ok {
		t.Error("an attempt that has not been is known")
	}
}
