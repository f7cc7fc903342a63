//go:build linux

package workerd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/web"
	"github.com/hearthd/hearth/workerd/keeper"
)

const (
	httpHeaderTimeout = 5 * time.Second
	httpIdleTimeout   = time.Minute
	maxHTTPHeader     = 16 << 10
	statusVersion     = 1
)

// Status is what /json answers.
type Status struct {
	Version     int            `json:"version"`
	Worker      model.WorkerID `json:"id"`
	Incarnation uint64         `json:"incarnation"`
	// Process is the worker's own.
	Process keeper.Proc `json:"process"`
	// Cluster is the one whose orders are obeyed, Epoch its recovery epoch; "" before the first.
	Cluster string `json:"cluster_id"`
	Epoch   uint64 `json:"epoch"`
	// ForeignCluster is that of masters which have refused this worker, "" if none has.
	ForeignCluster string `json:"foreign_cluster_id"`
	Term           uint64 `json:"term"`
	Leader         string `json:"leader_grpc_address"` // "" without a session
	Ready          bool   `json:"ready"`
	Stopping       bool   `json:"stopping"`
	Restarting     bool   `json:"restarting"` // a planned restart is under way
	// Heritage is what this start has found.
	Heritage  Heritage         `json:"heritage"`
	Offer     StatusOffer      `json:"offer"`
	Executors []StatusExecutor `json:"executors"`
}

// Heritage counts executors that a worker has taken over from its last start.
type Heritage struct {
	// Adopted ran on; Ended have ended while the worker was away, or with it.
	Adopted int `json:"adopted"`
	Ended   int `json:"ended_while_away"`
}

