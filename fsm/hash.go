package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
	"google.golang.org/protobuf/proto"
)

// Hash is a number modulo 2^128. The state hash is the sum of the hashes of
// all records: adding, changing or removing one record costs that record
// alone, and the order of records does not matter.
//
// Covered: cluster identity, settings, feature level, the counters (next
// application number, expiry of requests), masters, workers, applications,
// executors (ended ones too), remembered requests, audit lines. Not covered:
// the index and tick of the last entry, which differ between replicas at any
// one moment, and what is derived (usage, indexes).
type Hash struct{ hi, lo uint64 }

func (h *Hash) add(o Hash) {
	var c uint64
	h.lo, c = bits.Add64(h.lo, o.lo, 0)
	h.hi, _ = bits.Add64(h.hi, o.hi, c)
}

func (h *Hash) sub(o Hash) {
	var b uint64
	h.lo, b = bits.Sub64(h.lo, o.lo, 0)
	h.hi, _ = bits.Sub64(h.hi, o.hi, b)
}

func (h Hash) bytes() (out [16]byte) {
	binary.BigEndian.PutUint64(out[:8], h.hi)
	binary.BigEndian.PutUint64(out[8:], h.lo)
	return out
}

// String renders the hash as 32 hexadecimal digits.
func (h Hash) String() string {
	b := h.bytes()
	return hex.EncodeToString(b[:])
}

// tableTag separates the tables within the hash. Append-only.
type tableTag byte

const (
	tagMeta tableTag = iota + 1
	tagMaster
	tagWorker
	tagApp
	tagSpec
	tagExecutor
	tagFinished
	tagRequest
	tagAudit
)

// sumOf is the first half of SHA-256 over the tag and the record's bytes. The
// records hold their own keys and no maps, so equal records have equal bytes.
func sumOf(tag tableTag, m proto.Message) Hash {
	var scratch [1024]byte
	scratch[0] = byte(tag)
	buf, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(scratch[:1], m)
	if err != nil {
		// Only text that is not UTF-8 cannot be encoded, and all text here
		// came out of a decoded message. A wrong hash is found by the next
		// snapshot; guessing here would hide it.
		buf = append(scratch[:1], err.Error()...)
	}
	d := sha256.Sum256(buf)
	return Hash{hi: binary.BigEndian.Uint64(d[:8]), lo: binary.BigEndian.Uint64(d[8:16])}
}

func hashMaster(m *model.Master) Hash { return sumOf(tagMaster, MasterToProto(m)) }
func hashWorker(w *model.Worker) Hash { return sumOf(tagWorker, workerToProto(w)) }

// hashApp leaves out the specification and the ended executors. Both can be
// big and never change, so they are counted once when they come and when they
// go, not on every write of the application.
func hashApp(a *model.App) Hash { return sumOf(tagApp, appBookToProto(a)) }

func hashSpec(a *model.App) Hash {
	return sumOf(tagSpec, &replogv1.App{Id: string(a.ID), Spec: SpecToProto(a.Spec)})
}
func hashExecutor(e *model.Executor) Hash { return sumOf(tagExecutor, executorToProto(e)) }
func hashFinished(e *model.Executor) Hash { return sumOf(tagFinished, executorToProto(e)) }
func hashRequest(r *remembered) Hash      { return sumOf(tagRequest, requestToProto(r)) }
func hashAudit(l *model.AuditLine) Hash   { return sumOf(tagAudit, auditToProto(l)) }

func hashMeta(m *meta) Hash {
	return sumOf(tagMeta, &replogv1.SnapshotHeader{
		Cluster:         ClusterToProto(m.cluster),
		Settings:        SettingsToProto(m.settings),
		FeatureLevel:    m.featureLevel,
		NextApp:         m.nextApp,
		RememberedSince: m.rememberedSince,
	})
}
