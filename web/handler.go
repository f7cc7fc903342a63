package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// Config is what the pages of a master need.
type Config struct {
	Source Source
	// Board is of Source.Snapshot; metrics share it.
	Board *Board
	// Metrics answers /metrics.
	Metrics http.Handler
	// Gate decides who may look at anything but health; nil = everybody.
	Gate Gate
	// Secure says that the pages are served over TLS: links to other masters and cookies follow it.
	Secure bool
	Logger hclog.Logger
}

// Handler serves a master's pages, JSON, metrics and health. Make it with New.
type Handler struct {
	cfg     Config
	pages   map[string]*template.Template
	static  staticFiles
	mux     *http.ServeMux
	answers chan struct{} // one per answer being computed
	viewers chan struct{} // one per stream of events
	logs    chan struct{} // one per log being read
}

// New makes the handler. It panics if its own templates are broken, which a test would have found.
func New(cfg Config) *Handler {
	h := &Handler{
		cfg: cfg, static: loadStatic(),
		answers: make(chan struct{}, maxAnswers), viewers: make(chan struct{}, maxViewers), logs: make(chan struct{}, maxLogReads),
	}
	h.pages = loadPages(h.static, cfg.Secure)
	h.mux = http.NewServeMux()
	h.open()
	h.gated()
	return h
}

// open registers what anybody may ask.
func (h *Handler) open() {
	h.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	h.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := h.cfg.Source.Unready(); why != "" {
			plain(w, http.StatusServiceUnavailable, why)
			return
		}
		plain(w, http.StatusOK, "ready")
	})
	h.mux.Handle("GET /static/{name}", h.static)
	h.mux.HandleFunc("GET /login", h.loginForm)
	h.mux.HandleFunc("POST /login", h.login)
}

// gated registers what the gate guards.
func (h *Handler) gated() {
	look := func(pattern string, f func(w http.ResponseWriter, r *http.Request, s *Snapshot) error) {
		h.mux.Handle(pattern, h.admit(h.bounded(func(w http.ResponseWriter, r *http.Request) error {
			s, err := h.cfg.Board.Snapshot()
			if err != nil {
				return err
			}
			return f(w, r, s)
		})))
	}
	look("GET /{$}", h.overview)
	look("GET /workers", h.workers)
	look("GET /workers/{id}", h.worker)
	look("GET /apps", h.apps)
	look("GET /apps/{id}", h.app)
	look("GET /drivers", h.drivers)
	look("GET /drivers/{id}", h.driver)
	look("GET /queue", h.queue)
	look("GET /json", h.sparkJSON)
	look("GET /json/{$}", h.sparkJSON)
	look("GET /json/{field}", h.sparkJSON)
	look("GET /v1/cluster", h.v1Cluster)
	look("GET /v1/masters", h.v1Masters)
	look("GET /v1/workers", h.v1Workers)
	look("GET /v1/workers/{id}", h.v1Worker)
	look("GET /v1/apps", h.v1Apps)
	look("GET /v1/apps/{id}", h.v1App)
	look("GET /v1/drivers", h.v1Drivers)
	look("GET /v1/drivers/{id}", h.v1Driver)
	look("GET /v1/queue", h.v1Queue)
	look("GET /v1/why/{id}", h.v1Why)
	look("GET /v1/alarms", h.v1Alarms)
	h.mux.Handle("GET /v1/schema", h.admit(h.bounded(h.v1Schema)))
	h.mux.Handle("GET /logs/{app}/{executor}/{stream}", h.admit(h.readingLog(h.logPage)))
	h.mux.Handle("GET /logs/{app}/{executor}/{stream}/raw", h.admit(h.readingLog(h.logRaw)))
	h.mux.Handle("GET /events", h.admit(http.HandlerFunc(h.events)))
	if h.cfg.Metrics != nil {
		h.mux.Handle("GET /metrics", h.admit(h.bounded(func(w http.ResponseWriter, r *http.Request) error {
			h.cfg.Metrics.ServeHTTP(w, r)
			return nil
		})))
	}
}

// ServeHTTP implements http.Handler: headers for all answers, and a refusal of all that would change something.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	Harden(w.Header())
	if h.cfg.Secure {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	if why := refuse(r); why != "" {
		plain(w, http.StatusForbidden, why)
		return
	}
	// A slow reader keeps its connection only for so long; the stream of events extends it.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		h.cfg.Logger.Debug("no write deadline", "err", err)
	}
	h.mux.ServeHTTP(w, r)
}

// bounded limits how many answers are computed at a time and turns errors into answers.
func (h *Handler) bounded(f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return h.limited(h.answers, f)
}

func (h *Handler) limited(slots chan struct{}, f func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), maxAnswerWait)
		defer cancel()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			w.Header().Set("Retry-After", "5")
			plain(w, http.StatusServiceUnavailable, fmt.Sprintf("this server is busy: %d requests of this kind are being answered", cap(slots)))
			return
		}
		if err := f(w, r); err != nil {
			h.fail(w, r, err)
		}
	})
}

// fail answers an error: as a page to browsers, as a line to programs.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := statusOf(err)
	if code == http.StatusInternalServerError {
		h.cfg.Logger.Warn("a page was not answered", "path", r.URL.Path, "err", err)
	}
	if !wantsPage(r) {
		plain(w, code, err.Error())
		return
	}
	h.render(w, code, "error", frame{Title: http.StatusText(code), Body: errorBody{Code: code, Text: err.Error()}})
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, model.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, model.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, model.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, model.ErrRefused):
		return http.StatusForbidden
	case errors.Is(err, model.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprintln(w, text) // the client may be gone
}
