//go:build linux

package workerd

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hearthd/hearth/internal/recordlog"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// journalHeader begins the journal, a file of package recordlog. A payload is the JSON of one
// journalRecord.
const journalHeader = "hearth-worker-journal 1\n"

func journalFormat() recordlog.Format {
	return recordlog.Format{Header: journalHeader, Limit: maxJournalRecord}
}

// recordKind says what a journal record tells.
type recordKind string

// Kinds of records. A later record for the same executor overrides an earlier one.
const (
	// recordLaunch: the executor was taken on, and this is what is needed to adopt it.
	recordLaunch recordKind = "launch"
	// recordTaken: the launch that a planned restart has handed over was taken up.
	recordTaken recordKind = "taken"
	// recordStart: it has a process.
	recordStart recordKind = "start"
	// recordKill: we were ordered to end it.
	recordKill recordKind = "kill"
	// recordEnd: it has ended, and this has to be reported.
	recordEnd recordKind = "end"
	// recordAck: the leader has committed its end.
	recordAck recordKind = "ack"
	// recordAppEnded: the application is over.
	recordAppEnded recordKind = "app-ended"
	// recordAppCleaned: its scratch directory is gone.
	recordAppCleaned recordKind = "app-cleaned"
)

// journalRecord is one record.
type journalRecord struct {
	Kind      recordKind            `json:"kind"`
	Ref       model.ExecutorRef     `json:"ref"`
	App       model.AppID           `json:"app,omitempty"`
	Run       model.AppKind         `json:"run,omitempty"`
	Report    *model.ExecutorReport `json:"report,omitempty"`
	Proc      *keeper.Proc          `json:"proc,omitempty"`
	Reason    string                `json:"reason,omitempty"`
	MemoryMiB int64                 `json:"memory_mib,omitempty"`
	// GraceMS is what a kill gave between SIGTERM and SIGKILL.
	GraceMS int64 `json:"grace_ms,omitempty"`
	// Infra marks a kill of our own because the worker stops.
	Infra bool `json:"infra,omitempty"`
	// Order and Secret, which Order does not show, belong to a launch that the next start is to begin anew.
	Order  *model.LaunchOrder `json:"order,omitempty"`
	Secret string             `json:"secret,omitempty"`
}

// check reports whether the record is one that this build could have written.
func (r *journalRecord) check() error {
	switch r.Kind {
	case recordAppEnded, recordAppCleaned:
		if _, err := r.App.Number(); err != nil {
			return err
		}
		return nil
	case recordLaunch, recordKill, recordAck, recordTaken:
		if r.Order != nil && r.Order.Ref != r.Ref {
			return errors.New("a launch with the order of another executor")
		}
	case recordStart:
		if r.Proc == nil {
			return errors.New("a start without its process")
		}
	case recordEnd:
		if r.Report == nil || !r.Report.State.Terminal() || r.Report.Ref != r.Ref {
			return errors.New("an end without its report")
		}
	default:
		return fmt.Errorf("unknown kind %q", r.Kind)
	}
	if _, err := r.Ref.App.Number(); err != nil {
		return err
	}
	if r.Ref.Executor < 0 {
		return fmt.Errorf("executor id %d", r.Ref.Executor)
	}
	return nil
}

// journal is an append-only file of records. It is used by one goroutine.
//
// A record is in the file when it counts, and so survives whatever ends this process; on the disk it
// is some milliseconds later, and nothing waits for that. A power cut may take the last records, but
// it takes every process along, too, and the next start has a new incarnation, which was on the disk
// before anybody heard of it: the leader calls whatever that does not have lost and never sends its
// launch again, and an order of the old incarnation is refused. So nothing starts twice, and what has
// not been reported by then is what was not known a moment before the cut either. ADR 0043.
type journal struct {
	log *recordlog.Log

	// gathering: appended records wait for flush, encoded in pending.
	gathering bool
	pending   []byte
	gathered  int
}

// openedJournal is what openJournal found.
type openedJournal struct {
	journal *journal
	records []journalRecord
	// note says what was wrong with the file, for the log; "" if nothing was.
	note string
}

// openJournal reads the journal at path and opens it for appending. A record that was cut short at
// the end (the process died while it wrote) is cut off. Damage anywhere else means that what
// follows cannot be trusted: the file is set aside as PATH.damaged, the readable front is kept, and
// note says so.
func openJournal(path string) (openedJournal, error) {
	var out openedJournal
	note, err := recordlog.Read(path, journalFormat(), func(payload []byte) error {
		r, err := decodeRecord(payload)
		if err == nil {
			out.records = append(out.records, r)
		}
		return err
	})
	if err != nil {
		return openedJournal{}, fmt.Errorf("read journal: %w", err)
	}
	out.note = note
	payloads, err := encodeRecords(out.records)
	if err != nil {
		return openedJournal{}, err
	}
	// A fresh file in every case: it begins compact and without a tail.
	log, err := recordlog.Create(path, journalFormat(), payloads...)
	if err != nil {
		return openedJournal{}, fmt.Errorf("open journal: %w", err)
	}
	out.journal = &journal{log: log}
	return out, nil
}

func decodeRecord(payload []byte) (r journalRecord, err error) {
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, fmt.Errorf("record: %w", err)
	}
	if err := r.check(); err != nil {
		return r, fmt.Errorf("record: %w", err)
	}
	return r, nil
}

func encodeRecords(records []journalRecord) ([][]byte, error) {
	payloads := make([][]byte, 0, len(records))
	for _, r := range records {
		payload, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encode journal record: %w", err)
		}
		payloads = append(payloads, payload)
	}
	return payloads, nil
}

// append writes records; they survive this process when it returns nil, or after the next flush if
// records are gathered. After a failure the file holds what it held before, or nothing is appended any
// more until a rewrite.
func (j *journal) append(records ...journalRecord) error {
	if _, _, broken := j.log.Size(); broken {
		return errors.New("append to journal: an earlier write failed half-way")
	}
	payloads, err := encodeRecords(records)
	if err != nil {
		return err
	}
	b := j.pending
	for _, p := range payloads {
		if b, err = recordlog.AppendFrame(b, p, maxJournalRecord); err != nil {
			return fmt.Errorf("append to journal: %w", err)
		}
	}
	j.pending, j.gathered = b, j.gathered+len(records)
	if j.gathering {
		return nil
	}
	return j.flush()
}

// gather begins to hold records back, so that many share one write. Until flush has returned nil
// nothing may happen that relies on one of them.
func (j *journal) gather() { j.gathering = true }

// flush ends what gather began: it writes what was held back, all or nothing.
func (j *journal) flush() error {
	b, records := j.pending, j.gathered
	j.gathering, j.pending, j.gathered = false, j.pending[:0], 0
	if len(b) == 0 {
		return nil
	}
	if err := j.log.AppendFrames(b, records); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// wantsCompaction says whether live records would make a much smaller file.
func (j *journal) wantsCompaction(live int) bool {
	_, records, broken := j.log.Size()
	return broken || (records > compactMinRecords && records > compactGarbage*live)
}

// rewrite replaces the file by one with just these records.
func (j *journal) rewrite(records []journalRecord) error {
	payloads, err := encodeRecords(records)
	if err == nil {
		err = j.log.Rewrite(payloads...)
	}
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	return nil
}

// close is idempotent.
func (j *journal) close() error { return j.log.Close() }
