package rpc

import (
	"fmt"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hearthd/hearth/model"
)

// Kinds of fields, the low bits of a tag.
const (
	kindNumber = uint64(protowire.VarintType)
	kindText   = uint64(protowire.BytesType)
)

// fieldValue is one field: its tag, and the number of a varint or the bytes of a
// length-delimited one.
type fieldValue struct {
	tag    uint64
	number uint64
	bytes  []byte
}

// consume takes the first field off a message, which is not empty, and returns
// the rest. Of kinds other than varints and bytes only the extent is looked at.
// Bytes are parts of data.
func (v *fieldValue) consume(data []byte) (rest []byte, err error) {
	v.tag, rest = uint64(data[0]), data[1:]
	if v.tag >= 0x80 || v.tag < 8 { // longer than one byte, or no field
		num, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, fmt.Errorf("a field's tag: %w", protowire.ParseError(n))
		}
		v.tag, rest = protowire.EncodeTag(num, kind), data[n:]
	}
	var n int
	switch v.tag & 7 {
	case kindNumber:
		if len(rest) > 0 && rest[0] < 0x80 {
			v.number = uint64(rest[0])
			return rest[1:], nil
		}
		v.number, n = protowire.ConsumeVarint(rest)
	case kindText:
		if len(rest) > 0 && int(rest[0]) < min(0x80, len(rest)) {
			n = 1 + int(rest[0])
			v.bytes = rest[1:n:n]
			return rest[n:], nil
		}
		v.bytes, n = protowire.ConsumeBytes(rest)
		v.bytes = slices.Clip(v.bytes)
	default:
		num, kind := protowire.DecodeTag(v.tag)
		n = protowire.ConsumeFieldValue(num, kind, rest)
	}
	if n < 0 {
		return nil, fmt.Errorf("field %d: %w", v.tag>>3, protowire.ParseError(n))
	}
	return rest[n:], nil
}

// appendIDs adds the numbers of a repeated field, packed or not.
func (v fieldValue) appendIDs(to []model.TaskID) ([]model.TaskID, error) {
	if v.bytes == nil {
		return append(to, model.TaskID(v.number)), nil
	}
	for b := v.bytes; len(b) > 0; {
		id, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return to, fmt.Errorf("a list of numbers: %w", protowire.ParseError(n))
		}
		to = append(to, model.TaskID(id))
		b = b[n:]
	}
	return to, nil
}

func sizeVarint(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

func sizeNumber(tag uint64, v uint64) int {
	if v == 0 {
		return 0
	}
	return sizeVarint(tag) + sizeVarint(v)
}

func appendNumber(b []byte, tag uint64, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendVarint(b, tag), v)
}

func sizeText(tag uint64, n int) int {
	if n == 0 {
		return 0
	}
	return sizeVarint(tag) + protowire.SizeBytes(n)
}

func appendText[T string | []byte](b []byte, tag uint64, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendVarint(b, tag)
	b = protowire.AppendVarint(b, uint64(len(v)))
	return append(b, v...)
}

func sizeIDs(tag uint64, ids []model.TaskID) int {
	if len(ids) == 0 {
		return 0
	}
	return sizeVarint(tag) + protowire.SizeBytes(packedSize(ids))
}

func packedSize(ids []model.TaskID) int {
	n := 0
	for _, id := range ids {
		n += sizeVarint(uint64(id))
	}
	return n
}

func appendIDs(b []byte, tag uint64, ids []model.TaskID) []byte {
	if len(ids) == 0 {
		return b
	}
	b = protowire.AppendVarint(b, tag)
	b = protowire.AppendVarint(b, uint64(packedSize(ids))) //nolint:gosec // a size
	for _, id := range ids {
		b = protowire.AppendVarint(b, uint64(id))
	}
	return b
}
