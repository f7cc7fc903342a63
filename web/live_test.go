package web

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// viewer is a browser that follows the pages through a pipe in the bubble.
func viewer(ctx context.Context, t *testing.T, h http.Handler) (events <-chan string) {
	t.Helper()
	out := make(chan string, 1000)
	w := &eventWriter{ResponseRecorder: httptest.NewRecorder(), out: out}
	r := httptest.NewRequest(http.MethodGet, "/events", http.NoBody).WithContext(ctx)
	go h.ServeHTTP(w, r)
	return out
}

type eventWriter struct {
	*httptest.ResponseRecorder
	out chan string
}

func (w *eventWriter) Write(p []byte) (int, error) {
	w.out <- string(p)
	return len(p), nil
}

func drain(events <-chan string) (all string) {
	for {
		select {
		case e := <-events:
			all += e
		default:
			return all
		}
	}
}

func TestAViewerIsToldOfChangesAndNotOfEachOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		ctx, cancel := context.WithCancel(t.Context())
		events := viewer(ctx, t, handlerOf(s))
		time.Sleep(2 * time.Second)
		if got := drain(events); strings.Count(got, "event: change") != 1 || !strings.Contains(got, "retry:") {
			t.Errorf("at first: %q, want one change", got)
		}
		time.Sleep(20 * time.Second)
		if got := drain(events); strings.Contains(got, "change") || !strings.Contains(got, ": ping") {
			t.Errorf("while nothing happens: %q, want a sign of life only", got)
		}
		for range 1000 { // in one second
			s.change(func(*Snapshot) {})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := strings.Count(drain(events), "event: change"); n < 2 || n > 4 {
			t.Errorf("1,000 changes within a second made %d events, want two to four", n)
		}
		// A lost leader is in no entry of the log.
		s.mu.Lock()
		s.snap.Cluster.Staleness.Leader, s.snap.Cluster.Staleness.LeaderlessFor = "", 1
		s.mu.Unlock()
		time.Sleep(2 * time.Second)
		if n := strings.Count(drain(events), "event: change"); n != 1 {
			t.Errorf("a lost leader made %d events within 2 s, want one", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestTheNumberOfViewersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handlerOf(newFake())
		ctx, cancel := context.WithCancel(t.Context())
		for range maxViewers {
			viewer(ctx, t, h)
		}
		synctest.Wait()
		w := ask(h, http.MethodGet, "/events")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("one too many: status %d", w.Code)
		}
		if page := ask(h, http.MethodGet, "/"); page.Code != http.StatusOK {
			t.Errorf("the pages are gone with the stream: status %d", page.Code)
		}
		cancel()
		synctest.Wait()
	})
}

// Ten thousand requests for a view that is expensive cost as many views as fit into a twentieth of a core.
func TestSnapshotsAreSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		takes := 0
		board := NewBoard(func() (Snapshot, error) {
			takes++
			time.Sleep(40 * time.Millisecond) // a large cluster
			return s.Snapshot()
		})
		for range 10_000 {
			if _, err := board.Snapshot(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if takes < 8 || takes > 20 {
			t.Errorf("%d views were made within ten seconds, want about one in 0.8 s", takes)
		}
	})
}

// The place of a viewer that goes away is free again.
func TestThePlaceOfAViewerThatWentAwayIsFreeAgain(t *testing.T) {
	s := newFake()
	h := handlerOf(s)
	srv := httptest.NewServer(h)
	defer srv.Close()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("GET /events HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	if len(h.viewers) != 1 {
		t.Errorf("%d viewers, want one", len(h.viewers))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(h.viewers) > 0 {
		s.change(func(*Snapshot) {})
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the place of a viewer that went away is not free again")
		}
	}
}
