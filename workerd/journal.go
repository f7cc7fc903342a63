//go:build linux

package workerd

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/internal/atomicfile"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// The journal is a header and then records: length (4 bytes, big endian), CRC-32C of the payload
// (4 bytes, big endian), payload (JSON of one journalRecord).
const (
	journalHeader      = "hearth-worker-journal 1\n"
	journalFrameBytes  = 8
	journalDamagedName = ".damaged"
)

// recordKind says what a journal record tells.
type recordKind string

// Kinds of records. A later record for the same executor overrides an earlier one.
const (
	// recordLaunch: the executor was taken on, and this is what is needed to adopt it.
	recordLaunch recordKind = "launch"
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
}

// check reports whether the record is one that this build could have written.
func (r *journalRecord) check() error {
	switch r.Kind {
	case recordAppEnded, recordAppCleaned:
		if _, err := r.App.Number(); err != nil {
			return err
		}
		return nil
	case recordLaunch, recordKill, recordAck:
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
type journal struct {
	path    string
	f       *os.File
	size    int64 // of the whole records in the file
	records int
	broken  bool // something half-written could not be cut off

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
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return openedJournal{}, fmt.Errorf("read journal: %w", err)
	}
	out := openedJournal{journal: &journal{path: path}}
	if len(b) > 0 {
		records, valid, err := decodeJournal(b)
		out.records = records
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			out.note = fmt.Sprintf("the last record of %s was cut short and is dropped (%d bytes)", path, len(b)-valid)
		case err != nil:
			if err := os.Rename(path, path+journalDamagedName); err != nil {
				return openedJournal{}, fmt.Errorf("set damaged journal aside: %w", err)
			}
			out.note = fmt.Sprintf("%s is damaged at byte %d (%v): set aside as %s, the %d records before are kept",
				path, valid, err, path+journalDamagedName, len(records))
		}
	}
	// A fresh file in every case: it begins compact and without a tail.
	if err := out.journal.rewrite(out.records); err != nil {
		return openedJournal{}, err
	}
	return out, nil
}

// decodeJournal returns the records of b and how many bytes they take with the header. The error
// wraps io.ErrUnexpectedEOF if b merely ends within a record.
func decodeJournal(b []byte) (records []journalRecord, valid int, err error) {
	if len(b) < len(journalHeader) && journalHeader[:len(b)] == string(b) {
		return nil, 0, fmt.Errorf("header: %w", io.ErrUnexpectedEOF)
	}
	if len(b) < len(journalHeader) || string(b[:len(journalHeader)]) != journalHeader {
		return nil, 0, errors.New("not a journal of this version")
	}
	valid = len(journalHeader)
	for valid < len(b) {
		r, n, err := decodeRecord(b[valid:])
		if err != nil {
			return records, valid, err
		}
		records = append(records, r)
		valid += n
	}
	return records, valid, nil
}

func decodeRecord(b []byte) (r journalRecord, n int, err error) {
	if len(b) < journalFrameBytes {
		return r, 0, io.ErrUnexpectedEOF
	}
	size := int(binary.BigEndian.Uint32(b))
	if size == 0 || size > maxJournalRecord {
		return r, 0, fmt.Errorf("record of %d bytes", size)
	}
	if len(b)-journalFrameBytes < size {
		return r, 0, io.ErrUnexpectedEOF
	}
	payload := b[journalFrameBytes : journalFrameBytes+size]
	if crc32.Checksum(payload, castagnoli()) != binary.BigEndian.Uint32(b[4:]) {
		if len(b) == journalFrameBytes+size {
			return r, 0, fmt.Errorf("last record has a wrong checksum: %w", io.ErrUnexpectedEOF)
		}
		return r, 0, errors.New("record has a wrong checksum")
	}
	if err := json.Unmarshal(payload, &r); err != nil {
		return r, 0, fmt.Errorf("record: %w", err)
	}
	if err := r.check(); err != nil {
		return r, 0, fmt.Errorf("record: %w", err)
	}
	return r, journalFrameBytes + size, nil
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func encodeRecord(b []byte, r journalRecord) ([]byte, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode journal record: %w", err)
	}
	if len(payload) > maxJournalRecord {
		return nil, fmt.Errorf("journal record of %d bytes, at most %d", len(payload), maxJournalRecord)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // bounded above
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli()))
	return append(b, payload...), nil
}

// append writes records; they are on disk when it returns nil, or after the next flush if records are
// gathered. After a failure the file holds what it held before, or nothing is appended any more until
// a rewrite.
func (j *journal) append(records ...journalRecord) error {
	if j.broken {
		return errors.New("append to journal: an earlier write failed half-way")
	}
	b := j.pending
	for _, r := range records {
		var err error
		if b, err = encodeRecord(b, r); err != nil {
			return err
		}
	}
	j.pending, j.gathered = b, j.gathered+len(records)
	if j.gathering {
		return nil
	}
	return j.flush()
}

// gather begins to hold records back, so that many share one sync. Until flush has returned nil
// nothing may happen that relies on one of them.
func (j *journal) gather() { j.gathering = true }

// flush ends what gather began: it writes what was held back, all or nothing.
func (j *journal) flush() error {
	b, records := j.pending, j.gathered
	j.gathering, j.pending, j.gathered = false, j.pending[:0], 0
	if len(b) == 0 {
		return nil
	}
	_, err := j.f.Write(b)
	if err == nil {
		err = unix.Fdatasync(int(j.f.Fd())) // with the new size, which is needed to read it back
	}
	if err != nil {
		cut := j.f.Truncate(j.size)
		j.broken = cut != nil
		return fmt.Errorf("append to journal: %w", errors.Join(err, cut))
	}
	j.size += int64(len(b))
	j.records += records
	return nil
}

// wantsCompaction says whether live records would make a much smaller file.
func (j *journal) wantsCompaction(live int) bool {
	return j.broken || (j.records > compactMinRecords && j.records > compactGarbage*live)
}

// rewrite replaces the file by one with just these records.
func (j *journal) rewrite(records []journalRecord) error {
	b := []byte(journalHeader)
	var err error
	for _, r := range records {
		if b, err = encodeRecord(b, r); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(j.path, b, 0o600); err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("rewrite journal: %w", err)
	}
	_ = j.close()
	j.f, j.size, j.records, j.broken = f, int64(len(b)), len(records), false
	return nil
}

// close is idempotent.
func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}
