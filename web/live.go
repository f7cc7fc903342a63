package web

import (
	"fmt"
	"net/http"
	"time"
)

// events is the stream that an open page follows: one "change" whenever it would look different, at most one in liveGap.
// It carries no content: the page asks again for what it shows. A reader that does not keep up is dropped.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	select {
	case h.viewers <- struct{}{}:
		defer func() { <-h.viewers }()
	default:
		w.Header().Set("Retry-After", "30")
		plain(w, http.StatusServiceUnavailable, fmt.Sprintf("%d pages follow this master already", maxViewers))
		return
	}
	wake, stop := h.cfg.Source.Watch()
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := stream{w: w, out: http.NewResponseController(w)}
	if s.send("retry: 2000\n\n") != nil {
		return
	}
	tick := time.NewTicker(liveTick)
	defer tick.Stop()
	told, last := "", time.Now()
	for {
		if snap, err := h.cfg.Board.Snapshot(); err == nil {
			if now := snap.fingerprint(); now != told {
				if s.send(fmt.Sprintf("event: change\ndata: %d\n\n", snap.Cluster.Staleness.AppliedIndex)) != nil {
					return
				}
				told, last = now, time.Now()
			}
		}
		if time.Since(last) >= livePing {
			if s.send(": ping\n\n") != nil {
				return
			}
			last = time.Now()
		}
		if !pause(r, wake, tick.C) {
			return
		}
	}
}

// pause waits for liveGap and then for something to look at; false when the reader is gone.
func pause(r *http.Request, wake <-chan struct{}, tick <-chan time.Time) bool {
	gap := time.NewTimer(liveGap)
	defer gap.Stop()
	select {
	case <-r.Context().Done():
		return false
	case <-gap.C:
	}
	select {
	case <-r.Context().Done():
		return false
	case <-wake:
	case <-tick:
	}
	return true
}

// stream writes events, each within a deadline.
type stream struct {
	w   http.ResponseWriter
	out *http.ResponseController
}

func (s stream) send(text string) error {
	// Without support for deadlines the writes of a test's recorder do not block either.
	_ = s.out.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, err := fmt.Fprint(s.w, text); err != nil {
		return err
	}
	return s.out.Flush()
}
