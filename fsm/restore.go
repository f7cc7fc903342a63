package fsm

import (
	"bufio"
	"bytes"
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

// Restore replaces the state by a snapshot. It builds the new state beside the
// old one, checks counts, checksum, state hash and invariants, and only then
// swaps; on error (ErrSnapshot) nothing has changed.
func (f *FSM) Restore(r io.Reader) error {
	f.batch++
	s, err := readSnapshot(r, f.batch)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	f.cur.Store(s)
	return nil
}

// ReadSnapshot opens a snapshot without an FSM, with the same checks.
func ReadSnapshot(r io.Reader) (*View, error) {
	s, err := readSnapshot(r, 0)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return &View{s: s}, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSnapshot}, args...)...)
}

func readSnapshot(r io.Reader, batch uint64) (*state, error) {
	fr := &frameReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	magic, err := fr.raw(len(snapshotMagic))
	if err != nil {
		return nil, err
	}
	if string(magic) != snapshotMagic {
		return nil, damaged("it does not begin with %q", snapshotMagic)
	}
	var head replogv1.SnapshotHeader
	if err := fr.expect(frameHeader, &head); err != nil {
		return nil, err
	}
	if head.GetFormat() != snapshotFormat {
		return nil, damaged("it has format %d; this version reads format %d", head.GetFormat(), snapshotFormat)
	}
	if head.GetTick() < 0 || head.GetTick() > maxTick || head.GetFeatureLevel() > featureLevel {
		return nil, damaged("header: tick %d, feature level %d (this version knows %d)", head.GetTick(), head.GetFeatureLevel(), featureLevel)
	}
	b := newBuilder(&head, batch)
	trailer, err := b.readRecords(fr)
	if err != nil {
		return nil, err
	}
	if err := fr.checkEnd(); err != nil {
		return nil, err
	}
	s := b.t.commit()
	if h := s.hash.bytes(); !bytes.Equal(h[:], trailer.GetStateHash()) {
		return nil, damaged("its state hash is %x, its records make %x", trailer.GetStateHash(), h)
	}
	if err := s.checkInvariants(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return s, nil
}

// frameReader reads frames and sums up what it has read.
type frameReader struct {
	r   *bufio.Reader
	sum hash.Hash
	buf bytes.Buffer
}

// raw reads n bytes; the result is valid until the next read. Memory grows
// with what arrives, not with what a length claims.
func (f *frameReader) raw(n int) ([]byte, error) {
	f.buf.Reset()
	if _, err := io.CopyN(&f.buf, f.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, damaged("it is cut short")
		}
		return nil, fmt.Errorf("read: %w", err)
	}
	f.sum.Write(f.buf.Bytes())
	return f.buf.Bytes(), nil
}

func (f *frameReader) frame() (frameKind, []byte, error) {
	head, err := f.raw(5)
	if err != nil {
		return 0, nil, err
	}
	kind, size := frameKind(head[0]), binary.BigEndian.Uint32(head[1:])
	if size > maxFrameBytes {
		return 0, nil, damaged("a frame of %d bytes; the limit is %d", size, maxFrameBytes)
	}
	body, err := f.raw(int(size))
	return kind, body, err
}

func (f *frameReader) expect(want frameKind, m proto.Message) error {
	kind, body, err := f.frame()
	if err != nil {
		return err
	}
	if kind != want {
		return damaged("frame of kind %d where %d belongs", kind, want)
	}
	if err := proto.Unmarshal(body, m); err != nil {
		return damaged("frame of kind %d: %w", kind, err)
	}
	return nil
}

// checkEnd compares the checksum, after which nothing may follow.
func (f *frameReader) checkEnd() error {
	want := f.sum.Sum(nil)
	got, err := f.raw(len(want))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return damaged("checksum is %x, its bytes make %x", got, want)
	}
	if _, err := f.r.ReadByte(); !errors.Is(err, io.EOF) {
		return damaged("something follows its end")
	}
	return nil
}

// builder makes a state of the records of a snapshot. Derived books and
// indexes are rebuilt from them.
type builder struct{ t *tx }

func newBuilder(head *replogv1.SnapshotHeader, batch uint64) *builder {
	base := newState()
	settings := SettingsFromProto(head.GetSettings())
	base.meta = meta{
		cluster: ClusterFromProto(head.GetCluster()), settings: &settings,
		featureLevel: head.GetFeatureLevel(), nextApp: head.GetNextApp(), rememberedSince: head.GetRememberedSince(),
		lastDriver: head.GetLastDriver(), driverCursor: model.WorkerID(head.GetDriverCursor()),
	}
	base.tick = head.GetTick()
	base.hash = new(hasher).meta(&base.meta)
	return &builder{t: begin(base, head.GetIndex(), batch)}
}

func (b *builder) readRecords(fr *frameReader) (*replogv1.SnapshotTrailer, error) {
	for n := uint64(0); ; n++ {
		kind, body, err := fr.frame()
		if err != nil {
			return nil, err
		}
		switch kind {
		case frameRecord:
			var rec replogv1.SnapshotRecord
			if err := proto.Unmarshal(body, &rec); err != nil {
				return nil, damaged("record %d: %w", n+1, err)
			}
			if err := b.add(&rec); err != nil {
				return nil, damaged("record %d: %w", n+1, err)
			}
		case frameTrailer:
			var tr replogv1.SnapshotTrailer
			if err := proto.Unmarshal(body, &tr); err != nil {
				return nil, damaged("trailer: %w", err)
			}
			if tr.GetRecords() != n {
				return nil, damaged("it says it has %d records and has %d", tr.GetRecords(), n)
			}
			return &tr, nil
		default:
			return nil, damaged("frame of unknown kind %d", kind)
		}
	}
}

