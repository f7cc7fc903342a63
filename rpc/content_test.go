package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// ReadContent hands out 600,000 bytes to whoever knows the secret.
func (f *fakeServices) ReadContent(_ context.Context, req ContentRequest, send func(ContentChunk) error) error {
	if req.Secret != "s" {
		return fmt.Errorf("executor %s: %w: wrong secret", req.Executor, model.ErrUnauthenticated)
	}
	data := bytes.Repeat([]byte("abc"), 200_000)
	for part := range slices.Chunk(data[req.Offset:], MaxContentChunk) {
		if err := send(ContentChunk{Bytes: int64(len(data)), Data: part}); err != nil {
			return err
		}
	}
	return nil
}

// ContentReleases says that nothing of what is held is needed.
func (f *fakeServices) ContentReleases(_ context.Context, held ContentHeld, send func([]string) error) error {
	return send(held.SHA256)
}

func TestContentIsReadFromAnOffsetToItsEnd(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, ServerConfig{}, Services{Content: &fakeServices{}})
	c := ContentClient(dial(t, srv.Addr().String(), DialConfig{}))
	req := ContentRequest{Executor: model.ExecutorRef{App: "app-20261130061500-0001", Executor: 3}, Secret: "s", SHA256: strings.Repeat("0", 64), Offset: 5}
	var got []byte
	err := c.ReadContent(t.Context(), req, func(c ContentChunk) error {
		if c.Bytes != 600_000 {
			t.Errorf("the whole content has %d bytes, want 600000", c.Bytes)
		}
		got = append(got, c.Data...)
		return nil
	})
	if want := bytes.Repeat([]byte("abc"), 200_000)[5:]; err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes and %v, want %d", len(got), err, len(want))
	}
	req.Secret = "guessed"
	if err := c.ReadContent(t.Context(), req, nil); !errors.Is(err, model.ErrUnauthenticated) {
		t.Errorf("a wrong secret: %v", err)
	}
	for _, bad := range []ContentRequest{{SHA256: "x"}, {SHA256: strings.Repeat("A", 64)}, {SHA256: req.SHA256, Offset: -1}} {
		if err := c.ReadContent(t.Context(), bad, nil); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%+v: %v, want invalid", bad, err)
		}
	}
}

func TestReleasedContentIsToldToWhoHoldsIt(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, ServerConfig{}, Services{Content: &fakeServices{}})
	c := ContentClient(dial(t, srv.Addr().String(), DialConfig{}))
	var got []string
	err := c.ContentReleases(t.Context(), ContentHeld{SHA256: []string{"a", "b"}}, func(d []string) error {
		got = append(got, d...)
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("released %q, %v", got, err)
	}
	if err := c.ContentReleases(t.Context(), ContentHeld{SHA256: make([]string, MaxContentHeld+1)}, nil); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("too many digests: %v", err)
	}
}
