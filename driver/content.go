package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// contentStore is what a driver hands out by digest: its program and broadcast
// values. Safe for concurrent use.
type contentStore struct {
	mu       sync.Mutex
	items    map[string]*content
	watchers map[*releaseWatcher]struct{}
}

// content is one entry of the store.
type content struct {
	bytes int64
	data  io.ReaderAt
	uses  int // the same bytes may be given more than once
}

// releaseWatcher is one executor that hears of releases.
type releaseWatcher struct {
	pending []string      // guarded by the store
	lost    bool          // it was too slow: it asks anew
	wake    chan struct{} // buffered
}

func newContentStore() *contentStore {
	return &contentStore{items: make(map[string]*content), watchers: make(map[*releaseWatcher]struct{})}
}

// add keeps a content until release has been called for it as often as add.
func (s *contentStore) add(digest string, bytes int64, data io.ReaderAt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.items[digest]; c != nil {
		c.uses++
		return nil
	}
	if len(s.items) >= rpc.MaxContentHeld {
		return fmt.Errorf("%w: the driver hands out %d values already: release what is not needed", model.ErrTooLarge, len(s.items))
	}
	s.items[digest] = &content{bytes: bytes, data: data, uses: 1}
	return nil
}

// release gives back one use of a content. With the last one the driver forgets
// it and tells the executors to.
func (s *contentStore) release(digest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.items[digest]
	if c == nil {
		return
	}
	if c.uses--; c.uses > 0 {
		return
	}
	delete(s.items, digest)
	for w := range s.watchers {
		if len(w.pending) >= rpc.MaxContentHeld {
			w.lost = true
		} else {
			w.pending = append(w.pending, digest)
		}
		w.signal()
	}
}

func (w *releaseWatcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (s *contentStore) get(digest string) (*content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.items[digest]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("content sha256:%.12s: %w: the driver does not have it, or not any more", digest, model.ErrNotFound)
}

// watch notes an executor that has these contents.
func (s *contentStore) watch(held []string) *releaseWatcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &releaseWatcher{wake: make(chan struct{}, 1)}
	for _, digest := range held {
		if s.items[digest] == nil {
			w.pending = append(w.pending, digest)
		}
	}
	w.signal()
	s.watchers[w] = struct{}{}
	return w
}

func (s *contentStore) unwatch(w *releaseWatcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// take empties what a watcher is to be told.
func (s *contentStore) take(w *releaseWatcher) (digests []string, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digests, w.pending = w.pending, nil
	return digests, w.lost
}

// digestOf reads a content to its end.
func digestOf(r io.Reader) (digest string, n int64, err error) {
	h := sha256.New()
	n, err = io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

// contentHub serves a driver's contents.
type contentHub struct {
	d     *Driver
	store *contentStore
	slots chan struct{} // reads at once
}

var _ rpc.ContentService = contentHub{}

func newContentHub(d *Driver, store *contentStore) contentHub {
	return contentHub{d: d, store: store, slots: make(chan struct{}, maxContentReads)}
}

// ReadContent implements rpc.ContentService.
func (h contentHub) ReadContent(ctx context.Context, req rpc.ContentRequest, send func(rpc.ContentChunk) error) error {
	if err := h.d.admitContent(ctx, req.Executor, req.Secret); err != nil {
		return err
	}
	c, err := h.store.get(req.SHA256)
	if err != nil {
		return err
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	buf := make([]byte, rpc.MaxContentChunk)
	for at := req.Offset; at < c.bytes; {
		n, err := c.data.ReadAt(buf[:min(int64(len(buf)), c.bytes-at)], at)
		if n == 0 {
			return fmt.Errorf("read content sha256:%.12s at %d of %d: %w: %w", req.SHA256, at, c.bytes, model.ErrUnavailable, err)
		}
		if err := send(rpc.ContentChunk{Bytes: c.bytes, Data: buf[:n]}); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// ContentReleases implements rpc.ContentService.
func (h contentHub) ContentReleases(ctx context.Context, held rpc.ContentHeld, send func([]string) error) error {
	if err := h.d.admitContent(ctx, held.Executor, held.Secret); err != nil {
		return err
	}
	w := h.store.watch(held.SHA256)
	defer h.store.unwatch(w)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
		}
		digests, lost := h.store.take(w)
		if len(digests) > 0 {
			if err := send(digests); err != nil {
				return err
			}
		}
		if lost {
			return fmt.Errorf("%w: too many releases: ask anew", model.ErrUnavailable)
		}
	}
}

// errUnannounced: nothing is known of an executor yet.
var errUnannounced = errors.New("the leader has not announced it")

// admitContent checks who asks. A worker may come before the leader has told of
// the executor that it is to start: it waits, as that executor would.
func (d *Driver) admitContent(ctx context.Context, ref model.ExecutorRef, secret model.Secret) error {
	if ref.App != d.App() {
		return fmt.Errorf("%w: %s asks the driver of %s", model.ErrRefused, ref, d.App())
	}
	since := time.Now()
	tick := time.NewTicker(contentPoll)
	defer tick.Stop()
	for {
		var verdict error
		var awaited time.Duration
		if err := d.call(ctx, func(l *loop) {
			verdict, awaited = l.mayRead(ref.Executor, secret), l.awaited(since, time.Now())
		}); err != nil {
			return fmt.Errorf("%w: %w", model.ErrUnavailable, err)
		}
		switch {
		case !errors.Is(verdict, errUnannounced):
			return verdict
		case awaited >= d.cfg.AnnounceWait:
			return fmt.Errorf("executor %d: %w: %w", ref.Executor, model.ErrNotFound, verdict)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *loop) mayRead(id model.ExecutorID, secret model.Secret) error {
	if l.gone.has(id) {
		return fmt.Errorf("executor %d: %w", id, errEnded)
	}
	m := l.members[id]
	if m == nil {
		return errUnannounced
	}
	if err := prove(m, secret); err != nil {
		l.d.log.Warn("refused content to an executor", "executor", int(id), "err", err)
		return err
	}
	return nil
}
