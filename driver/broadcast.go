package driver

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/hearthd/hearth/model"
)

// Broadcast is a value that many calls need: it travels to each executor once,
// when the first call there asks for it, whatever the number of calls. Give its
// Ref to calls as an argument or a part of one.
type Broadcast[T any] struct {
	app  *App
	ref  Ref[T]
	once sync.Once
}

// NewBroadcast encodes a value and keeps it, in the driver's memory, until Release.
// The value may have MaxBroadcastBytes encoded.
func NewBroadcast[T any](app *App, value T) (*Broadcast[T], error) {
	enc, _, err := codecFor[T](app.program.codec())
	if err != nil {
		return nil, fmt.Errorf("broadcast: the value cannot travel: %w", err)
	}
	data, err := enc(value)
	if err != nil {
		return nil, fmt.Errorf("broadcast: encode the value: %w", err)
	}
	if len(data) > MaxBroadcastBytes {
		return nil, fmt.Errorf("broadcast: %w: a value of %d bytes, the limit is %d", model.ErrTooLarge, len(data), MaxBroadcastBytes)
	}
	digest, n, err := digestOf(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("broadcast: %w", err)
	}
	if err := app.drv.contents.add(digest, n, bytes.NewReader(data)); err != nil {
		return nil, fmt.Errorf("broadcast: %w", err)
	}
	return &Broadcast[T]{app: app, ref: Ref[T]{SHA256: digest, Bytes: n}}, nil
}

// Ref is what functions get.
func (b *Broadcast[T]) Ref() Ref[T] { return b.ref }

// Release forgets the value here and on all executors. Functions that have it go
// on with it; those that ask for it later fail. Idempotent.
func (b *Broadcast[T]) Release() { b.once.Do(func() { b.app.drv.contents.release(b.ref.SHA256) }) }

// Ref names a broadcast value. It is small and travels in arguments.
type Ref[T any] struct {
	SHA256 string
	Bytes  int64
}

// Get returns the value; ctx must be that of a function. The first call on an
// executor fetches it from the driver, others wait for that one, and all share what
// comes: nobody may change it. It is an error wrapping model.ErrNotFound if the
// value was released.
func (r Ref[T]) Get(ctx context.Context) (T, error) {
	var zero T
	env := Executor(ctx)
	switch {
	case env == nil:
		return zero, fmt.Errorf("broadcast value: %w: only a function on an executor can get it", model.ErrInvalid)
	case r.SHA256 == "":
		return zero, fmt.Errorf("broadcast value: %w: the reference is empty", model.ErrInvalid)
	}
	v, err := env.contents.get(ctx, contentKey{digest: r.SHA256, decoded: typeOf[T]()}, r.Bytes, func(data []byte) (any, error) {
		_, dec, err := codecFor[T](env.codec)
		if err != nil {
			return nil, err
		}
		return dec(data)
	})
	if err != nil {
		return zero, fmt.Errorf("broadcast value sha256:%.12s: %w", r.SHA256, err)
	}
	out, _ := v.(T) // what the decoder for T has made
	return out, nil
}
