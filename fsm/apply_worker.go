package fsm

import (
	"reflect"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func (t *tx) registerWorker(c *replogv1.Command, p *replogv1.RegisterWorker) Result {
	offer := OfferFromProto(p.GetOffer())
	if res := checkRegistration(p, offer); res.Rejection != model.RejectNone {
		return res
	}
	id := model.WorkerID(p.GetId())
	old, known := t.findWorker(id)
	if known {
		if res, ok := mayRegister(old, p); !ok {
			return res
		}
	}
	switch {
	case known && p.GetIncarnation() < old.Incarnation:
		return reject(model.RejectIncarnation, "worker %s is in incarnation %d; %d is an older one", id, old.Incarnation, p.GetIncarnation())
	case known && p.GetIncarnation() == old.Incarnation && old.State.Gone():
		return reject(model.RejectIncarnation, "worker %s is %s in incarnation %d (%s); it must come back with a higher one",
			id, old.State, old.Incarnation, old.StateReason)
	}
	fresh := !known || p.GetIncarnation() > old.Incarnation
	switch {
	case !known:
		t.addWorker(&model.Worker{
			ID: id, Incarnation: p.GetIncarnation(), BootID: p.GetBootId(), Offer: offer,
			State: model.WorkerAlive, RegisteredWall: t.wall, StateWall: t.wall, StateTick: t.tick, HeardTick: t.tick, Certificate: p.GetCertificate(), ChangeIndex: t.index,
		})
	case fresh || !old.State.Up() || old.BootID != p.GetBootId() || !reflect.DeepEqual(old.Offer, offer),
		old.Certificate == "" && p.GetCertificate() != "":
		t.renewWorker(p, offer, fresh)
	}
	if known {
		t.heard(id)
	}
	if fresh {
		t.auditLine(c, "register worker", string(id))
	}
	t.takeInventory(id, p)
	t.settleDrain(id)
	return Result{}
}

// mayRegister refuses a certificate that another holder's worker was registered
// with. Worker ids are chosen at random by the workers themselves, so whoever
// came first is the one. A session without TLS has nothing to be compared; such
// a cluster trusts its network.
func mayRegister(w *model.Worker, p *replogv1.RegisterWorker) (Result, bool) {
	if w.Certificate == "" || p.GetCertificate() == "" || w.Certificate == p.GetCertificate() {
		return Result{}, true
	}
	return reject(model.RejectCertificate, "worker %s was registered with the certificate of %q and is spoken for by %q now: issue it a certificate with its first name, or start it on an empty data directory",
		w.ID, w.Certificate, p.GetCertificate()), false
}

func checkRegistration(p *replogv1.RegisterWorker, offer model.Offer) Result {
	if err := validID("worker", p.GetId()); err != nil {
		return reject(model.RejectInvalid, "%v", err)
	}
	if p.GetIncarnation() == 0 {
		return reject(model.RejectInvalid, "worker %s: incarnations count from 1", p.GetId())
	}
	if len(p.GetBootId()) > model.MaxNameBytes || len(p.GetCertificate()) > model.MaxNameBytes {
		return reject(model.RejectInvalid, "worker %s: boot id or certificate name has more than %d bytes", p.GetId(), model.MaxNameBytes)
	}
	for _, s := range []string{offer.GRPCAddr, offer.SerfAddr, offer.HTTPAddr, offer.Version} {
		if len(s) > model.MaxNameBytes {
			return reject(model.RejectInvalid, "worker %s: an address or the version has more than %d bytes", p.GetId(), model.MaxNameBytes)
		}
	}
	if err := offer.Validate(); err != nil {
		return reject(model.RejectInvalid, "worker %s: %v", p.GetId(), err)
	}
	return Result{}
}

// renewWorker takes over what a known worker says of itself now.
func (t *tx) renewWorker(p *replogv1.RegisterWorker, offer model.Offer, fresh bool) {
	w := t.editWorker(model.WorkerID(p.GetId()))
	t.setOffer(w, offer)
	w.BootID = p.GetBootId()
	if w.Certificate == "" {
		w.Certificate = p.GetCertificate()
	}
	if fresh {
		w.Incarnation, w.ReportSeq, w.RegisteredWall = p.GetIncarnation(), 0, t.wall
	}
	if fresh || !w.State.Up() {
		t.setWorkerState(w, t.upState(w), drainOf(w))
	}
	w.Overcommitted = !holds(offer, t.usedOn(w.ID))
}

// heard notes that a Hello or a report of the worker is applied: a verdict that
// judged an older beat is refused.
func (t *tx) heard(id model.WorkerID) *model.Worker {
	w := t.editWorker(id)
	w.HeardTick = t.tick
	return w
}

// takeInventory compares what the state says runs on the worker with what the
// worker says (design 7). Entries that the state does not know are the
// leader's business: it kills them by explicit order.
func (t *tx) takeInventory(id model.WorkerID, p *replogv1.RegisterWorker) {
	has := make(map[model.ExecutorRef]model.ExecutorReport, len(p.GetInventory()))
	for _, r := range p.GetInventory() {
		rep := ReportFromProto(r)
		has[rep.Ref] = rep
	}
	for _, e := range t.unfinishedOn(id) {
		rep, found := has[e.Ref()]
		if model.IsDriver(e.App) {
			t.takeAttempt(e, p.GetIncarnation(), rep, found)
			continue
		}
		a, ok := t.findApp(e.App)
		if !ok {
			continue
		}
		switch {
		case found:
			if e.Incarnation != p.GetIncarnation() {
				t.editExecutor(a, e.ID).Incarnation = p.GetIncarnation()
			}
			t.applyReport(a, e.ID, rep)
		case e.Incarnation != p.GetIncarnation():
			t.lose(a, e.ID, "its worker came back without it")
		case e.State != model.ExecutorPlaced:
			t.lose(a, e.ID, "its worker no longer has it")
		}
	}
	for _, r := range p.GetInventory() {
		if rep := ReportFromProto(r); model.IsDriver(rep.Ref.App) {
			t.readopt(id, p.GetIncarnation(), rep)
		}
	}
	t.stopWaitingFor(id, has)
}

// unfinishedOn lists the unfinished executors on a worker, by app and id.
func (t *tx) unfinishedOn(id model.WorkerID) []*model.Executor {
	prefix := workerPrefix(id)
	var out []*model.Executor
	t.byWorker.walkPrefix(prefix, func(k string, _ struct{}) bool {
		if e, ok := t.executors.get([]byte(k[len(prefix):])); ok {
			out = append(out, e)
		}
		return true
	})
	return out
}

// lose ends an executor through no fault of its application.
func (t *tx) lose(a *model.App, id model.ExecutorID, reason string) {
	t.endExecutor(a, id, ending{state: model.ExecutorLost, cause: model.CauseInfra, exitCode: -1, reason: reason})
}

// loseAllOn gives up what runs on a worker. proved: nothing of it runs any more.
func (t *tx) loseAllOn(id model.WorkerID, reason string, proved bool) {
	for _, e := range t.unfinishedOn(id) {
		if model.IsDriver(e.App) {
			t.loseAttempt(e, reason, proved)
			continue
		}
		if a, ok := t.findApp(e.App); ok {
			t.lose(a, e.ID, reason)
		}
	}
}

func (t *tx) leaveWorker(c *replogv1.Command, p *replogv1.LeaveWorker) Result {
	id := model.WorkerID(p.GetId())
	w, ok := t.findWorker(id)
	if !ok {
		return reject(model.RejectUnknownWorker, "worker %q is not registered", p.GetId())
	}
	if w.Incarnation != p.GetIncarnation() {
		return reject(model.RejectIncarnation, "worker %s is in incarnation %d, not %d", id, w.Incarnation, p.GetIncarnation())
	}
	if w.State == model.WorkerLeft {
		return Result{Repeated: true}
	}
	reason := p.GetReason()
	if reason == "" {
		reason = "it left"
	}
	t.loseAllOn(id, "its worker left: "+reason, true)
	t.setWorkerState(t.editWorker(id), model.WorkerLeft, reason)
	t.auditLine(c, "leave worker", string(id))
	return Result{}
}
