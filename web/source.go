package web

import (
	"context"
	"net/http"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Source is the master behind the pages. Its methods are called from many goroutines and answer from the master's own
// replica without waiting for anything but its memory, ReadLog excepted.
type Source interface {
	// Snapshot describes the cluster at one index of the log.
	Snapshot() (Snapshot, error)
	// App describes one application with its executors; id may be a unique prefix. The error wraps model.ErrNotFound or
	// model.ErrInvalid.
	App(id string) (model.AppView, error)
	// Driver describes one driver in cluster mode with its attempts; id and error are as App's.
	Driver(id string) (model.DriverView, error)
	// Why says why an application or driver waits; id may be a unique prefix. The error is as App's.
	Why(id string) (model.Why, error)
	// Waiting lists what waits, in the order in which it is served.
	Waiting() model.WaitingView
	// OnWorker lists the unfinished executors on a worker.
	OnWorker(id model.WorkerID) []model.ExecutorView
	// ReadLog streams the output of an executor from its worker.
	ReadLog(ctx context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error
	// Unready says why this master is not ready to serve; "" = it is.
	Unready() string
	// Watch returns a channel that is sent to after changes, coalesced, until stop is called.
	Watch() (wake <-chan struct{}, stop func())
}

// Snapshot is all that pages, JSON and metrics show of the replicated state, from one view of it. It never changes once
// made.
type Snapshot struct {
	Cluster model.ClusterView
	// Ended are the ended applications that are kept, the newest first.
	Ended []model.AppView
	// Drivers are the drivers in cluster mode that have not ended, in order of submission; EndedDrivers the ended ones that
	// are kept, the newest first.
	Drivers      []model.DriverView
	EndedDrivers []model.DriverView
	// Executors counts the unfinished executors by state; Causes the kept ended ones by cause.
	Executors map[model.ExecutorState]int
	Causes    map[model.Cause]int
	// Taken is when it was made, by the master's wall clock; ages are shown relative to it.
	Taken time.Time

	// What every page would make anew of it otherwise: sums, all applications
	// and drivers with the active ones newest first, workers with those in trouble first.
	sums          Totals
	newest        []model.AppView
	newestDrivers []model.DriverView
	trouble       []model.WorkerView
}

// Gate decides who may look.
type Gate interface {
	// Admit returns who is asking, for r's certificate or the bearer token (from the Authorization header or the login;
	// "" = none). The error is shown to the caller; one that
	// wraps model.ErrUnauthenticated asks for credentials, any other refuses those that were given.
	Admit(r *http.Request, token string) (who string, err error)
	// Login reports whether a token helps a caller who was not admitted, so that a browser is offered to enter one.
	Login() bool
}