var errTwice = errors.New("appears twice")

func (b *builder) add(rec *replogv1.SnapshotRecord) error {
	t := b.t
	switch k := rec.GetKind().(type) {
	case *replogv1.SnapshotRecord_Master:
		m := MasterFromProto(k.Master)
		if _, ok := t.masters.get([]byte(m.ID)); ok {
			return fmt.Errorf("master %q %w", m.ID, errTwice)
		}
		t.masters.insert([]byte(m.ID), m)
	case *replogv1.SnapshotRecord_Worker:
		w := workerFromProto(k.Worker)
		if _, ok := t.findWorker(w.ID); ok {
			return fmt.Errorf("worker %q %w", w.ID, errTwice)
		}
		t.addWorker(w)
		if w.State.Gone() {
			t.gone.put(goneKey(w), string(w.ID))
		}
	case *replogv1.SnapshotRecord_App:
		return b.addApp(appFromProto(k.App))
	case *replogv1.SnapshotRecord_Executor:
		return b.addExecutor(executorFromProto(k.Executor))
	case *replogv1.SnapshotRecord_Request:
		return b.addRequest(k.Request)
	case *replogv1.SnapshotRecord_Audit:
		t.seq++
		line := auditFromProto(k.Audit)
		t.audit.insert(numKey(t.seq), line)
		if line.Refused() {
			t.refusals.put(numKey(t.seq), struct{}{})
		}
	case *replogv1.SnapshotRecord_Driver:
		return b.addDriver(driverFromProto(k.Driver))
	case *replogv1.SnapshotRecord_Token:
		return b.addToken(k.Token)
	default:
		return errors.New("is of a kind that this version does not know")
	}
	return nil
}

func (b *builder) addApp(a *model.App) error {
	if _, ok := b.t.apps.get(numKey(a.Number)); ok {
		return fmt.Errorf("application %q %w", a.ID, errTwice)
	}
	b.t.addApp(a)
	b.t.hold(a, model.CoresCounted(a))
	if a.State.Terminal() {
		b.t.ended.put(endedKey(a), a.Number)
		if a.CoresGranted == 0 {
			b.t.idle.put(endedKey(a), a.Number)
		}
	}
	return nil
}

func (b *builder) addDriver(d *model.Driver) error {
	if _, ok := b.t.drivers.get(numKey(d.Number)); ok {
		return fmt.Errorf("driver %q %w", d.ID, errTwice)
	}
	b.t.drivers.insert(numKey(d.Number), d)
	if d.RequestID != "" {
		b.t.driverReq.put([]byte(d.RequestID), d.Number)
	}
	if d.State.Queued() {
		b.t.waiting.put(numKey(d.Number), struct{}{})
	}
	if d.State.Terminal() {
		b.t.endedDrivers.put(endedDriverKey(d), d.Number)
	}
	return nil
}

// addAttempt takes the unfinished process of a driver, which comes before it.
func (b *builder) addAttempt(e *model.Executor) error {
	d, ok := b.t.findDriver(model.DriverID(e.App))
	if !ok || e.ID < 1 || e.State.Terminal() {
		return fmt.Errorf("attempt %s: its driver does not come before it, or it has ended", e.Ref())
	}
	if _, twice := b.t.executors.get(attemptKey(d.Number, e.ID)); twice {
		return fmt.Errorf("attempt %s %w", e.Ref(), errTwice)
	}
	b.t.addAttempt(d, e)
	return nil
}

func (b *builder) addExecutor(e *model.Executor) error {
	if model.IsDriver(e.App) {
		return b.addAttempt(e)
	}
	a, ok := b.t.findApp(e.App)
	if !ok || e.ID < 0 {
		return fmt.Errorf("executor %s: its application does not come before it", e.Ref())
	}
	if e.State.Terminal() {
		own, _ := b.t.apps.edit(numKey(a.Number))
		own.Finished = append(own.Finished, e)
		b.t.hash.add(b.t.hasher.finished(e))
		return nil
	}
	key := executorKey(a.Number, e.ID)
	if _, twice := b.t.executors.get(key); twice {
		return fmt.Errorf("executor %s %w", e.Ref(), errTwice)
	}
	b.t.executors.insert(key, e)
	b.t.byWorker.put(byWorkerKey(e.Worker, key), struct{}{})
	charge(b.t.editUsage(e.Worker), e)
	return nil
}

func (b *builder) addToken(p *replogv1.Token) error {
	tok := tokenFromProto(p)
	if len(p.GetHash()) != len(tok.Hash) {
		return fmt.Errorf("token %q: its hash has %d bytes, want %d", p.GetId(), len(p.GetHash()), len(tok.Hash))
	}
	if _, ok := b.t.tokens.get([]byte(tok.ID)); ok {
		return fmt.Errorf("token %q %w", tok.ID, errTwice)
	}
	b.t.tokens.insert([]byte(tok.ID), tok)
	return nil
}

func (b *builder) addRequest(p *replogv1.RememberedRequest) error {
	if err := model.ValidRequestID(p.GetRequestId()); err != nil {
		return err
	}
	if _, ok := b.t.requests.get([]byte(p.GetRequestId())); ok {
		return fmt.Errorf("request %q %w", p.GetRequestId(), errTwice)
	}
	if err := proto.Unmarshal(p.GetResult(), &replogv1.Result{}); err != nil {
		return fmt.Errorf("request %q: result: %w", p.GetRequestId(), err)
	}
	b.t.seq++
	b.t.requests.insert([]byte(p.GetRequestId()), &remembered{id: p.GetRequestId(), index: p.GetIndex(), seq: b.t.seq, result: p.GetResult()})
	b.t.reqOrder.put(numKey(b.t.seq), p.GetRequestId())
	return nil
}
