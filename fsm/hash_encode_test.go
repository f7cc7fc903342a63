package fsm

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
	"google.golang.org/protobuf/proto"
)

// randomize sets a value and all that is in it to something, and each field to zero
// now and then.
func randomize(r *rand.Rand, v reflect.Value) {
	if r.IntN(6) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("ä", r.IntN(90)))
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt((r.Int64N(1<<40) - 1<<39) >> r.IntN(40))
	case reflect.Uint64, reflect.Uint32, reflect.Uint8:
		v.SetUint(uint64(r.Int64N(1<<40)) >> r.IntN(40) & 0xff)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), r.IntN(4), 4)
		for i := range s.Len() {
			randomize(r, s.Index(i))
		}
		v.Set(s)
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range r.IntN(4) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			randomize(r, key)
			randomize(r, value)
			m.SetMapIndex(key, value)
		}
		v.Set(m)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		randomize(r, v.Elem())
	case reflect.Struct:
		randomizeFields(r, v)
	}
}

func randomizeFields(r *rand.Rand, v reflect.Value) {
	for _, field := range v.Fields() {
		if field.CanSet() {
			randomize(r, field)
		}
	}
}

func randomizeRecord(r *rand.Rand, rec any) {
	randomizeFields(r, reflect.ValueOf(rec).Elem())
}

func TestRecordsAreHashedAsProtobufEncodesThem(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	same := func(what string, m proto.Message, encode func(*recordBytes)) {
		t.Helper()
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got recordBytes
		encode(&got)
		if !bytes.Equal(got, want) {
			t.Fatalf("%s\n%v\n is encoded as %x, want %x", what, m, []byte(got), want)
		}
	}
	for range 2000 {
		var e model.Executor
		var a model.App
		var l model.AuditLine
		randomizeRecord(r, &e)
		randomizeRecord(r, &a)
		randomizeRecord(r, &l)
		req := remembered{id: strings.Repeat("r", r.IntN(200)), index: r.Uint64() >> r.IntN(64), result: make([]byte, r.IntN(300))}
		same("an executor", executorToProto(&e), func(b *recordBytes) { b.executor(&e) })
		same("an application", appBookToProto(&a), func(b *recordBytes) { b.app(&a) })
		same("an audit line", auditToProto(&l), func(b *recordBytes) { b.auditLine(&l) })
		same("a request", requestToProto(&req), func(b *recordBytes) { b.request(&req) })
	}
}
