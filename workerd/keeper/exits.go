//go:build linux

package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hearthd/hearth/internal/recordlog"
)

const (
	exitLogName   = "exits.log"
	exitLogHeader = "hearth-keeper-exits 1\n"
)

func exitFormat() recordlog.Format {
	return recordlog.Format{Header: exitLogHeader, Limit: maxExitBytes}
}

// exitStore keeps the exits that the agent has not yet acknowledged with a Forget, in one append-only
// file. An exit is in the file when it is saved, so it survives this process and the agent's; on the
// disk it is some milliseconds later, together with those of the same moment. A power cut in between
// leaves an executor of which the leader says that it was lost with its machine, as it would have been
// had it lived that much longer (ADR 0043). Its methods may be called concurrently.
type exitStore struct {
	path string

	mu   sync.Mutex // guards what follows
	log  *recordlog.Log
	live map[string][]byte // records of exits by key, for a rewrite
}

// exitRecord is one record: an exit, or the key of one that is forgotten.
type exitRecord struct {
	Exit      *Entry `json:"exit,omitempty"`
	Forgotten string `json:"forgotten,omitempty"`
}

func newExitStore(path string) *exitStore {
	return &exitStore{path: path, live: make(map[string][]byte)}
}

// load reads what earlier keepers have saved and opens the file. note says what was wrong with it, ""
// if nothing was.
func (s *exitStore) load() (entries []Entry, note string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]Entry)
	note, err = recordlog.Read(s.path, exitFormat(), func(payload []byte) error {
		r, err := decodeExit(payload)
		if err != nil {
			return err
		}
		if r.Exit == nil {
			delete(found, r.Forgotten)
			return nil
		}
		found[r.Exit.Key] = *r.Exit
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("exits of an earlier keeper: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		e := found[key]
		if s.live[key], err = encodeExit(exitRecord{Exit: &e}); err != nil {
			return nil, "", err
		}
		entries = append(entries, e)
	}
	if s.log, err = recordlog.Create(s.path, exitFormat(), s.records()...); err != nil {
		return nil, "", fmt.Errorf("open file of exits: %w", err)
	}
	return entries, note, nil
}

// records returns those of a file that is as short as can be; mu is held.
func (s *exitStore) records() [][]byte {
	out := make([][]byte, 0, len(s.live))
	for _, key := range slices.Sorted(maps.Keys(s.live)) {
		out = append(out, s.live[key])
	}
	return out
}

// save makes the exit of e outlive this process. It may be repeated.
func (s *exitStore) save(e Entry) error {
	record, err := encodeExit(exitRecord{Exit: &e})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[e.Key] = record
	if err := s.write(record); err != nil {
		return fmt.Errorf("write exit of %s: %w", e.Key, err)
	}
	return nil
}

// forget drops the exit of key; that there is none is no error. If that does not reach the disk, the
// exit comes back with the next keeper and is reported and forgotten once more.
func (s *exitStore) forget(key string) error {
	record, err := encodeExit(exitRecord{Forgotten: key})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.live[key]; !known {
		return nil
	}
	delete(s.live, key)
	if err := s.write(record); err != nil {
		return fmt.Errorf("forget exit of %s: %w", key, err)
	}
	return nil
}

// write appends a record whose effect on live has been made, or rewrites the file if that is due; mu
// is held.
func (s *exitStore) write(record []byte) error {
	if s.log == nil {
		return errors.New("the file of exits is not open")
	}
	_, records, broken := s.log.Size()
	if broken || (records >= compactMinRecords && records >= compactGarbage*len(s.live)) {
		return s.log.Rewrite(s.records()...)
	}
	return s.log.Append(record)
}

// close brings everything to the disk. Idempotent.
func (s *exitStore) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return nil
	}
	err := s.log.Close()
	s.log = nil
	return err
}

func encodeExit(r exitRecord) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode exit: %w", err)
	}
	return b, nil
}

// decodeExit reads one record.
func decodeExit(b []byte) (r exitRecord, err error) {
	if err := decodeStrict(b, &r); err != nil {
		return r, err
	}
	if (r.Exit == nil) == (r.Forgotten == "") {
		return r, errors.New("neither an exit nor a forgotten key, or both")
	}
	if r.Exit == nil {
		return r, checkKey(r.Forgotten)
	}
	if r.Exit.State != StateExited || r.Exit.Exit == nil {
		return r, errors.New("not of an exit")
	}
	return r, checkKey(r.Exit.Key)
}
