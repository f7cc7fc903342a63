//go:build linux

package keeper

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A frame is a length (4 bytes, big endian) and that many bytes of JSON: one object, no unknown
// members, nothing behind it.

const frameHeaderBytes = 4

var errFrameSize = fmt.Errorf("frame is empty or larger than %d bytes", MaxFrameBytes)

// readFrame returns the payload of the next frame. It allocates little more than has arrived, so
// a large announced length costs nothing by itself. At the end of the stream it returns io.EOF.
func readFrame(r io.Reader) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(header[:])
	if size == 0 || size > MaxFrameBytes {
		return nil, errFrameSize
	}
	if size <= smallFrameBytes {
		payload := make([]byte, size)
		_, err := io.ReadFull(r, payload)
		return payload, unexpected(err)
	}
	var payload bytes.Buffer
	_, err := io.CopyN(&payload, r, int64(size))
	return payload.Bytes(), unexpected(err)
}

// unexpected is err, where the stream must not end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decodeStrict fills into from one JSON object.
func decodeStrict(payload []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("decode frame: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("decode frame: data after the object")
	}
	return nil
}

func readRequest(r io.Reader) (*request, error) {
	payload, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	var req request
	if err := decodeStrict(payload, &req); err != nil {
		return nil, err
	}
	return &req, req.check()
}

func readReply(r io.Reader) (*reply, error) {
	payload, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	var rep reply
	if err := decodeStrict(payload, &rep); err != nil {
		return nil, err
	}
	return &rep, nil
}

// encodeFrame returns header and payload in one slice, so that one write sends a whole frame.
func encodeFrame(message any) ([]byte, error) {
	payload, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	if len(payload) > MaxFrameBytes {
		return nil, errFrameSize
	}
	frame := make([]byte, frameHeaderBytes, frameHeaderBytes+len(payload))
	binary.BigEndian.PutUint32(frame, uint32(len(payload))) //nolint:gosec // bounded above
	return append(frame, payload...), nil
}
