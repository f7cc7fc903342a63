package raftnode

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// countedStable counts the writes, of which each is a sync of the disk.
type countedStable struct {
	raft.StableStore
	writes int
}

func (c *countedStable) Set(key, value []byte) error {
	c.writes++
	return c.StableStore.Set(key, value)
}

func (c *countedStable) SetUint64(key []byte, value uint64) error {
	c.writes++
	return c.StableStore.SetUint64(key, value)
}

func TestAVoteIsOneWriteAndOutlivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), boltFile)
	open := func() (*voteStore, *countedStable, func() error) {
		t.Helper()
		bolt, err := openBolt(path)
		if err != nil {
			t.Fatal(err)
		}
		counted := &countedStable{StableStore: bolt}
		return &voteStore{StableStore: counted}, counted, bolt.Close
	}
	expect := func(v *voteStore, term uint64, candidate string) {
		t.Helper()
		gotTerm, err := v.GetUint64([]byte(lastVoteTermKey))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Get([]byte(lastVoteCandKey))
		if err != nil || gotTerm != term || string(got) != candidate {
			t.Errorf("last vote: got %q in term %d, %v; want %q in term %d", got, gotTerm, err, candidate, term)
		}
	}
	v, counted, closeStore := open()
	for _, read := range []func() error{
		func() error { _, err := v.GetUint64([]byte(lastVoteTermKey)); return err },
		func() error { _, err := v.Get([]byte(lastVoteCandKey)); return err },
	} {
		if err := read(); !errors.Is(err, raftboltdb.ErrKeyNotFound) || err.Error() != "not found" {
			t.Errorf("without a vote: got %v, want what the library takes for none", err)
		}
	}
	// A data directory of before.
	for _, write := range []error{
		counted.SetUint64([]byte(lastVoteTermKey), 4), counted.Set([]byte(lastVoteCandKey), []byte("m3@c:1")),
		v.SetUint64([]byte(currentTermKey), 5),
	} {
		if write != nil {
			t.Fatal(write)
		}
	}
	expect(v, 4, "m3@c:1")
	counted.writes = 0
	if err := errors.Join(v.SetUint64([]byte(lastVoteTermKey), 5), v.Set([]byte(lastVoteCandKey), []byte("m2@b:1"))); err != nil {
		t.Fatal(err)
	}
	if counted.writes != 1 {
		t.Errorf("writes of a vote: got %d, want 1", counted.writes)
	}
	expect(v, 5, "m2@b:1")
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
	v, counted, closeStore = open()
	expect(v, 5, "m2@b:1")
	if term, err := v.GetUint64([]byte(currentTermKey)); err != nil || term != 5 {
		t.Errorf("other keys: got %d, %v, want 5", term, err)
	}
	if err := counted.Set([]byte(lastVoteKey), []byte("short")); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get([]byte(lastVoteCandKey)); err == nil || errors.Is(err, raftboltdb.ErrKeyNotFound) {
		t.Errorf("a damaged vote: got %v, want an error that is none of a missing one", err)
	}
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
}
