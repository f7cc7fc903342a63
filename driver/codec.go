package driver

import (
	"bytes"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hearthd/hearth/model"
)

// Codec turns arguments, values and broadcast values into bytes and back. Both
// ends are the same program, so nothing in the bytes has to describe types. Its
// methods are called by many goroutines at once.
//
// Two kinds of types never meet a codec: []byte travels as it is, without being
// copied on either end, and a type whose pointer is an encoding.BinaryMarshaler
// and an encoding.BinaryUnmarshaler does its own encoding.
type Codec interface {
	// Check refuses, when a function is registered, a type whose values would
	// not come back as they were. Its error says what to change.
	Check(t reflect.Type) error
	Marshal(v any) ([]byte, error)
	// Unmarshal decodes into a pointer. It must not keep data.
	Unmarshal(data []byte, into any) error
}

// JSON is the default codec. A small message costs a tenth of what gob needs,
// which describes and compiles its types anew for each; and what it cannot carry
// (channels, functions, interfaces, unexported fields) is refused when the
// function is registered instead of being lost on the way. It has no NaN and no
// infinities: encoding one is an error. See ADR 0024.
func JSON() Codec { return jsonCodec{} }

// Gob is encoding/gob, for what JSON lacks: NaN, complex numbers, map keys that
// are structs, large lists of numbers. Its known traps hold: a pointer to a zero
// value comes back nil, as does an empty list.
func Gob() Codec { return gobCodec{} }

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error)         { return json.Marshal(v) }
func (jsonCodec) Unmarshal(data []byte, into any) error { return json.Unmarshal(data, into) }

func (jsonCodec) Check(t reflect.Type) error {
	c := typeCheck{seen: map[reflect.Type]bool{}, selfMade: []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}, keys: func(k reflect.Type) bool {
		switch k.Kind() { //nolint:exhaustive // the kinds that JSON takes as keys
		case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
			reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return true
		}
		return k.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}, complex: false, interfaces: false}
	return c.check(t, t.String())
}

type gobCodec struct{}

func (gobCodec) Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (gobCodec) Unmarshal(data []byte, into any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(into)
}

func (gobCodec) Check(t reflect.Type) error {
	c := typeCheck{seen: map[reflect.Type]bool{}, selfMade: []reflect.Type{
		reflect.TypeFor[gob.GobEncoder](), reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	}, keys: func(reflect.Type) bool { return true }, complex: true, interfaces: true}
	return c.check(t, t.String())
}

// typeCheck walks a type for what a codec cannot carry.
type typeCheck struct {
	seen       map[reflect.Type]bool
	selfMade   []reflect.Type // interfaces of types that encode themselves
	keys       func(reflect.Type) bool
	complex    bool // it is gob
	interfaces bool
}

func (c *typeCheck) check(t reflect.Type, path string) error {
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	for _, i := range c.selfMade {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return nil
		}
	}
	bad := func(why string) error {
		return fmt.Errorf("%w: %s (%s): %s", model.ErrInvalid, path, t, why)
	}
	switch t.Kind() { //nolint:exhaustive // the others are carried by every codec
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Uintptr:
		return bad("it means something in one process only")
	case reflect.Complex64, reflect.Complex128:
		if !c.complex {
			return bad("JSON has no complex numbers: use the codec driver.Gob or give the type MarshalBinary and UnmarshalBinary")
		}
	case reflect.Interface:
		if !c.interfaces {
			return bad("JSON would not bring the value back with its type: use a definite type, or the codec driver.Gob")
		}
	case reflect.Map:
		if !c.keys(t.Key()) {
			return bad("JSON has no such keys: use the codec driver.Gob, or keys that are strings or integers")
		}
		if err := c.check(t.Key(), path+" key"); err != nil {
			return err
		}
		return c.check(t.Elem(), path+"[]")
	case reflect.Slice, reflect.Array:
		return c.check(t.Elem(), path+"[]")
	case reflect.Pointer:
		return c.check(t.Elem(), path)
	case reflect.Struct:
		return c.fields(t, path)
	}
	return nil
}

func (c *typeCheck) fields(t reflect.Type, path string) error {
	for f := range t.Fields() {
		if f.Tag.Get("json") == "-" && !c.complex {
			continue // left out on purpose
		}
		if !f.IsExported() && !f.Anonymous {
			return fmt.Errorf("%w: %s.%s: the field is not exported and would be lost on the way: export it, or give the type MarshalBinary and UnmarshalBinary",
				model.ErrInvalid, path, f.Name)
		}
		if err := c.check(f.Type, path+"."+f.Name); err != nil {
			return err
		}
	}
	return nil
}

// encoder and decoder are a codec for one type.
type (
	encoder[T any] func(T) ([]byte, error)
	decoder[T any] func([]byte) (T, error)
)

// codecFor chooses how values of T travel.
func codecFor[T any](c Codec) (encoder[T], decoder[T], error) {
	t := reflect.TypeFor[T]()
	if t == reflect.TypeFor[[]byte]() {
		return func(v T) ([]byte, error) { return any(v).([]byte), nil }, //nolint:forcetypeassert // T is []byte
			func(data []byte) (T, error) { return any(data).(T), nil }, nil //nolint:forcetypeassert // T is []byte
	}
	p := reflect.PointerTo(t)
	if t.Kind() != reflect.Interface && p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) && p.Implements(reflect.TypeFor[encoding.BinaryUnmarshaler]()) {
		return encodeSelf[T], decodeSelf[T], nil
	}
	if err := c.Check(t); err != nil {
		return nil, nil, err
	}
	enc := func(v T) ([]byte, error) { return c.Marshal(v) }
	dec := func(data []byte) (v T, err error) {
		err = c.Unmarshal(data, &v)
		return v, err
	}
	return enc, dec, nil
}

func encodeSelf[T any](v T) ([]byte, error) {
	return any(&v).(encoding.BinaryMarshaler).MarshalBinary() //nolint:forcetypeassert // see codecFor
}

func decodeSelf[T any](data []byte) (v T, err error) {
	err = any(&v).(encoding.BinaryUnmarshaler).UnmarshalBinary(data) //nolint:forcetypeassert // see codecFor
	return v, err
}
