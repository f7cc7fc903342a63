package masterd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// HTTP limits; the endpoint serves health checks and one JSON view.
const (
	httpHeaderTimeout = 5 * time.Second
	httpMaxHeader     = 16 << 10
	// readyLag is how long a standby may not have heard from the leader and
	// still count as ready.
	readyLag = 5 * time.Second
)

// serveHTTP serves /healthz, /readyz and /json until ctx ends; over TLS, with
// client certificates, if the master has them.
func (m *Master) serveHTTP(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok") // the client may be gone
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := m.unready(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready") // the client may be gone
	})
	mux.HandleFunc("GET /json", func(w http.ResponseWriter, r *http.Request) {
		view, err := clusterService{m}.Status(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		if err := enc.Encode(view); err != nil {
			m.log.Debug("writing /json", "err", err)
		}
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: httpHeaderTimeout, MaxHeaderBytes: httpMaxHeader}
	stop := context.AfterFunc(ctx, func() {
		if err := srv.Close(); err != nil {
			m.log.Debug("closing http", "err", err)
		}
	})
	defer stop()
	lis := m.httpLis
	if m.deps.ServerTLS != nil {
		lis = tls.NewListener(lis, m.deps.ServerTLS)
	}
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	return nil
}

// unready says why this master is not ready: ready means voter, caught up, and
// knowing the leader (HA-19).
func (m *Master) unready() string {
	if stall, ok := m.node.Stall(); ok {
		return stallText(stall)
	}
	id, _ := m.node.Leader()
	if id == "" {
		return "no leader is known"
	}
	servers, _, err := m.node.Servers()
	if err != nil {
		return err.Error()
	}
	voter := false
	for _, s := range servers {
		voter = voter || (s.ID == m.id.ID() && s.Voter)
	}
	switch {
	case !voter:
		return "this master is not a voter yet"
	case id == m.id.ID() && m.leading.Load() == nil:
		return "this master was elected and is preparing to lead"
	case id != m.id.ID() && time.Since(m.node.LastContact()) > readyLag:
		return fmt.Sprintf("the leader has not been heard for %s", time.Since(m.node.LastContact()).Round(time.Millisecond))
	}
	return ""
}
