package fsm

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// Limits of an envelope. Later ones would not fit the ids and sums made of
// them.
const (
	maxTick = math.MaxInt64 / 4
	maxWall = 253402300799999 // the last ms of year 9999
	// principalMaster marks the leader's own verdicts.
	principalMaster = "master"
)

// tx is one batch being applied on top of a state. It is used by one goroutine
// and thrown away unless it is committed.
type tx struct {
	base  *state
	index uint64
	tick  int64 // never runs backwards
	wall  int64 // of the command being applied
	batch uint64

	meta   meta
	hash   Hash
	hasher hasher

	masters   tableTx[model.Master]
	workers   tableTx[model.Worker]
	apps      tableTx[model.App]
	executors tableTx[model.Executor]
	requests  tableTx[remembered]
	audit     tableTx[model.AuditLine]
	tokens    tableTx[model.Token]
	drivers   tableTx[model.Driver]

	byWorker                          indexTx[struct{}]
	usage                             indexTx[*model.Usage]
	ownUsage                          map[model.WorkerID]*model.Usage
	held                              indexTx[int]
	byReq                             indexTx[uint64]
	ended                             indexTx[uint64]
	idle                              indexTx[uint64]
	gone                              indexTx[string]
	reqOrder                          indexTx[string]
	refusals                          indexTx[struct{}]
	driverReq, endedDrivers, byDriver indexTx[uint64]
	waiting                           indexTx[struct{}]
	dueBook                           indexTx[struct{}]
	sums                              sums
	seq                               uint64

	changes []Change
}

func begin(s *state, index, batch uint64) *tx {
	t := &tx{
		base: s, index: index, tick: s.tick, batch: batch, meta: s.meta, hash: s.hash, seq: s.seq, sums: s.sums,
		byWorker:  indexTx[struct{}]{base: s.byWorker, n: s.byWorker.n},
		usage:     indexTx[*model.Usage]{base: s.usage, n: s.usage.n},
		held:      indexTx[int]{base: s.held, n: s.held.n},
		byReq:     indexTx[uint64]{base: s.byReq, n: s.byReq.n},
		ended:     indexTx[uint64]{base: s.ended, n: s.ended.n},
		idle:      indexTx[uint64]{base: s.idle, n: s.idle.n},
		gone:      indexTx[string]{base: s.gone, n: s.gone.n},
		reqOrder:  indexTx[string]{base: s.reqOrder, n: s.reqOrder.n},
		refusals:  indexTx[struct{}]{base: s.refusals, n: s.refusals.n},
		driverReq: indexTx[uint64]{base: s.driverReq, n: s.driverReq.n}, endedDrivers: indexTx[uint64]{base: s.endedDrivers, n: s.endedDrivers.n},
		byDriver: indexTx[uint64]{base: s.byDriver, n: s.byDriver.n}, waiting: indexTx[struct{}]{base: s.waiting, n: s.waiting.n},
		dueBook: indexTx[struct{}]{base: s.dueBook, n: s.dueBook.n},
	}
	t.masters = tableTx[model.Master]{base: s.masters, n: s.masters.n, batch: batch, total: &t.hash, clone: (*model.Master).Clone, hash: t.hasher.master}
	t.workers = tableTx[model.Worker]{base: s.workers, n: s.workers.n, batch: batch, total: &t.hash, clone: cloneWorker, hash: t.hasher.worker}
	t.apps = tableTx[model.App]{base: s.apps, n: s.apps.n, batch: batch, total: &t.hash, clone: cloneApp, hash: t.hasher.app}
	t.executors = tableTx[model.Executor]{base: s.executors, n: s.executors.n, batch: batch, total: &t.hash, clone: (*model.Executor).Clone, hash: t.hasher.executor}
	t.requests = tableTx[remembered]{base: s.requests, n: s.requests.n, batch: batch, total: &t.hash, hash: t.hasher.request}
	t.audit = tableTx[model.AuditLine]{base: s.audit, n: s.audit.n, batch: batch, total: &t.hash, hash: t.hasher.auditLine}
	t.tokens = tableTx[model.Token]{base: s.tokens, n: s.tokens.n, batch: batch, total: &t.hash, clone: (*model.Token).Clone, hash: t.hasher.token}
	t.drivers = tableTx[model.Driver]{base: s.drivers, n: s.drivers.n, batch: batch, total: &t.hash, clone: (*model.Driver).Clone, hash: t.hasher.driver}
	t.workers.book, t.apps.book, t.drivers.book = t.bookWorker, t.bookApp, t.bookDriver
	return t
}

// cloneWorker shares the offer with the original: it is replaced as a whole,
// never changed.
func cloneWorker(w *model.Worker) *model.Worker {
	c := *w
	return &c
}

// cloneApp shares with the original what hardly ever changes: who changes its
// profiles, targets, or counts of the ended clones them first. What is appended
// to the list of the ended goes elsewhere.
func cloneApp(a *model.App) *model.App {
	c := *a
	c.Live = maps.Clone(a.Live)
	c.Failures, c.Excluded = slices.Clone(a.Failures), slices.Clone(a.Excluded)
	c.Finished = slices.Clip(a.Finished)
	return &c
}

