//go:build linux

package workerd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/internal/recordlog"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

const app1 = model.AppID("app-20261130061500-0001")

func ref(n int) model.ExecutorRef {
	return model.ExecutorRef{App: app1, Executor: model.ExecutorID(n)}
}

func sampleRecords() []journalRecord {
	end := model.ExecutorReport{Ref: ref(1), State: model.ExecutorExited, Cause: model.CauseClean, PID: 7}
	return []journalRecord{
		{Kind: recordLaunch, Ref: ref(1), Run: model.AppKindCommand, MemoryMiB: 512},
		{Kind: recordStart, Ref: ref(1), Proc: &keeper.Proc{PID: 7, StartTicks: 8, BootID: "b"}},
		{Kind: recordKill, Ref: ref(1), Reason: "because", Infra: true},
		{Kind: recordEnd, Ref: ref(1), Report: &end},
		{Kind: recordAck, Ref: ref(1)},
		{Kind: recordAppEnded, App: app1},
		{Kind: recordAppCleaned, App: app1},
	}
}

func reopen(t *testing.T, path string) openedJournal {
	t.Helper()
	o, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.journal.close() })
	return o
}

// savedExits counts the exits that a keeper has written down and not been told to forget.
func savedExits(t *testing.T, dataDir string) int {
	t.Helper()
	n := 0
	_, err := recordlog.Read(filepath.Join(dataDir, keeperDir, "exits.log"), recordlog.Format{Header: "hearth-keeper-exits 1\n", Limit: 64 << 10}, func(b []byte) error {
		if bytes.HasPrefix(b, []byte(`{"exit":`)) {
			n++
		} else {
			n--
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAJournalGivesBackWhatWasAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	o := reopen(t, path)
	for _, r := range sampleRecords() {
		if err := o.journal.append(r); err != nil {
			t.Fatal(err)
		}
	}
	again := reopen(t, path)
	if diff := cmp.Diff(sampleRecords(), again.records); diff != "" || again.note != "" {
		t.Errorf("note %q, records (-want +got):\n%s", again.note, diff)
	}
	if err := again.journal.append(sampleRecords()[0]); err != nil {
		t.Fatal(err)
	}
	if got := len(reopen(t, path).records); got != len(sampleRecords())+1 {
		t.Errorf("after a second append: %d records, want %d", got, len(sampleRecords())+1)
	}
}

// Wherever the process dies while it writes, what was complete before survives.
func TestATornTailLosesOnlyTheRecordThatWasCutShort(t *testing.T) {
	whole := encodeAll(t, sampleRecords())
	ends := []int{len(journalHeader)}
	for i := range sampleRecords() {
		ends = append(ends, len(encodeAll(t, sampleRecords()[:i+1])))
	}
	for n := range whole {
		records, valid, err := scanJournal(whole[:n])
		complete := 0
		for i, end := range ends {
			if n >= end {
				complete = i
			}
		}
		if len(records) != complete {
			t.Fatalf("cut at %d: %d records, want %d", n, len(records), complete)
		}
		if atEnd := n == ends[complete]; (err == nil) != atEnd || (err != nil && !errors.Is(err, io.ErrUnexpectedEOF)) {
			t.Fatalf("cut at %d (valid to %d): error %v", n, valid, err)
		}
	}
}

func encodeAll(t *testing.T, records []journalRecord) []byte {
	t.Helper()
	b := []byte(journalHeader)
	for _, r := range records {
		var err error
		if b, err = appendRecord(b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func appendRecord(b []byte, r journalRecord) ([]byte, error) {
	payloads, err := encodeRecords([]journalRecord{r})
	if err != nil {
		return nil, err
	}
	return recordlog.AppendFrame(b, payloads[0], maxJournalRecord)
}

// scanJournal reads a journal from memory.
func scanJournal(b []byte) (records []journalRecord, valid int, err error) {
	valid, err = recordlog.Scan(b, journalFormat(), func(payload []byte) error {
		r, err := decodeRecord(payload)
		if err == nil {
			records = append(records, r)
		}
		return err
	})
	return records, valid, err
}

func TestADamagedJournalIsSetAsideAndItsFrontKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	whole := encodeAll(t, sampleRecords())
	at := len(encodeAll(t, sampleRecords()[:2])) + recordlog.FrameBytes + 3
	damaged := bytes.Clone(whole)
	damaged[at] ^= 0xff
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	o := reopen(t, path)
	if len(o.records) != 2 || !strings.Contains(o.note, "damaged") {
		t.Errorf("%d records, note %q; want 2 and a note", len(o.records), o.note)
	}
	kept, err := os.ReadFile(path + recordlog.DamagedSuffix)
	if err != nil || !bytes.Equal(kept, damaged) {
		t.Errorf("the damaged file was not set aside: %v", err)
	}
	if got := reopen(t, path); len(got.records) != 2 || got.note != "" {
		t.Errorf("afterwards: %d records, note %q; want 2 and none", len(got.records), got.note)
	}
}

func TestAFileThatIsNoJournalIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(path, []byte(strings.Repeat("nonsense ", 10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := reopen(t, path); len(o.records) != 0 || o.note == "" {
		t.Errorf("%d records, note %q", len(o.records), o.note)
	}
}

func FuzzDecodeJournal(f *testing.F) {
	var b []byte
	b = append(b, journalHeader...)
	f.Add(bytes.Clone(b))
	for _, r := range sampleRecords() {
		b, _ = appendRecord(b, r)
	}
	f.Add(bytes.Clone(b))
	f.Add(b[:len(b)-3])
	f.Add([]byte("nonsense"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		records, valid, err := scanJournal(b)
		if valid > len(b) || (err == nil && valid != len(b)) {
			t.Fatalf("valid to %d of %d, error %v", valid, len(b), err)
		}
		again := encodeAll(t, records)
		records2, _, err := scanJournal(again)
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded again: %v", err)
		}
		if diff := cmp.Diff(records, records2); diff != "" {
			t.Fatal(diff)
		}
		// Whatever it says, a table can be rebuilt from it.
		reports := newReports(1)
		tab := newTable(discardLogger(), memoryRecorder(nil), reports)
		tab.restore(records)
		tab.records()
	})
}