// StatusOffer is what the worker brings.
type StatusOffer struct {
	Cores     int               `json:"cores"`
	MemoryMiB int64             `json:"memory_mib"`
	Resources model.Resources   `json:"resources,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	GRPCAddr  string            `json:"grpc_address"`
	SerfAddr  string            `json:"serf_address"`
	HTTPAddr  string            `json:"http_address"`
}

// StatusExecutor is one executor whose end the leader has not yet acknowledged.
type StatusExecutor struct {
	ID    string              `json:"id"`
	State model.ExecutorState `json:"state"`
	PID   int                 `json:"pid"`
}

func newStatusOffer(o model.Offer) StatusOffer {
	return StatusOffer{
		Cores: o.Cores, MemoryMiB: o.MemoryMiB, Resources: o.Resources, Labels: o.Labels,
		GRPCAddr: o.GRPCAddr, SerfAddr: o.SerfAddr, HTTPAddr: o.HTTPAddr,
	}
}

// server is the worker's web server: its page, health, status, metrics, and logs as plain text.
type server struct {
	log    hclog.Logger
	agent  *agent
	logs   *logReader
	server *http.Server
}

func newWeb(log hclog.Logger, a *agent, logs *logReader, conf *tls.Config, cfg Config) *server {
	w := &server{log: log, agent: a, logs: logs}
	mux := http.NewServeMux()
	pages := web.NewWorkerPages(func(ctx context.Context) (web.WorkerSelf, error) { return w.self(ctx, cfg.Version) }, conf != nil, log)
	mux.Handle("GET /{$}", pages)
	mux.Handle("GET /static/{name}", pages)
	mux.Handle("GET /metrics", a.metrics.handler())
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { answer(rw, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", w.ready)
	mux.HandleFunc("GET /json", w.status)
	mux.HandleFunc("GET /logs/{app}/{executor}/{stream}", w.readLog)
	handler := tlsconf.Still(hardened(mux), conf)
	if !cfg.HTTPCertOptional {
		handler = tlsconf.Demand(handler, "/healthz", "/readyz")
	}
	w.server = &http.Server{
		Handler: handler, TLSConfig: tlsconf.Optional(conf), ReadHeaderTimeout: httpHeaderTimeout, IdleTimeout: httpIdleTimeout,
		MaxHeaderBytes: maxHTTPHeader,
		ErrorLog:       log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	return w
}

// hardened sets the headers of all answers. Nothing here changes anything: the mux knows GET only.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		web.Harden(rw.Header())
		next.ServeHTTP(rw, r)
	})
}

// self is what the page shows.
func (w *server) self(ctx context.Context, version string) (web.WorkerSelf, error) {
	s, err := w.agent.status(ctx)
	if err != nil {
		return web.WorkerSelf{}, err
	}
	self := web.WorkerSelf{
		ID: string(s.Worker), Hostname: w.agent.offer.Hostname, Version: version, Leader: s.Leader, State: "serving",
		Cores: s.Offer.Cores, MemoryMiB: s.Offer.MemoryMiB,
	}
	switch {
	case s.Stopping:
		self.State = "stopping"
	case s.Restarting:
		self.State = "restarting"
	case s.Leader == "":
		self.State = "no leader"
	}
	for _, e := range s.Executors {
		self.Executors = append(self.Executors, web.WorkerExecutor{Ref: e.ID, State: e.State, PID: e.PID})
	}
	return self, nil
}

// run serves on l until ctx ends.
func (w *server) run(ctx context.Context, l net.Listener) error {
	if w.server.TLSConfig != nil {
		l = tls.NewListener(l, w.server.TLSConfig)
	}
	w.server.BaseContext = func(net.Listener) context.Context { return ctx }
	stopped := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-done:
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		err := w.server.Shutdown(grace)
		if err != nil {
			err = w.server.Close()
		}
		stopped <- err
	}()
	err := w.server.Serve(l)
	close(done)
	stopErr := <-stopped
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, stopErr)
}

func answer(rw http.ResponseWriter, code int, text string) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(code)
	_, _ = fmt.Fprintln(rw, text)
}

func (w *server) ready(rw http.ResponseWriter, r *http.Request) {
	if err := w.agent.ready(r.Context()); err != nil {
		answer(rw, http.StatusServiceUnavailable, err.Error())
		return
	}
	answer(rw, http.StatusOK, "ready")
}

func (w *server) status(rw http.ResponseWriter, r *http.Request) {
	s, err := w.agent.status(r.Context())
	if err != nil {
		answer(rw, http.StatusServiceUnavailable, err.Error())
		return
	}
	s.Version = statusVersion
	rw.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(rw).Encode(s); err != nil {
		w.log.Debug("status not sent", "err", err)
	}
}

// logPath is where the log of an executor is served.
func logPath(ref model.ExecutorRef, stream string) string {
	return "/logs/" + ref.String() + "/" + stream
}

// readLog serves a log; "offset" is as in rpc.LogRequest, "follow=1" goes on until the end.
func (w *server) readLog(rw http.ResponseWriter, r *http.Request) {
	ref, err := model.ParseExecutorRef(r.PathValue("app") + "/" + r.PathValue("executor"))
	if err != nil {
		answer(rw, http.StatusBadRequest, err.Error())
		return
	}
	req := rpc.LogRequest{Ref: ref, Stream: rpc.LogStream(r.PathValue("stream")), Follow: r.FormValue("follow") == "1"}
	if text := r.FormValue("offset"); text != "" {
		if req.Offset, err = strconv.ParseInt(text, 10, 64); err != nil {
			answer(rw, http.StatusBadRequest, fmt.Sprintf("offset %q is not a number", text))
			return
		}
	}
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	flush := http.NewResponseController(rw)
	begun := false
	err = w.logs.read(r.Context(), req, func(c rpc.LogChunk) error {
		begun = true
		if _, err := rw.Write(c.Data); err != nil {
			return err
		}
		return flush.Flush()
	})
	if err == nil || begun {
		return
	}
	switch {
	case errors.Is(err, model.ErrNotFound):
		answer(rw, http.StatusNotFound, err.Error())
	case errors.Is(err, model.ErrInvalid):
		answer(rw, http.StatusBadRequest, err.Error())
	case errors.Is(err, model.ErrUnavailable):
		answer(rw, http.StatusServiceUnavailable, err.Error())
	default:
		answer(rw, http.StatusInternalServerError, err.Error())
	}
}
