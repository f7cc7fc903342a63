package masterd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/web"
)

// HTTP limits.
const (
	httpHeaderTimeout = 5 * time.Second
	httpReadTimeout   = 15 * time.Second
	httpIdleTimeout   = time.Minute
	httpMaxHeader     = 16 << 10
	// readyLag is how long a standby may not have heard from the leader and
	// still count as ready.
	readyLag = 5 * time.Second
)

// healthPaths are open to everybody, and static files hold nothing of the
// cluster.
func healthPaths() []string { return []string{"/healthz", "/readyz"} }

// serveHTTP serves pages, JSON, metrics and health until ctx ends; over TLS if
// the master has a certificate.
func (m *Master) serveHTTP(ctx context.Context) error {
	var handler http.Handler = web.New(web.Config{
		Source: pageSource{m}, Board: m.metrics.board, Metrics: m.metrics.handler(), Gate: pageGate{m},
		Secure: m.deps.ServerTLS != nil, Logger: m.log.Named("http"),
	})
	lis := m.httpLis
	handler = tlsconf.Still(handler, m.deps.ServerTLS)
	if m.deps.ServerTLS != nil {
		lis = tls.NewListener(lis, tlsconf.Optional(m.deps.ServerTLS))
		if !m.cfg.HTTPCertOptional {
			handler = tlsconf.Demand(handler, healthPaths()...)
		}
	}
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: httpHeaderTimeout, ReadTimeout: httpReadTimeout, IdleTimeout: httpIdleTimeout,
		MaxHeaderBytes: httpMaxHeader,
		ErrorLog:       m.log.Named("http").StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	stop := context.AfterFunc(ctx, func() {
		if err := srv.Close(); err != nil {
			m.log.Debug("closing http", "err", err)
		}
	})
	defer stop()
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
