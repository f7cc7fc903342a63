package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// The library's keys for the vote this master gave last, and ours for both in
// one.
const (
	lastVoteTermKey = "LastVoteTerm"
	lastVoteCandKey = "LastVoteCand"
	lastVoteKey     = "HearthLastVote" // term, 8 bytes big-endian · candidate
)

// voteStore writes a vote at once. The library writes its term first and the
// candidate second, each a sync of the disk, on the way of every election at
// the candidate and at each voter; and a crash in between would leave the new
// term with the candidate of an older one.
//
// It is used by the library's main thread, which always writes both, in that
// order, and reads them at other times only.
type voteStore struct {
	raft.StableStore
	term uint64 // of the vote whose candidate comes next
}

// SetUint64 implements raft.StableStore.
func (v *voteStore) SetUint64(key []byte, value uint64) error {
	if string(key) == lastVoteTermKey {
		v.term = value
		return nil
	}
	return v.StableStore.SetUint64(key, value)
}

// Set implements raft.StableStore.
func (v *voteStore) Set(key, value []byte) error {
	if string(key) == lastVoteCandKey {
		return v.StableStore.Set([]byte(lastVoteKey), append(binary.BigEndian.AppendUint64(nil, v.term), value...))
	}
	return v.StableStore.Set(key, value)
}

// GetUint64 implements raft.StableStore.
func (v *voteStore) GetUint64(key []byte) (uint64, error) {
	if string(key) == lastVoteTermKey {
		term, _, err := v.last()
		return term, err
	}
	return v.StableStore.GetUint64(key)
}

// Get implements raft.StableStore.
func (v *voteStore) Get(key []byte) ([]byte, error) {
	if string(key) == lastVoteCandKey {
		_, candidate, err := v.last()
		return candidate, err
	}
	return v.StableStore.Get(key)
}

// last returns the last vote, also one that the library has written itself
// before there was a voteStore. Without one the error is the library's own.
func (v *voteStore) last() (term uint64, candidate []byte, err error) {
	both, err := v.StableStore.Get([]byte(lastVoteKey))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		if term, err = v.StableStore.GetUint64([]byte(lastVoteTermKey)); err != nil {
			return 0, nil, err
		}
		candidate, err = v.StableStore.Get([]byte(lastVoteCandKey))
		return term, candidate, err
	}
	if err != nil {
		return 0, nil, err
	}
	if len(both) < 8 {
		return 0, nil, fmt.Errorf("the last vote has %d bytes: damaged; set the data directory aside and let this master rejoin", len(both))
	}
	return binary.BigEndian.Uint64(both), both[8:], nil
}
