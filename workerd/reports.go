//go:build linux

package workerd

import (
	"slices"
	"time"

	"github.com/hearthd/hearth/model"
)

// reports numbers what the leader is to be told and repeats it until it was acknowledged. Of each
// executor only the latest report counts: it is sent instead of those before it. One goroutine uses
// it.
type reports struct {
	incarnation uint64
	seq         uint64 // last used

	pending map[model.ExecutorRef]*pendingReport
	order   []model.ExecutorRef // of pending, by when the latest report was put
}

type pendingReport struct {
	report model.ExecutorReport
	seq    uint64 // under which it was last sent; 0: not sent as it is now
	sentAt time.Time
}

func newReports(incarnation uint64) *reports {
	return &reports{incarnation: incarnation, pending: make(map[model.ExecutorRef]*pendingReport)}
}

// put queues r in place of whatever waits for the same executor.
func (q *reports) put(r model.ExecutorReport) {
	p := q.pending[r.Ref]
	if p == nil {
		p = &pendingReport{}
		q.pending[r.Ref] = p
		q.order = append(q.order, r.Ref)
	}
	p.report, p.seq = r, 0
}

// session forgets what was sent: on a new session everything unacknowledged is sent again. A new
// incarnation begins its sequence anew.
func (q *reports) session(incarnation uint64) {
	if incarnation != q.incarnation {
		q.incarnation, q.seq = incarnation, 0
	}
	for _, p := range q.pending {
		p.seq = 0
	}
}

// peek returns the next message, nil if nothing is to be said now; it is to be sent as a whole, and
// then given to sent. wake is when something already sent is due to be repeated; zero if nothing is.
func (q *reports) peek(now time.Time) (message *model.WorkerReport, wake time.Time) {
	var batch []model.ExecutorReport
	for _, ref := range q.order {
		p := q.pending[ref]
		due := p.sentAt.Add(reportRepeat)
		if p.seq != 0 && due.After(now) {
			if wake.IsZero() || due.Before(wake) {
				wake = due
			}
			continue
		}
		batch = append(batch, p.report)
		if len(batch) == MaxReportsPerMessage {
			break
		}
	}
	if len(batch) == 0 {
		return nil, wake
	}
	return &model.WorkerReport{Incarnation: q.incarnation, Seq: q.seq + 1, Executors: batch}, wake
}

// sent says that message, from the last peek, is on its way.
func (q *reports) sent(message *model.WorkerReport, now time.Time) {
	q.seq = message.Seq
	for _, r := range message.Executors {
		q.pending[r.Ref].seq, q.pending[r.Ref].sentAt = message.Seq, now
	}
}

// ack says that everything up to seq is committed, and returns the executors that need no further
// report for now.
func (q *reports) ack(seq uint64) []model.ExecutorRef {
	var done []model.ExecutorRef
	q.order = slices.DeleteFunc(q.order, func(ref model.ExecutorRef) bool {
		p := q.pending[ref]
		if p.seq == 0 || p.seq > seq {
			return false
		}
		delete(q.pending, ref)
		done = append(done, ref)
		return true
	})
	return done
}

// waiting counts executors with something unacknowledged.
func (q *reports) waiting() int { return len(q.pending) }
