package fsm

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
)

// Snapshot files; docs/formats/snapshot.md says what they look like.
const (
	snapshotMagic  = "HEARTHSN"
	snapshotFormat = 1
	// maxFrameBytes bounds one frame. The biggest record is an application's,
	// and it came through entries of MaxEntryBytes.
	maxFrameBytes = 16 << 20
)

// frameKind says what a frame holds. Append-only.
type frameKind byte

const (
	frameHeader  frameKind = 1
	frameRecord  frameKind = 2
	frameTrailer frameKind = 3
)

// Snapshot is one version of the state, to be written to a file. It is
// immutable and holds no lock, so writing it runs beside Apply.
type Snapshot struct{ s *state }

// Snapshot captures the state at once.
func (f *FSM) Snapshot() *Snapshot { return &Snapshot{s: f.cur.Load()} }

// Snapshot captures what the view shows.
func (v *View) Snapshot() *Snapshot { return &Snapshot{s: v.s} }

// Index is the index of the last entry in the snapshot.
func (sn *Snapshot) Index() uint64 { return sn.s.index }

// WriteTo checks the invariants and the state hash and writes the snapshot. A
// state that fails the check is not written: the error wraps ErrBroken and the
// node must stop.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	if err := sn.s.checkInvariants(); err != nil {
		return 0, fmt.Errorf("write snapshot: %w", err)
	}
	bw := bufio.NewWriterSize(w, 64<<10)
	fw := &frameWriter{w: bw, sum: sha256.New()}
	fw.raw([]byte(snapshotMagic))
	fw.message(frameHeader, headerOf(sn.s))
	fw.records(sn.s)
	h := sn.s.hash.bytes()
	fw.message(frameTrailer, &replogv1.SnapshotTrailer{Records: fw.count, StateHash: h[:]})
	fw.raw(fw.sum.Sum(nil))
	if fw.err == nil {
		fw.err = bw.Flush()
	}
	if fw.err != nil {
		return fw.n - int64(bw.Buffered()), fmt.Errorf("write snapshot at index %d: %w", sn.s.index, fw.err)
	}
	return fw.n, nil
}

func headerOf(s *state) *replogv1.SnapshotHeader {
	return &replogv1.SnapshotHeader{
		Format: snapshotFormat, Index: s.index, Tick: s.tick,
		Cluster: ClusterToProto(s.meta.cluster), Settings: SettingsToProto(*s.meta.settings),
		FeatureLevel: s.meta.featureLevel, NextApp: s.meta.nextApp, RememberedSince: s.meta.rememberedSince,
		LastDriver: s.meta.lastDriver, DriverCursor: string(s.meta.driverCursor),
	}
}

// frameWriter writes frames and keeps the first error.
type frameWriter struct {
	w     io.Writer
	sum   hash.Hash
	n     int64
	count uint64 // records
	buf   []byte
	err   error
}

func (f *frameWriter) raw(b []byte) {
	if f.err != nil {
		return
	}
	n, err := f.w.Write(b)
	f.n += int64(n)
	f.err = err
	f.sum.Write(b)
}

func (f *frameWriter) message(kind frameKind, m proto.Message) {
	if f.err != nil {
		return
	}
	const head = 5
	buf := append(f.buf[:0], byte(kind), 0, 0, 0, 0)
	buf, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(buf, m)
	if err != nil {
		f.err = err
		return
	}
	if len(buf)-head > maxFrameBytes {
		f.err = fmt.Errorf("%w: a record of %d bytes; the limit is %d", model.ErrTooLarge, len(buf)-head, maxFrameBytes)
		return
	}
	binary.BigEndian.PutUint32(buf[1:head], uint32(len(buf)-head))
	f.buf = buf
	f.raw(buf)
}

func (f *frameWriter) record(r *replogv1.SnapshotRecord) bool {
	f.message(frameRecord, r)
	f.count++
	return f.err == nil
}

// records writes every table. Ended executors follow their application; lists
// that have an order are written in it.
func (f *frameWriter) records(s *state) {
	s.masters.walk(nil, func(m *model.Master) bool {
		return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Master{Master: MasterToProto(m)}})
	})
	s.workers.walk(nil, func(w *model.Worker) bool {
		return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Worker{Worker: workerToProto(w)}})
	})
	s.apps.walk(nil, func(a *model.App) bool {
		f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_App{App: appToProto(a)}})
		for _, e := range a.Finished {
			f.executor(e)
		}
		return f.err == nil
	})
	s.drivers.walk(nil, func(d *model.Driver) bool {
		return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Driver{Driver: driverToProto(d)}})
	})
	s.executors.walk(nil, f.executor)
	s.reqOrder.tree.walk(func(_, id string) bool {
		if r, ok := s.requests.get([]byte(id)); ok {
			f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Request{Request: requestToProto(r)}})
		}
		return f.err == nil
	})
	s.audit.walk(nil, func(l *model.AuditLine) bool {
		return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Audit{Audit: auditToProto(l)}})
	})
	s.tokens.walk(nil, func(t *model.Token) bool {
		return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Token{Token: tokenToProto(t)}})
	})
}

func (f *frameWriter) executor(e *model.Executor) bool {
	return f.record(&replogv1.SnapshotRecord{Kind: &replogv1.SnapshotRecord_Executor{Executor: executorToProto(e)}})
}

// ErrSnapshot says that a snapshot cannot be used: it is damaged, cut short,
// or of another format.
var ErrSnapshot = errors.New("unusable snapshot")
