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

// fieldValue is the value of one field: number of a varint, bytes of a
// length-delimited one.
type fieldValue struct {
	number uint64
	bytes  []byte
}

// eachField calls fn for each field of a message that is a varint or
// length-delimited; other kinds are skipped. Bytes are parts of data.
func eachField(data []byte, fn func(tag uint64, v fieldValue) error) error {
	for len(data) > 0 {
		num, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("a field's tag: %w", protowire.ParseError(n))
		}
		data = data[n:]
		var v fieldValue
		switch kind { // the rest is skipped
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(data)
			v.bytes = slices.Clip(v.bytes)
		default:
			if n = protowire.ConsumeFieldValue(num, kind, data); n >= 0 {
				data = data[n:]
				continue
			}
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", num, protowire.ParseError(n))
		}
		data = data[n:]
		if err := fn(protowire.EncodeTag(num, kind), v); err != nil {
			return err
		}
	}
	return nil
}

// scan counts the entries of the first field, and reports whether the message
// has no other fields than those named.
func scan(data []byte, list uint64, others ...uint64) (entries int, plain bool, err error) {
	plain = true
	err = eachField(data, func(tag uint64, _ fieldValue) error {
		switch {
		case tag == list:
			entries++
		case !slices.Contains(others, tag):
			plain = false
		}
		return nil
	})
	return entries, plain, err
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
