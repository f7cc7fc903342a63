package fsm

import (
	"encoding/binary"
	"slices"

	"github.com/hearthd/hearth/model"
)

// What is asked at each placement of a driver, or each second, is kept in books,
// so that the answer costs no look at every worker, driver or application. A
// record is taken out of the books when a batch first changes it, and entered
// anew when the batch is committed (tableTx.book). Books are derived: neither
// hashed nor written to snapshots.

// sums are over all records.
type sums struct {
	offered     int // cores of workers that may get work
	driverCores int // cores that drivers hold by being placed
}

// What a key of the book of deadlines begins with. Those of limits go on with
// the tick at which they are reached; all end in the number of the record.
const (
	dueApp     = 'a'
	dueDriver  = 'd'
	dueTrouble = 'f' // an application with failures or exclusions, which time forgives
)

func limitKey(kind byte, at int64, number uint64) []byte {
	k := append(make([]byte, 0, 17), kind)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(k, uint64(at)), number)
}

func troubleKey(number uint64) []byte { return append([]byte{dueTrouble}, numKey(number)...) }

// numberIn is the number that a key ends in.
func numberIn(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[len(key)-8:])) }

func (t *tx) bookWorker(w *model.Worker, by int) {
	if schedulable(w) {
		t.sums.offered += by * w.Offer.Cores
	}
}

func (t *tx) bookDriver(d *model.Driver, by int) {
	t.sums.driverCores += by * driverCores(d)
	if d.Spec.MaxRuntimeMilli > 0 && !d.State.Terminal() && d.State != model.DriverKilling {
		t.bookDue(limitKey(dueDriver, d.SubmittedTick+d.Spec.MaxRuntimeMilli, d.Number), by)
	}
}

func (t *tx) bookApp(a *model.App, by int) {
	if a.State.Terminal() {
		return
	}
	if a.Spec.MaxRuntimeMilli > 0 {
		t.bookDue(limitKey(dueApp, a.SubmittedTick+a.Spec.MaxRuntimeMilli, a.Number), by)
	}
	if len(a.Excluded) > 0 || len(a.Failures) > 0 {
		t.bookDue(troubleKey(a.Number), by)
	}
}

func (t *tx) bookDue(key []byte, by int) {
	if by > 0 {
		t.dueBook.put(key, struct{}{})
	} else {
		t.dueBook.remove(key)
	}
}

// sumsNow are those of the state as the batch has left it.
func (t *tx) sumsNow() sums {
	now := t.sums
	for _, e := range t.drivers.dirty {
		if !e.gone {
			now.driverCores += driverCores(e.rec)
		}
	}
	for _, e := range t.workers.dirty {
		if !e.gone && schedulable(e.rec) {
			now.offered += e.rec.Offer.Cores
		}
	}
	return now
}

// beyond lists the records whose limit of a kind has been passed at a tick, by
// number.
func (s *state) beyond(kind byte, tick int64) []uint64 {
	var out []uint64
	s.dueBook.tree.walkPrefix([]byte{kind}, func(key string, _ struct{}) bool {
		if int64(binary.BigEndian.Uint64([]byte(key[1:9]))) >= tick {
			return false
		}
		out = append(out, numberIn(key))
		return true
	})
	slices.Sort(out)
	return out
}

// MayFallDue reports whether Due or OvertimeDrivers may list something at a later
// tick although nothing changes until then.
func (v *View) MayFallDue() bool { return v.s.dueBook.n > 0 }

// Due lists the applications that a SettleApps command would change at this
// tick, in order of registration: a run-time limit has passed, an exclusion or a
// failure no longer counts. It looks at those whose limit has passed, those that
// have failures or exclusions, and the executors of these.
func (v *View) Due(tick int64) []model.AppID {
	due := v.s.beyond(dueApp, tick)
	v.s.dueBook.tree.walkPrefix([]byte{dueTrouble}, func(key string, _ struct{}) bool {
		n := numberIn(key)
		if a, ok := v.s.apps.get(numKey(n)); ok && appDue(a, tick, stableSince(a, tick, v.s.executors.walk)) {
			due = append(due, n)
		}
		return true
	})
	slices.Sort(due)
	var out []model.AppID
	for _, n := range slices.Compact(due) {
		if a, ok := v.s.apps.get(numKey(n)); ok {
			out = append(out, a.ID)
		}
	}
	return out
}

// OvertimeDrivers lists the drivers that have been there for longer than they may at
// a point of the cluster clock, and of which nobody has asked the end yet.
func (v *View) OvertimeDrivers(tick int64) []model.DriverID {
	var out []model.DriverID
	for _, n := range v.s.beyond(dueDriver, tick) {
		if d, ok := v.s.drivers.get(numKey(n)); ok {
			out = append(out, d.ID)
		}
	}
	return out
}

// checkBooks reads everything that the books are about, one by one.
func (c *checker) checkBooks() {
	want, due := sums{}, map[string]bool{}
	c.s.workers.walk(nil, func(w *model.Worker) bool {
		if schedulable(w) {
			want.offered += w.Offer.Cores
		}
		return true
	})
	c.s.drivers.walk(nil, func(d *model.Driver) bool {
		want.driverCores += driverCores(d)
		if d.Spec.MaxRuntimeMilli > 0 && !d.State.Terminal() && d.State != model.DriverKilling {
			due[string(limitKey(dueDriver, d.SubmittedTick+d.Spec.MaxRuntimeMilli, d.Number))] = true
		}
		return true
	})
	c.s.apps.walk(nil, func(a *model.App) bool {
		if a.State.Terminal() {
			return true
		}
		if a.Spec.MaxRuntimeMilli > 0 {
			due[string(limitKey(dueApp, a.SubmittedTick+a.Spec.MaxRuntimeMilli, a.Number))] = true
		}
		if len(a.Excluded)+len(a.Failures) > 0 {
			due[string(troubleKey(a.Number))] = true
		}
		return true
	})
	if c.s.sums != want {
		c.bad("the books say %+v, the records %+v", c.s.sums, want)
	}
	if c.s.dueBook.n != len(due) {
		c.bad("%d deadlines are in the book, %d in the records", c.s.dueBook.n, len(due))
	}
	c.s.dueBook.tree.walk(func(key string, _ struct{}) bool {
		if !due[key] {
			c.bad("the book has a deadline %x that no record has", key)
		}
		return true
	})
}