func (t *tx) commit() *state {
	next := &state{
		index: t.index, tick: t.tick, meta: t.meta, seq: t.seq,
		masters: t.masters.commit(), workers: t.workers.commit(), apps: t.apps.commit(),
		executors: t.executors.commit(), requests: t.requests.commit(), audit: t.audit.commit(), tokens: t.tokens.commit(),
		byWorker: t.byWorker.commit(), usage: t.usage.commit(), held: t.held.commit(), byReq: t.byReq.commit(),
		ended: t.ended.commit(), idle: t.idle.commit(), gone: t.gone.commit(), reqOrder: t.reqOrder.commit(), refusals: t.refusals.commit(),
		drivers: t.drivers.commit(), driverReq: t.driverReq.commit(), waiting: t.waiting.commit(), endedDrivers: t.endedDrivers.commit(), byDriver: t.byDriver.commit(),
	}
	// Committing the tables has entered what has changed.
	next.dueBook, next.sums = t.dueBook.commit(), t.sums
	if t.meta != t.base.meta {
		t.hash.sub(t.hasher.meta(&t.base.meta))
		t.hash.add(t.hasher.meta(&t.meta))
	}
	next.hash = t.hash
	return next
}

// apply applies one command: envelope, request id, then what it asks.
func (t *tx) apply(c *replogv1.Command) Result {
	if err := checkEnvelope(c); err != nil {
		return Result{Rejection: model.RejectInvalid, Text: err.Error(), Index: t.index}
	}
	t.tick = max(t.tick, c.GetTick())
	t.wall = c.GetWall()
	if c.GetKind() == nil {
		return Result{Text: "skipped: this version does not know the command and its writer allowed that", Index: t.index}
	}
	if res, done := t.recall(c); done {
		return res
	}
	res := t.dispatch(c)
	res.Index = t.index
	if res.Rejection == model.RejectNone {
		t.remember(c.GetRequestId(), res)
	}
	return res
}

func checkEnvelope(c *replogv1.Command) error {
	if id := c.GetRequestId(); id != "" {
		if err := model.ValidRequestID(id); err != nil {
			return err
		}
	}
	if c.GetTick() < 0 || c.GetTick() > maxTick {
		return fmt.Errorf("%w: tick %d: must be between 0 and %d", model.ErrInvalid, c.GetTick(), int64(maxTick))
	}
	if c.GetWall() < 0 || c.GetWall() > maxWall {
		return fmt.Errorf("%w: wall clock %d: must be between 0 and %d", model.ErrInvalid, c.GetWall(), int64(maxWall))
	}
	if len(c.GetPrincipal()) > model.MaxNameBytes || len(c.GetProposer()) > model.MaxNameBytes ||
		len(c.GetFrom()) > model.MaxNameBytes || len(c.GetCredential()) > model.MaxNameBytes {
		return fmt.Errorf("%w: principal, proposer, origin or credential has more than %d bytes", model.ErrInvalid, model.MaxNameBytes)
	}
	return nil
}

func (t *tx) dispatch(c *replogv1.Command) Result {
	switch k := c.GetKind().(type) {
	case *replogv1.Command_InitCluster:
		return t.initCluster(k.InitCluster)
	case *replogv1.Command_RegisterMaster:
		return t.registerMaster(c, k.RegisterMaster)
	case *replogv1.Command_RemoveMaster:
		return t.removeMaster(c, k.RemoveMaster)
	case *replogv1.Command_SetSettings:
		return t.setSettings(c, k.SetSettings)
	case *replogv1.Command_RegisterWorker:
		return t.registerWorker(c, k.RegisterWorker)
	case *replogv1.Command_LeaveWorker:
		return t.leaveWorker(c, k.LeaveWorker)
	case *replogv1.Command_MarkWorker:
		return t.markWorker(c, k.MarkWorker)
	case *replogv1.Command_DrainWorkers:
		return t.drainWorkers(c, k.DrainWorkers)
	case *replogv1.Command_UndrainWorkers:
		return t.undrainWorkers(c, k.UndrainWorkers)
	case *replogv1.Command_StopDrained:
		return t.stopDrained(c, k.StopDrained)
	case *replogv1.Command_RegisterApp:
		return t.registerApp(c, k.RegisterApp)
	case *replogv1.Command_FinishApp:
		return t.finishApp(c, k.FinishApp)
	case *replogv1.Command_KillApp:
		return t.killApp(c, k.KillApp)
	case *replogv1.Command_SetTargets:
		return t.setTargets(c, k.SetTargets)
	case *replogv1.Command_NoteApp:
		return t.noteApp(c, k.NoteApp)
	case *replogv1.Command_CreateToken:
		return t.createToken(c, k.CreateToken)
	case *replogv1.Command_RevokeToken:
		return t.revokeToken(c, k.RevokeToken)
	case *replogv1.Command_RecordAudit:
		return t.recordAudit(k.RecordAudit)
	case *replogv1.Command_PlaceExecutors:
		return t.placeExecutors(k.PlaceExecutors)
	case *replogv1.Command_KillExecutors:
		return t.killExecutors(c, k.KillExecutors)
	case *replogv1.Command_ReportExecutors:
		return t.reportExecutors(k.ReportExecutors)
	case *replogv1.Command_ConfirmExecutors:
		return t.confirmExecutors(k.ConfirmExecutors)
	case *replogv1.Command_ExpireExecutors:
		return t.expireExecutors(k.ExpireExecutors)
	case *replogv1.Command_SettleApps:
		return t.settleApps(k.SettleApps)
	case *replogv1.Command_PlaceDrivers:
		return t.placeDrivers(k.PlaceDrivers)
	case *replogv1.Command_SubmitDriver:
		return t.submitDriver(c, k.SubmitDriver)
	case *replogv1.Command_KillDriver:
		return t.killDriver(c, k.KillDriver)
	case *replogv1.Command_KillDrivers:
		return t.killDrivers(c, k.KillDrivers)
	case *replogv1.Command_ExpireDrivers:
		return t.expireDrivers(c, k.ExpireDrivers)
	}
	// A kind that is generated but not handled here: a test keeps the two in
	// step.
	return reject(model.RejectInvalid, "the command has no handler")
}

func reject(r model.Rejection, format string, args ...any) Result {
	return Result{Rejection: r, Text: model.TrimReason(fmt.Sprintf(format, args...))}
}
