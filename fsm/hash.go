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
// executors (ended ones too), remembered requests, audit lines, tokens, drivers. Not covered:
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
	tagOffer
	tagToken
	tagDriver
)

// hasher hashes records. It keeps its buffer, because one is hashed for each
// record that an entry changes.
type hasher struct {
	buf []byte
	off bool // every hash is zero
}

// sum is the first half of SHA-256 over the tag and the record's bytes. The
// records hold their own keys and no maps, so equal records have equal bytes.
func (h *hasher) sum(tag tableTag, m proto.Message) Hash {
	if h.off {
		return Hash{}
	}
	buf, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(h.buf[:0], byte(tag)), m)
	if err != nil {
		// Only text that is not UTF-8 cannot be encoded, and all text here
		// came out of a decoded message. A wrong hash is found by the next
		// snapshot; guessing here would hide it.
		buf = append(h.buf[:0], err.Error()...)
	}
	return h.digest(buf)
}

// byHand is sum for records that are encoded by hand.
func (h *hasher) byHand(tag tableTag, encode func(*recordBytes)) Hash {
	if h.off {
		return Hash{}
	}
	b := recordBytes(append(h.buf[:0], byte(tag)))
	encode(&b)
	return h.digest(b)
}

func (h *hasher) digest(buf []byte) Hash {
	h.buf = buf
	d := sha256.Sum256(buf)
	return Hash{hi: binary.BigEndian.Uint64(d[:8]), lo: binary.BigEndian.Uint64(d[8:16])}
}

func (h *hasher) master(m *model.Master) Hash { return h.sum(tagMaster, MasterToProto(m)) }

// worker leaves out the offer, which is counted when it comes and when it
// goes: a worker's record changes with each report, its offer hardly ever.
func (h *hasher) worker(w *model.Worker) Hash { return h.sum(tagWorker, workerBookToProto(w)) }

func (h *hasher) offer(w *model.Worker) Hash {
	return h.sum(tagOffer, &replogv1.Worker{Id: string(w.ID), Offer: OfferToProto(w.Offer)})
}

// app leaves out the specification and the ended executors for the same
// reason. Both can be big.
func (h *hasher) app(a *model.App) Hash {
	return h.byHand(tagApp, func(b *recordBytes) { b.app(a) })
}

func (h *hasher) spec(a *model.App) Hash {
	return h.sum(tagSpec, &replogv1.App{Id: string(a.ID), Spec: SpecToProto(a.Spec)})
}

func (h *hasher) executor(e *model.Executor) Hash { return h.process(tagExecutor, e) }

func (h *hasher) finished(e *model.Executor) Hash { return h.process(tagFinished, e) }

func (h *hasher) process(tag tableTag, e *model.Executor) Hash {
	return h.byHand(tag, func(b *recordBytes) { b.executor(e) })
}

func (h *hasher) request(r *remembered) Hash {
	return h.byHand(tagRequest, func(b *recordBytes) { b.request(r) })
}

func (h *hasher) auditLine(l *model.AuditLine) Hash {
	return h.byHand(tagAudit, func(b *recordBytes) { b.auditLine(l) })
}

func (h *hasher) token(t *model.Token) Hash { return h.sum(tagToken, tokenToProto(t)) }

func (h *hasher) driver(d *model.Driver) Hash { return h.sum(tagDriver, driverToProto(d)) }

func (h *hasher) meta(m *meta) Hash {
	return h.sum(tagMeta, &replogv1.SnapshotHeader{
		Cluster:         ClusterToProto(m.cluster),
		Settings:        SettingsToProto(*m.settings),
		FeatureLevel:    m.featureLevel,
		NextApp:         m.nextApp,
		RememberedSince: m.rememberedSince,
		LastDriver:      m.lastDriver,
		DriverCursor:    string(m.driverCursor),
	})
}
