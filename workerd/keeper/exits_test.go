//go:build linux

package keeper

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/recordlog"
)

// savedExits reads the exits in a keeper's state directory, also while it runs.
func savedExits(t testing.TB, stateDir string) (exits []Entry, note string) {
	t.Helper()
	forgotten := map[string]bool{}
	note, err := recordlog.Read(filepath.Join(stateDir, exitLogName), exitFormat(), func(b []byte) error {
		r, err := decodeExit(b)
		switch {
		case err != nil:
		case r.Exit != nil:
			exits = append(exits, *r.Exit)
		default:
			forgotten[r.Forgotten] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	left := exits[:0]
	for _, e := range exits {
		if !forgotten[e.Key] {
			left = append(left, e)
		}
	}
	return left, note
}

func exitedWith(key string, code int) Entry {
	return Entry{Key: key, State: StateExited, Exit: &Exit{Code: code, Time: time.Unix(1, 0).UTC()}}
}

func loadExits(t *testing.T, path string) (*exitStore, []Entry, string) {
	t.Helper()
	s := newExitStore(path)
	entries, note, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s, entries, note
}

func TestASavedExitIsFoundAfterAKillAndAForgottenOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), exitLogName)
	s, _, _ := loadExits(t, path)
	for _, e := range []Entry{exitedWith("a/0", 3), exitedWith("a/1", 4), exitedWith("a/2", 5)} {
		if err := s.save(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.forget("a/1"); err != nil {
		t.Fatal(err)
	}
	if err := s.forget("never/1"); err != nil {
		t.Fatal(err)
	}
	// Nobody closes the first one: its process was killed.
	_, entries, note := loadExits(t, path)
	diff(t, "entries", entries, []Entry{exitedWith("a/0", 3), exitedWith("a/2", 5)})
	if note != "" {
		t.Errorf("note %q", note)
	}
}

func TestATornRecordOfAnExitCostsOnlyThatExit(t *testing.T) {
	path := filepath.Join(t.TempDir(), exitLogName)
	s, _, _ := loadExits(t, path)
	if err := s.save(exitedWith("a/0", 3)); err != nil {
		t.Fatal(err)
	}
	if err := s.save(exitedWith("a/1", 4)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
	again, entries, note := loadExits(t, path)
	diff(t, "entries", entries, []Entry{exitedWith("a/0", 3)})
	if !strings.Contains(note, "cut short") {
		t.Errorf("note %q", note)
	}
	if err := again.save(exitedWith("a/2", 5)); err != nil {
		t.Fatal(err)
	}
	if _, entries, note = loadExits(t, path); len(entries) != 2 || note != "" {
		t.Errorf("after one more: %v, note %q", entries, note)
	}
}

func TestTheFileOfExitsStaysSmallHoweverManyThereWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), exitLogName)
	s, _, _ := loadExits(t, path)
	if err := s.save(exitedWith("stays/0", 9)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * compactMinRecords {
		key := "a/" + strconv.Itoa(i)
		if err := s.save(exitedWith(key, 0)); err != nil {
			t.Fatal(err)
		}
		if err := s.forget(key); err != nil {
			t.Fatal(err)
		}
	}
	if _, records, _ := s.log.Size(); records > compactMinRecords {
		t.Errorf("%d records for one exit, want at most %d", records, compactMinRecords)
	}
	_, entries, _ := loadExits(t, path)
	diff(t, "entries", entries, []Entry{exitedWith("stays/0", 9)})
}

func TestOnlyWholeRecordsOfExitsAreRead(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"forgotten":"a b"}`, `{"exit":{"key":"a/0","sta`, `{"exit":{"key":"e/0","state":"running","proc":{}}}`,
		`{"exit":{"key":"","state":"exited","proc":{},"exit":{}}}`, `{"exit":{"key":"a/0","state":"exited","proc":{},"exit":{}},"forgotten":"a/0"}`,
		`{"unknown":1}`,
	} {
		if r, err := decodeExit([]byte(text)); err == nil {
			t.Errorf("%s was read as %+v", text, r)
		}
	}
}
