package tlsconf

import (
	"context"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
)

// WatchInterval is how often the files are looked at: three stat calls.
const WatchInterval = 5 * time.Second

// expiryWarnings are the parts of a certificate's life that may be left when a
// warning is due, each once per certificate.
func expiryWarnings() []float64 { return []float64{0.20, 0.10, 0.05, 0} }

// Watch reloads when the files have changed and warns before the own
// certificate ends, until ctx ends; it blocks. Files that are being replaced one
// after the other may not fit together for a moment: then the old material stays
// in use and the files are read again at the next look. An error is logged once.
// For a nil Source it only waits.
func (s *Source) Watch(ctx context.Context, log hclog.Logger) {
	if s == nil {
		<-ctx.Done()
		return
	}
	w := watcher{source: s, log: log, left: math.Inf(1)}
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	for {
		w.look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watcher is what a watch has said already.
type watcher struct {
	source *Source
	log    hclog.Logger
	told   string    // the last error
	until  time.Time // the certificate that was warned of
	left   float64   // the part of its life at the last warning
}

func (w *watcher) look() {
	if stampOf(w.source.files) != w.source.state.Load().stamp {
		w.reload()
	}
	w.warn(w.source.now())
}

func (w *watcher) reload() {
	if err := w.source.Reload(); err != nil {
		if text := err.Error(); text != w.told {
			w.told = text
			w.log.Error("changed TLS files were not taken; the old ones stay in use", "err", err)
		}
		return
	}
	w.told = ""
	_, until := w.source.Validity()
	w.log.Info("TLS files have changed and were reloaded", "certificate", w.source.Identity().String(), "valid_until", stampText(until))
}

// warn says how long the certificate lasts when a threshold was passed.
func (w *watcher) warn(now time.Time) {
	from, until := w.source.Validity()
	if !until.Equal(w.until) {
		w.until, w.left = until, math.Inf(1)
	}
	left := float64(until.Sub(now)) / float64(until.Sub(from))
	passed := math.Inf(1)
	for _, part := range expiryWarnings() {
		if left <= part {
			passed = part
		}
	}
	if passed >= w.left {
		return
	}
	w.left = passed
	if left <= 0 {
		w.log.Error("the certificate of this process has ended: no new connection will be made; renew it now", "certificate", w.source.Identity().String(), "ended", stampText(until))
		return
	}
	w.log.Warn("the certificate of this process ends soon: renew it", "certificate", w.source.Identity().String(), "valid_until", stampText(until), "left", until.Sub(now).Round(time.Second).String())
}
