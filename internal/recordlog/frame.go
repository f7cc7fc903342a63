package recordlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// FrameBytes come before each payload: its length and its CRC-32C, 4 bytes each,
// big endian.
const FrameBytes = 8

var errChecksum = errors.New("record has a wrong checksum")

// AppendFrame appends a record of payload to b. An empty payload, or one of more
// than limit bytes, is an error.
func AppendFrame(b, payload []byte, limit int) ([]byte, error) {
	if len(payload) == 0 || len(payload) > limit {
		return nil, fmt.Errorf("record of %d bytes, want 1 to %d", len(payload), limit)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // bounded above
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli()))
	return append(b, payload...), nil
}

// Decode returns the payload of the first record in b, which is not empty, and
// how many bytes it takes. The error wraps io.ErrUnexpectedEOF if what is there
// may be the beginning of a record that was never finished: it is cut short, or
// it is the last and its content is wrong, or nothing but zeros follow, which a
// file is filled with whose length reached the disk before its content did.
func Decode(b []byte, limit int) (payload []byte, n int, err error) {
	if allZero(b) {
		return nil, 0, fmt.Errorf("record of zeros: %w", io.ErrUnexpectedEOF)
	}
	if len(b) < FrameBytes {
		return nil, 0, io.ErrUnexpectedEOF
	}
	size := int(binary.BigEndian.Uint32(b))
	if size == 0 || size > limit {
		return nil, 0, fmt.Errorf("record of %d bytes", size)
	}
	if len(b)-FrameBytes < size {
		return nil, 0, io.ErrUnexpectedEOF
	}
	payload, n = b[FrameBytes:FrameBytes+size], FrameBytes+size
	if crc32.Checksum(payload, castagnoli()) == binary.BigEndian.Uint32(b[4:]) {
		return payload, n, nil
	}
	if allZero(b[n:]) {
		return nil, 0, fmt.Errorf("last %w: %w", errChecksum, io.ErrUnexpectedEOF)
	}
	return nil, 0, errChecksum
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
