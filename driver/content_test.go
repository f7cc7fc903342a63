package driver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// reader asks a driver for content as an executor.
type reader struct {
	t *testing.T
	c rpc.ContentService
}

func newReader(t *testing.T, addr string) *reader {
	t.Helper()
	conn, err := rpc.Dial(addr, rpc.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // nothing is under way any more
	return &reader{t: t, c: rpc.ContentClient(conn)}
}

func (r *reader) read(app model.AppID, id model.ExecutorID, secret model.Secret, digest string) ([]byte, error) {
	var out []byte
	err := r.c.ReadContent(r.t.Context(), rpc.ContentRequest{
		Executor: model.ExecutorRef{App: app, Executor: id}, Secret: secret, SHA256: digest,
	}, func(c rpc.ContentChunk) error {
		out = append(out, c.Data...)
		return nil
	})
	return out, err
}

// hold gives a driver something to hand out.
func (r *rig) hold(data []byte) (digest string) {
	r.t.Helper()
	digest, n, err := digestOf(bytes.NewReader(data))
	if err == nil {
		err = r.contents.add(digest, n, bytes.NewReader(data))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return digest
}

func TestContentIsForExecutorsThatProveThemselves(t *testing.T) {
	r := start(t, func(c *Config) { c.AnnounceWait = 300 * time.Millisecond })
	data := bytes.Repeat([]byte("program"), 100_000)
	digest := r.hold(data)
	x := newReader(t, r.address())
	r.cluster.place(0, 1)
	r.event(EventExecutorAdded)
	if got, err := x.read(testApp, 0, secretOf(0), digest); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, c := range map[string]struct {
		app    model.AppID
		id     model.ExecutorID
		secret model.Secret
		digest string
		want   error
	}{
		"a wrong secret":         {testApp, 0, secretOf(1), digest, model.ErrUnauthenticated},
		"no secret":              {testApp, 0, "", digest, model.ErrUnauthenticated},
		"another application":    {"app-20261130061500-0002", 0, secretOf(0), digest, model.ErrRefused},
		"an unknown executor":    {testApp, 7, secretOf(7), digest, model.ErrNotFound},
		"something not there":    {testApp, 0, secretOf(0), strings.Repeat("0", 64), model.ErrNotFound},
		"something not a digest": {testApp, 0, secretOf(0), "../../etc/passwd", model.ErrInvalid},
	} {
		if got, err := x.read(c.app, c.id, c.secret, c.digest); !errors.Is(err, c.want) || len(got) > 0 {
			t.Errorf("%s: %d bytes and %v, want %v", name, len(got), err, c.want)
		}
	}
	r.cluster.lost(0)
	r.event(EventExecutorEnded)
	if _, err := x.read(testApp, 0, secretOf(0), digest); !errors.Is(err, model.ErrEnded) {
		t.Errorf("an executor that has ended: %v", err)
	}
}

// A worker may be quicker than the leader's word to the driver.
func TestContentWaitsForTheAnnouncementOfWhoAsks(t *testing.T) {
	r := start(t, nil)
	digest := r.hold([]byte("program"))
	x := newReader(t, r.address())
	type answer struct {
		data []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		data, err := x.read(testApp, 3, secretOf(3), digest)
		got <- answer{data, err}
	}()
	select {
	case a := <-got:
		t.Fatalf("an answer before the announcement: %q, %v", a.data, a.err)
	case <-time.After(3 * contentPoll):
	}
	r.cluster.place(3, 1)
	select {
	case a := <-got:
		if a.err != nil || string(a.data) != "program" {
			t.Errorf("%q, %v", a.data, a.err)
		}
	case <-time.After(patience):
		t.Fatal("no answer")
	}
}

func TestWhatIsReleasedIsToldToAllWhoListen(t *testing.T) {
	r := start(t, nil)
	digests := []string{r.hold([]byte("a")), r.hold([]byte("b")), r.hold([]byte("c"))}
	if again := r.hold([]byte("c")); again != digests[2] {
		t.Fatal("the same bytes have another digest")
	}
	x := newReader(t, r.address())
	r.cluster.place(0, 1)
	r.event(EventExecutorAdded)
	r.contents.release(digests[0])
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan string, 10)
	ended := make(chan error, 1)
	go func() {
		held := rpc.ContentHeld{Executor: model.ExecutorRef{App: testApp}, Secret: secretOf(0), SHA256: digests}
		ended <- x.c.ContentReleases(ctx, held, func(ds []string) error {
			for _, d := range ds {
				told <- d
			}
			return nil
		})
	}()
	next := func() string {
		select {
		case d := <-told:
			return d
		case <-time.After(patience):
			t.Fatal("nothing is told")
			return ""
		}
	}
	if d := next(); d != digests[0] {
		t.Errorf("at first: %d, want what was released before", slices.Index(digests, d))
	}
	r.contents.release(digests[2]) // it has another use
	r.contents.release(digests[1])
	if d := next(); d != digests[1] {
		t.Errorf("then: %d, want 1", slices.Index(digests, d))
	}
	r.contents.release(digests[2])
	if d := next(); d != digests[2] {
		t.Errorf("at last: %d, want 2", slices.Index(digests, d))
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the stream ended by itself")
	}
	eventually(t, "the watcher is forgotten", func() error {
		r.contents.mu.Lock()
		defer r.contents.mu.Unlock()
		if len(r.contents.watchers) != 0 {
			return errors.New("it is there")
		}
		return nil
	})
}
