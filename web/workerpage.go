package web

import (
	"context"
	"net/http"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// WorkerSelf is what a worker says of itself on its own page. It knows nothing of the rest of the cluster.
type WorkerSelf struct {
	ID, Hostname, Version string
	Leader                string // gRPC address, "" without a session
	State                 string // in words
	Cores                 int
	MemoryMiB             int64
	Executors             []WorkerExecutor
}

// WorkerExecutor is one executor whose end the leader has not acknowledged yet.
type WorkerExecutor struct {
	Ref   string // app/number
	State model.ExecutorState
	PID   int
}

// NewWorkerPages serves a worker's own page and the files that it loads, under "/" and "/static/". The page works without
// JavaScript and loads itself anew every few seconds.
func NewWorkerPages(self func(context.Context) (WorkerSelf, error), secure bool, log hclog.Logger) http.Handler {
	h := &Handler{cfg: Config{Secure: secure, Logger: log}, static: loadStatic()}
	h.pages = loadPages(h.static, secure)
	mux := http.NewServeMux()
	mux.Handle("GET /static/{name}", h.static)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		s, err := self(r.Context())
		if err != nil {
			plain(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		h.render(w, http.StatusOK, "self", frame{Title: s.Hostname, Bare: true, Reload: true, Body: s})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Harden(w.Header())
		mux.ServeHTTP(w, r)
	})
}
