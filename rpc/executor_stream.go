package rpc

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/hearthd/hearth/model"
)

// The stream between an executor and its driver is plain TLS with frames of our
// own where both ends know that, negotiated by TLS (ALPN), and gRPC elsewhere.
// Messages are the same, byte for byte (ADR 0039, docs/formats).

// executorProtocol is what both ends say in the TLS handshake.
const executorProtocol = "hearth-executor/1"

// A frame is its kind, the length of its body in four bytes, the high one first,
// and its body: a message of executor.proto, or, in the last frame from the
// driver, why the stream ends, a google.rpc.Status.
const (
	frameHeader  = 5
	frameMessage = 0
	frameEnd     = 1
)

// Frames are encoded messages of an executor's stream, in the order in which they
// are to be sent. The zero value is empty. Not safe for concurrent use.
type Frames struct {
	buf  []byte
	open int // the header of the message that is being written, plus 1; 0 = none
}

// Len is the size of all messages in bytes, MessageLen that of the one that is
// being written.
func (f *Frames) Len() int { return len(f.buf) }

// MessageLen is the size of the message that is being written.
func (f *Frames) MessageLen() int { return len(f.buf) - f.open + 1 - frameHeader }

// Reset drops everything, and memory of more than maxKeptFrames.
func (f *Frames) Reset() {
	if cap(f.buf) > maxKeptFrames {
		f.buf = nil
	}
	f.buf, f.open = f.buf[:0], 0
}

// Begin starts a message.
func (f *Frames) Begin() {
	f.open = len(f.buf) + 1
	f.buf = append(f.buf, frameMessage, 0, 0, 0, 0)
}

// Call adds a task that is the call of a function.
func (f *Frames) Call(t *model.ExecTask) { f.buf = appendCall(f.buf, t) }

// Acks adds acknowledgements.
func (f *Frames) Acks(ids []model.TaskID) { f.buf = appendIDs(f.buf, downAck, ids) }

// Result adds the result of a task. Its texts must be UTF-8.
func (f *Frames) Result(r *model.TaskResult) { f.buf = appendResult(f.buf, r) }

// End ends the message that Begin started.
func (f *Frames) End() {
	binary.BigEndian.PutUint32(f.buf[f.open:], uint32(f.MessageLen())) //nolint:gosec // bounded by MaxReplyBytes
	f.open = 0
}

// add appends a whole message.
func (f *Frames) add(kind byte, body []byte) {
	f.buf = append(f.buf, kind, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(f.buf[len(f.buf)-4:], uint32(len(body))) //nolint:gosec // bounded by MaxReplyBytes
	f.buf = append(f.buf, body...)
}

// each calls fn with the body of each message.
func (f *Frames) each(fn func(body []byte) error) error {
	for b := f.buf; len(b) > 0; {
		n := frameHeader + int(binary.BigEndian.Uint32(b[1:]))
		if err := fn(b[frameHeader:n:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Down decodes the messages for an executor, for streams that are neither TLS nor
// gRPC.
func (f *Frames) Down() (out []model.ExecutorDown, err error) {
	err = f.each(func(body []byte) error {
		var m downFrame
		err := m.unmarshal(slices.Clone(body))
		out = append(out, m.msg)
		return err
	})
	return out, err
}

// Up decodes the messages of an executor, as Down.
func (f *Frames) Up() (out []model.ExecutorUp, err error) {
	err = f.each(func(body []byte) error {
		var m upFrame
		err := m.unmarshal(slices.Clone(body))
		out = append(out, m.msg)
		return err
	})
	return out, err
}

// frameReader cuts what comes in into frames. Their memory is not used again once
// it was lent. One goroutine at a time.
type frameReader struct {
	src   io.Reader
	limit int // of a body
	buf   []byte
	r, w  int  // what was read and not taken is buf[r:w]
	lent  bool // parts of buf[:r] are kept by those who took them
}

// next takes a frame that has come in completely; ok is false if none has.
func (fr *frameReader) next() (kind byte, body []byte, ok bool, err error) {
	have := fr.buf[fr.r:fr.w]
	if len(have) < frameHeader {
		return 0, nil, false, nil
	}
	n := int(binary.BigEndian.Uint32(have[1:]))
	switch {
	case n > fr.limit:
		return 0, nil, false, fmt.Errorf("%w: a message of %d bytes, the limit is %d", model.ErrTooLarge, n, fr.limit)
	case len(have) < frameHeader+n:
		return 0, nil, false, nil
	}
	fr.r += frameHeader + n
	return have[0], have[frameHeader : frameHeader+n : frameHeader+n], true, nil
}

// back puts the frame back that was taken last.
func (fr *frameReader) back(body []byte) { fr.r -= frameHeader + len(body) }

// fill blocks until more has come in.
func (fr *frameReader) fill() error {
	have := fr.w - fr.r
	if have == 0 && !fr.lent {
		fr.r, fr.w = 0, 0
	}
	if len(fr.buf)-fr.w < minFrameRead {
		// A length that was announced is believed as it comes: memory at most
		// doubles.
		size := frameChunk
		for size < 2*have {
			size *= 2
		}
		to := fr.buf
		if fr.lent || len(to) < size {
			to = make([]byte, size)
		}
		copy(to, fr.buf[fr.r:fr.w])
		fr.buf, fr.r, fr.w, fr.lent = to, 0, have, false
	}
	n, err := fr.src.Read(fr.buf[fr.w:])
	fr.w += n
	if n > 0 {
		return nil // an error comes again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err //nolint:wrapcheck // by the stream
}
