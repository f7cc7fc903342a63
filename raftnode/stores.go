package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

const (
	raftFolder = "raft"
	boltFile   = "raft.db"
	walFolder  = "wal"

	folderMode = 0o700
)

// currentTermKey is where the library keeps its term.
const currentTermKey = "CurrentTerm"

// stores are the three stores of one data directory.
type stores struct {
	log       raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	close     func() error
}

// openStores opens or creates the stores below dataDir. It returns one clear
// error when another process has them open, when they were written with
// another log store, when they do not belong together, or when they are
// damaged.
func openStores(cfg Config, log hclog.Logger) (s *stores, err error) {
	dir := filepath.Join(cfg.DataDir, raftFolder)
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, fmt.Errorf("create raft directory: %w", err)
	}
	var closers []func() error
	closeAll := func() error {
		var errs []error
		for _, closer := range slices.Backward(closers) {
			errs = append(errs, closer())
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()

	bolt, err := openBolt(filepath.Join(dir, boltFile))
	if err != nil {
		return nil, err
	}
	closers = append(closers, bolt.Close)
	s = &stores{stable: bolt, close: closeAll}

	walDir := filepath.Join(dir, walFolder)
	if err := checkSameLogStore(cfg.LogStore, bolt, walDir); err != nil {
		return nil, err
	}
	if cfg.LogStore == LogStoreBolt {
		s.log = boltLog{bolt}
	} else {
		w, closeWAL, err := openWAL(walDir, cfg.walSegmentBytes, log)
		if err != nil {
			return nil, err
		}
		closers = append(closers, closeWAL)
		s.log = w
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsRetained, log.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("open raft snapshots in %s: %w", dir, err)
	}
	s.snapshots = snapshots
	return s, checkBelongTogether(dir, s)
}

func openBolt(path string) (store *raftboltdb.BoltStore, err error) {
	err = guard("open raft store "+path, func() error {
		store, err = raftboltdb.New(raftboltdb.Options{
			Path: path, BoltOptions: &bbolt.Options{Timeout: lockTimeout}, MsgpackUseNewTimeFormat: true,
		})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open raft store %s: another process has it open; is a second master running on this data directory? (%w)", path, err)
	}
	return store, err
}

// openWAL opens the raft-wal log. Closing a WAL leaves its meta store open, so
// the closer closes both.
func openWAL(dir string, segmentBytes int, log hclog.Logger) (w *wal.WAL, closer func() error, err error) {
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return nil, nil, fmt.Errorf("create raft log directory: %w", err)
	}
	meta := &walMeta{log: log}
	err = guard("open raft log "+dir, func() error {
		w, err = wal.Open(dir, wal.WithLogger(log.Named("wal")), wal.WithMetaStore(meta), wal.WithSegmentSize(segmentBytes))
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(err, meta.Close())
	}
	return w, func() error { return errors.Join(w.Close(), meta.Close()) }, nil
}

// guard runs an opener of a library that may panic on a damaged file, or read
// beyond the end of one that was cut short and is mapped into memory. What it
// had open by then stays open: the process is about to end.
func guard(what string, open func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: damaged (%v); set the data directory aside and let this master rejoin", what, r)
		}
	}()
	if err := open(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// checkSameLogStore refuses to leave a log behind in the other kind of store.
func checkSameLogStore(kind string, bolt *raftboltdb.BoltStore, walDir string) error {
	inBolt, err := bolt.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft store: %w", err)
	}
	_, err = os.Stat(walDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for a raft log in %s: %w", walDir, err)
	}
	hasWAL := err == nil
	if kind == LogStoreWAL && inBolt > 0 {
		return fmt.Errorf("the raft log of this data directory was written with log store %q, not %q", LogStoreBolt, LogStoreWAL)
	}
	if kind == LogStoreBolt && hasWAL {
		return fmt.Errorf("the raft log of this data directory was written with log store %q, not %q", LogStoreWAL, LogStoreBolt)
	}
	return nil
}

// checkBelongTogether refuses snapshots of a later term than the stable store
// knows (ST-07): the log and term were lost or come from an older copy, and
// the library would count newer snapshots as older.
func checkBelongTogether(dir string, s *stores) error {
	list, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("list raft snapshots in %s: %w", dir, err)
	}
	term, err := s.stable.GetUint64([]byte(currentTermKey))
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return fmt.Errorf("read raft term: %w", err)
	}
	for _, snapshot := range list {
		if snapshot.Term > term {
			return fmt.Errorf("snapshot %s is of term %d, but %s knows only term %d: they do not belong together; set the data directory aside and let this master rejoin",
				filepath.Join(dir, "snapshots", snapshot.ID), snapshot.Term, filepath.Join(dir, boltFile), term)
		}
	}
	return nil
}

// boltLog makes the library drop the whole log when it installs a snapshot. A
// store that takes gaps would keep a conflicting tail beyond the snapshot
// (ST-11); declaring it monotonic costs one large delete in that rare case.
type boltLog struct{ *raftboltdb.BoltStore }

// IsMonotonic implements raft.MonotonicLogStore.
func (boltLog) IsMonotonic() bool { return true }
