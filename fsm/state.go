package fsm

import (
	"encoding/binary"

	"github.com/hearthd/hearth/model"
)

// featureLevel is the level of replicated features that this version writes.
const featureLevel = 1

// meta holds the single values of the state that the hash covers.
type meta struct {
	cluster      model.ClusterIdentity
	settings     *model.Settings // replaced as a whole, never changed
	featureLevel uint32
	nextApp      uint64 // number of the next application
	// rememberedSince is the index of the newest request that was forgotten:
	// a request whose base is older may have been applied and forgotten.
	rememberedSince uint64
	lastDriver      uint64         // number of the last driver in cluster mode
	driverCursor    model.WorkerID // that got a driver last
}

// state is one immutable version of everything.
type state struct {
	index uint64
	tick  int64
	meta  meta
	hash  Hash

	masters   table[model.Master]    // by id
	workers   table[model.Worker]    // by id
	apps      table[model.App]       // by number
	executors table[model.Executor]  // unfinished ones, by (app number, id)
	requests  table[remembered]      // by request id
	audit     table[model.AuditLine] // by order
	tokens    table[model.Token]     // by id
	drivers   table[model.Driver]    // by number

	byWorker index[struct{}]     // worker id, 0, executor key: unfinished ones
	usage    index[*model.Usage] // by worker id; absent = nothing in use
	held     index[int]          // cores by queueKey and userKey; kept while countsHeld
	byReq    index[uint64]       // registering request id -> app number
	ended    index[uint64]       // (ended tick, number) -> number
	idle     index[uint64]       // those of ended without unfinished executors
	gone     index[string]       // (state tick, id) -> worker id
	reqOrder index[string]       // order -> request id
	refusals index[struct{}]     // order of the audit lines about refused calls
	// Of drivers in cluster mode.
	driverReq    index[uint64]   // submitting request id -> number
	waiting      index[struct{}] // the queue, by number
	endedDrivers index[uint64]   // (ended tick, number) -> number
	byDriver     index[uint64]   // (driver, application) -> application that has not ended
	seq          uint64          // next order of requests and audit lines
	// See books.go.
	dueBook index[struct{}]
	sums    sums
}

func newState() *state {
	settings := model.DefaultSettings()
	s := &state{
		meta:      meta{settings: &settings, featureLevel: featureLevel, nextApp: 1},
		masters:   newTable[model.Master](),
		workers:   newTable[model.Worker](),
		apps:      newTable[model.App](),
		executors: newTable[model.Executor](),
		requests:  newTable[remembered](),
		audit:     newTable[model.AuditLine](),
		tokens:    newTable[model.Token](),
		drivers:   newTable[model.Driver](),
		byWorker:  newIndex[struct{}](),
		usage:     newIndex[*model.Usage](),
		held:      newIndex[int](),
		byReq:     newIndex[uint64](),
		ended:     newIndex[uint64](),
		idle:      newIndex[uint64](),
		gone:      newIndex[string](),
		reqOrder:  newIndex[string](),
		refusals:  newIndex[struct{}](),
		driverReq: newIndex[uint64](), waiting: newIndex[struct{}](), endedDrivers: newIndex[uint64](), byDriver: newIndex[uint64](),
		dueBook: newIndex[struct{}](),
	}
	s.hash = new(hasher).meta(&s.meta)
	return s
}

func numKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func executorKey(app uint64, id model.ExecutorID) []byte {
	k := make([]byte, 0, 12)
	k = binary.BigEndian.AppendUint64(k, app)
	return binary.BigEndian.AppendUint32(k, uint32(id))
}

// workerPrefix ends in a zero byte, which no worker id contains, so that one
// worker's id being the beginning of another's does no harm.
func workerPrefix(w model.WorkerID) []byte { return append([]byte(w), 0) }

func byWorkerKey(w model.WorkerID, executor []byte) []byte {
	return append(workerPrefix(w), executor...)
}

func endedKey(a *model.App) []byte {
	k := make([]byte, 0, 16)
	k = binary.BigEndian.AppendUint64(k, uint64(a.EndedTick))
	return binary.BigEndian.AppendUint64(k, a.Number)
}

func goneKey(w *model.Worker) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(w.StateTick)), w.ID...)
}

// app finds an application by its id.
func (s *state) app(id model.AppID) (*model.App, bool) {
	n, err := id.Number()
	if err != nil {
		return nil, false
	}
	a, ok := s.apps.get(numKey(n))
	if !ok || a.ID != id {
		return nil, false
	}
	return a, true
}

func (s *state) worker(id model.WorkerID) (*model.Worker, bool) { return s.workers.get([]byte(id)) }

func (s *state) used(id model.WorkerID) model.Usage {
	u, ok := s.usage.tree.get([]byte(id))
	if !ok {
		return model.Usage{}
	}
	return *u
}

// walkWorker visits the unfinished executors on a worker, by app and id.
func (s *state) walkWorker(id model.WorkerID, visit func(*model.Executor) bool) {
	prefix := workerPrefix(id)
	s.byWorker.tree.walkPrefix(prefix, func(k string, _ struct{}) bool {
		e, ok := s.executors.get([]byte(k[len(prefix):]))
		return !ok || visit(e)
	})
}
