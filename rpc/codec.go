package rpc

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/encoding"
	encproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// rawFrame is a message that is passed on without being understood.
type rawFrame struct {
	data []byte
}

// codec is gRPC's protobuf codec with three additions: it passes rawFrames
// through, wireFrames encode themselves, and a text that is not UTF-8 (a program's error message, say) is
// repaired where the plain codec would fail the whole message.
type codec struct {
	inner encoding.CodecV2
}

func newCodec() codec { return codec{inner: encoding.GetCodecV2(encproto.Name)} }

// Name is that of the protobuf codec: the wire format is the same.
func (c codec) Name() string { return encproto.Name }

// Marshal encodes a message or a rawFrame.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*rawFrame); ok {
		return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
	}
	if f, ok := v.(wireFrame); ok {
		if out, ok := f.marshal(); ok {
			return out, nil
		}
		v = f.generated()
	}
	out, err := c.inner.Marshal(v)
	if err == nil {
		return out, nil
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	m = proto.Clone(m) // its maps and lists may belong to the caller
	repairText(m.ProtoReflect())
	out, rerr := c.inner.Marshal(m)
	if rerr != nil {
		return nil, fmt.Errorf("encode %T: %w", v, errors.Join(err, rerr))
	}
	return out, nil
}

// Unmarshal decodes into a message or a rawFrame.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*rawFrame); ok {
		f.data = data.Materialize()
		return nil
	}
	if f, ok := v.(wireFrame); ok {
		if err := f.unmarshal(data.Materialize()); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		}
		return nil
	}
	if err := c.inner.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// repairText makes every string of m valid UTF-8, map keys included.
func repairText(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			repairMap(fd, v.Map())
		case fd.IsList():
			l := v.List()
			for i := range l.Len() {
				l.Set(i, repairValue(fd, l.Get(i)))
			}
		default:
			m.Set(fd, repairValue(fd, v))
		}
		return true
	})
}

func repairMap(fd protoreflect.FieldDescriptor, mp protoreflect.Map) {
	mp.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		v = repairValue(fd.MapValue(), v)
		if fd.MapKey().Kind() == protoreflect.StringKind {
			if fixed := validText(k.String()); fixed != k.String() {
				mp.Clear(k)
				k = protoreflect.ValueOfString(fixed).MapKey()
			}
		}
		mp.Set(k, v)
		return true
	})
}

func repairValue(fd protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch fd.Kind() { //nolint:exhaustive // only texts and what may hold them
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(validText(v.String()))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		repairText(v.Message())
	}
	return v
}
