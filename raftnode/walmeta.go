package raftnode

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// walMeta is the meta store of a raft-wal log that completes an interrupted
// change of segments when it is loaded. raft-wal (v0.4.1) writes the index block
// that seals a segment first and notes that in the meta store afterwards; a log
// whose process died in between would refuse every further entry ("segment is
// sealed"). That happens when a segment is full, and when a tail is dropped.
type walMeta struct {
	metadb.BoltMetaDB
	log hclog.Logger
}

// Load implements types.MetaStore. raft-wal calls it once, before it opens any
// segment.
func (m *walMeta) Load(dir string) (types.PersistentState, error) {
	s, err := m.BoltMetaDB.Load(dir)
	if err != nil || len(s.Segments) == 0 {
		return s, err
	}
	last := &s.Segments[len(s.Segments)-1]
	if !last.SealTime.IsZero() {
		return s, nil
	}
	end, indexStart, err := sealedTail(dir, *last)
	if err != nil {
		return s, fmt.Errorf("look at the last segment of the raft log in %s: %w", dir, err)
	}
	if indexStart == 0 {
		return s, nil
	}
	now := time.Now()
	last.SealTime, last.MaxIndex, last.IndexStart = now, end, indexStart
	next := types.SegmentInfo{
		ID: s.NextSegmentID, BaseIndex: end + 1, MinIndex: end + 1,
		SizeLimit: last.SizeLimit, Codec: last.Codec, CreateTime: now,
	}
	s.NextSegmentID++
	s.Segments = append(s.Segments, next)
	if err := m.CommitState(s); err != nil {
		return s, fmt.Errorf("complete the last segment of the raft log in %s: %w", dir, err)
	}
	m.log.Info("completed a change of segments that was interrupted", "dir", dir, "last_index", end)
	return s, nil
}

// sealedTail returns the last index of a tail segment and where its index block
// begins; 0 if it was not sealed. A file that was never made is not sealed.
func sealedTail(dir string, info types.SegmentInfo) (last, indexStart uint64, err error) {
	w, err := segment.NewFiler(dir, walfs.New()).RecoverTail(info)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	_, indexStart, err = w.Sealed()
	return w.LastIndex(), indexStart, errors.Join(err, w.Close())
}
