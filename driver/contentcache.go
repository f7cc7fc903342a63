package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// contentKey is a content as one type: the same bytes may be the values of two.
type contentKey struct {
	digest  string
	decoded reflect.Type
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// contentCache holds the broadcast values of one executor, decoded. Safe for
// concurrent use.
type contentCache struct {
	ref    model.ExecutorRef
	secret model.Secret
	dial   func() (*rpc.Conn, error)
	log    hclog.Logger

	mu       sync.Mutex
	conn     *rpc.Conn // nil until something is fetched
	values   map[contentKey]*cachedContent
	lifetime context.Context //nolint:containedctx // of the executor: what is fetched outlives the call that asks
	end      context.CancelFunc
	joined   sync.WaitGroup
}

// cachedContent is one value, or the attempt to get it. turn holds a token for the
// one who may fetch.
type cachedContent struct {
	turn  chan struct{}
	value any
	there bool
}

func newContentCache(ref model.ExecutorRef, secret model.Secret, dial func() (*rpc.Conn, error), log hclog.Logger) *contentCache {
	c := &contentCache{ref: ref, secret: secret, dial: dial, log: log, values: make(map[contentKey]*cachedContent)}
	c.lifetime, c.end = context.WithCancel(context.Background())
	return c
}

// close ends everything and forgets the values.
func (c *contentCache) close() error {
	c.end()
	c.joined.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values = nil
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// get returns a value, fetching and decoding it if it is not here.
func (c *contentCache) get(ctx context.Context, key contentKey, size int64, decode func([]byte) (any, error)) (any, error) {
	item, service, err := c.item(key)
	if err != nil {
		return nil, err
	}
	select {
	case item.turn <- struct{}{}:
		defer func() { <-item.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.lifetime.Done():
		return nil, errClosing
	}
	if item.there {
		return item.value, nil
	}
	data, err := c.fetch(ctx, service, key.digest, size)
	if err != nil {
		return nil, err
	}
	v, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	item.value, item.there = v, true
	return v, nil
}

// item finds the entry of a value and connects to the driver.
func (c *contentCache) item(key contentKey) (*cachedContent, rpc.ContentService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lifetime.Err() != nil {
		return nil, nil, errClosing
	}
	if c.conn == nil {
		conn, err := c.dial()
		if err != nil {
			return nil, nil, fmt.Errorf("reach the driver: %w", err)
		}
		c.conn = conn
		c.joined.Go(func() { c.watch(rpc.ContentClient(conn)) })
	}
	item := c.values[key]
	if item == nil {
		item = &cachedContent{turn: make(chan struct{}, 1)}
		c.values[key] = item
	}
	return item, rpc.ContentClient(c.conn), nil
}

// fetch reads a content and checks it. A transfer that breaks goes on where it
// was.
func (c *contentCache) fetch(ctx context.Context, service rpc.ContentService, digest string, size int64) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.lifetime, cancel)() //nolint:contextcheck // the transfer ends with the executor too
	if size < 0 || size > MaxBroadcastBytes {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", model.ErrTooLarge, size, MaxBroadcastBytes)
	}
	data := make([]byte, 0, size)
	for pause := fetchBackoffFirst; ; pause = min(2*pause, fetchBackoffMax) {
		err := service.ReadContent(ctx, rpc.ContentRequest{Executor: c.ref, Secret: c.secret, SHA256: digest, Offset: int64(len(data))}, func(chunk rpc.ContentChunk) error {
			if chunk.Bytes != size || len(data)+len(chunk.Data) > int(size) {
				return fmt.Errorf("%w: the driver sends %d bytes instead of %d", model.ErrInvalid, chunk.Bytes, size)
			}
			data = append(data, chunk.Data...)
			pause = fetchBackoffFirst
			return nil
		})
		switch {
		case err == nil && len(data) == int(size):
			if got, _, err := digestOf(bytes.NewReader(data)); err != nil || got != digest {
				return nil, fmt.Errorf("%w: the driver sent bytes with the digest %s", model.ErrInvalid, got)
			}
			return data, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && !errors.Is(err, model.ErrUnavailable):
			return nil, err
		}
		c.log.Debug("a broadcast value has not come whole", "sha256", digest, "bytes", len(data), "of", size, "err", err)
		if !sleep(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

// watch drops what the driver releases, until the executor ends.
func (c *contentCache) watch(service rpc.ContentService) {
	for pause := fetchBackoffFirst; ; pause = min(2*pause, fetchBackoffMax) {
		held := rpc.ContentHeld{Executor: c.ref, Secret: c.secret, SHA256: c.digests()}
		err := service.ContentReleases(c.lifetime, held, func(digests []string) error {
			pause = fetchBackoffFirst
			c.drop(digests)
			return nil
		})
		if c.lifetime.Err() != nil {
			return
		}
		c.log.Debug("releases of broadcast values are not heard", "err", err)
		if !sleep(c.lifetime, pause) {
			return
		}
	}
}

func (c *contentCache) digests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, 0, len(c.values))
	for key := range c.values {
		if len(out) < rpc.MaxContentHeld {
			out = append(out, key.digest)
		}
	}
	return out
}

func (c *contentCache) drop(digests []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, digest := range digests {
		for key := range c.values {
			if key.digest == digest {
				delete(c.values, key)
			}
		}
	}
}

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
