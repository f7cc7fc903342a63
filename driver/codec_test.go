package driver

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

type inner struct {
	Name  string
	Sizes []int64
}

type travelling struct {
	When  time.Time
	Table map[string]inner
	Next  *travelling
	Blob  []byte
	Ratio float64
	Left  func() `json:"-"`
}

// packed encodes itself.
type packed struct{ secret byte }

func (p packed) MarshalBinary() ([]byte, error)     { return []byte{p.secret}, nil }
func (p *packed) UnmarshalBinary(data []byte) error { p.secret = data[0]; return nil }

// there sends a value through a codec and back.
func there[T any](t *testing.T, c Codec, v T) T {
	t.Helper()
	enc, dec, err := codecFor[T](c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := enc(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := dec(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatACodecTakesComesBackAsItWas(t *testing.T) {
	v := travelling{
		When: time.Unix(1_700_000_000, 123).UTC(), Table: map[string]inner{"a": {Name: "ä\x00", Sizes: []int64{math.MaxInt64, -1}}},
		Next: &travelling{When: time.Unix(0, 0).UTC(), Ratio: 0.1}, Blob: []byte{0, 255}, Ratio: math.SmallestNonzeroFloat64,
	}
	if diff := cmp.Diff(v, there(t, JSON(), v)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if got := there(t, JSON(), packed{7}); got.secret != 7 {
		t.Errorf("a type that encodes itself: %+v", got)
	}
	if got := there(t, Gob(), map[inner2]complex128{{A: 1}: complex(math.Inf(1), 2)}); got[inner2{A: 1}] != complex(math.Inf(1), 2) {
		t.Errorf("gob: %v", got)
	}
}

type inner2 struct{ A int }

func TestBytesTravelWithoutBeingCopied(t *testing.T) {
	v := []byte("payload")
	enc, dec, err := codecFor[[]byte](JSON())
	if err != nil {
		t.Fatal(err)
	}
	data, err := enc(v)
	if err != nil || &data[0] != &v[0] {
		t.Errorf("encoding has copied: %v", err)
	}
	out, err := dec(data)
	if err != nil || &out[0] != &v[0] {
		t.Errorf("decoding has copied: %v", err)
	}
}

func TestATypeThatWouldBeLostOnTheWayIsRefusedAtRegistration(t *testing.T) {
	type hidden struct {
		Shown int
		lost  int
	}
	_ = hidden{}.lost
	type deep struct{ List []map[string]*hidden }
	for _, c := range []struct {
		codec Codec
		value any
		want  string // "" = it travels
	}{
		{JSON(), deep{}, "driver.deep.List[][].lost: the field is not exported"},
		{JSON(), struct{ F func() }{}, "one process only"},
		{JSON(), make(chan int), "one process only"},
		{JSON(), struct{ V any }{}, "would not bring the value back with its type"},
		{JSON(), map[inner2]int{}, "JSON has no such keys"},
		{JSON(), complex(1, 2), "no complex numbers"},
		{JSON(), map[int]inner{}, ""},
		{JSON(), &travelling{}, ""},
		{Gob(), struct{ V any }{}, ""},
		{Gob(), map[inner2]int{}, ""},
		{Gob(), deep{}, "not exported"},
		{Gob(), make(chan int), "one process only"},
	} {
		err := c.codec.Check(reflect.TypeOf(c.value))
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, model.ErrInvalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%T %T: %v, want %q", c.codec, c.value, err, c.want)
		}
	}
}

func TestAProgramWithMistakesIsRefusedWithAllOfThem(t *testing.T) {
	_, _, err := newProgram(func(p *Program) {
		Register(p, "twice", double)
		Register(p, "twice", double)
		Register(p, "", double)
		Register[int, int](p, "none", nil)
		Register(p, "unfit", func(context.Context, chan int) (int, error) { return 0, nil })
		Register(p, "returns", func(context.Context, int) (any, error) { return 0, nil })
		NewLocal[int](p, nil, nil)
	})
	if !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{
		`function "twice": invalid: the name is taken`, "must have 1 to 256 bytes", `"none": invalid: there is no function`,
		`"unfit": its argument cannot travel`, `"returns": its value cannot travel`, "no function that makes it", "setup must call Program.Run",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
}

// BenchmarkCodecs compares what a small message costs there and back.
func BenchmarkCodecs(b *testing.B) {
	type small struct {
		Seed   uint64
		Number uint64
		Name   string
		Points int
	}
	for name, c := range map[string]Codec{"json": JSON(), "gob": Gob()} {
		b.Run(name, func(b *testing.B) {
			enc, dec, err := codecFor[small](c)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				data, err := enc(small{Seed: 1, Number: 2, Name: "batch", Points: 1_000_000})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := dec(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
