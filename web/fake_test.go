package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// fakeSource is a master whose state a test has made up.
type fakeSource struct {
	waiting  []model.Why
	onWorker []model.ExecutorView // instead of the first application's
	mu       sync.Mutex
	snap     Snapshot
	err      error
	log      string
	ready    string
	wake     chan struct{}
	takes    int
}

func newFake() *fakeSource {
	s := &fakeSource{wake: make(chan struct{}, 1), log: "line one\nline two\n"}
	taken := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return model.RFC3339(taken.Add(-ago).UnixMilli()) }
	s.snap = Snapshot{
		Taken: taken,
		Cluster: model.ClusterView{
			Version: model.ViewVersion, Cluster: "cluster-0123456789abcdef", Epoch: 3, StateHash: "00112233445566778899aabbccddeeff", EndedApps: 1,
			Staleness: model.Staleness{Master: "master-aaaaaaaaaaaa", Leader: "master-bbbbbbbbbbbb", LeaderAddr: "10.0.0.2:7070", AppliedIndex: 4711, Term: 7, LagMilli: 12},
			Masters: []model.MasterView{
				{ID: "master-aaaaaaaaaaaa", Role: model.MasterStandby, Voter: true, Alive: true, Healthy: true, GRPCAddr: "10.0.0.1:7070", RaftAddr: "10.0.0.1:7071", SerfAddr: "10.0.0.1:7072", HTTPAddr: "10.0.0.1:8080", LastIndex: 4712, Version: "v1"},
				{ID: "master-bbbbbbbbbbbb", Role: model.MasterLeader, Voter: true, Alive: true, Healthy: true, GRPCAddr: "10.0.0.2:7070", RaftAddr: "10.0.0.2:7071", SerfAddr: "10.0.0.2:7072", HTTPAddr: "10.0.0.2:8080", Version: "v1"},
				{ID: "master-cccccccccccc", Role: model.MasterStandby, Alive: false, GRPCAddr: "10.0.0.3:7070", RaftAddr: "10.0.0.3:7071", Version: "v1"},
			},
			Workers: []model.WorkerView{
				fakeWorker("worker-1111111111", "alpha", model.WorkerAlive, at(time.Hour)),
				fakeWorker("worker-2222222222", "beta", model.WorkerUnreachable, at(2*time.Hour)),
				fakeWorker("worker-3333333333", "gamma", model.WorkerDead, at(3*time.Hour)),
			},
			Apps: []model.AppView{
				fakeApp(1, "sorting", model.AppRunning, at(90*time.Second), ""),
				fakeApp(2, "waiting for memory", model.AppWaiting, at(10*time.Second), ""),
			},
			Alarms: []model.AlarmView{{Kind: model.AlarmMasterStuck, Subject: "master-cccccccccccc", Since: at(time.Minute), Text: "its log does not advance"}},
		},
		Drivers: []model.DriverView{
			fakeDriver(1, "nightly", model.DriverRunning, 2, at(20*time.Minute), ""),
			fakeDriver(2, "patient", model.DriverSubmitted, 0, at(75*time.Second), ""),
		},
		EndedDrivers: []model.DriverView{fakeDriver(0, "yesterday", model.DriverError, 1, at(2*time.Hour), at(time.Hour))},
		Ended:        []model.AppView{fakeApp(0, "done", model.AppFailed, at(time.Hour), at(59*time.Minute))},
		Executors:    map[model.ExecutorState]int{model.ExecutorRunning: 2, model.ExecutorLaunching: 1, model.ExecutorKilling: 1},
		Causes:       map[model.Cause]int{model.CauseApp: 3, model.CauseClean: 2},
	}
	return s
}

func fakeWorker(id model.WorkerID, host string, state model.WorkerState, registered string) model.WorkerView {
	w := model.WorkerView{
		ID: id, State: state, Active: !state.Gone(), Hostname: host, GRPCAddr: host + ":7073", SerfAddr: host + ":7074", HTTPAddr: host + ":8081",
		Incarnation: 5, Cores: 16, CoresUsed: 6, MemoryMiB: 32768, MemoryUsedMiB: 6144, Executors: 3, RegisteredWall: registered, Version: "v1",
		Resources: map[string][]string{"gpu": {"0", "1"}}, ResourcesUsed: map[string][]string{"gpu": {"1"}}, Labels: map[string]string{"zone": "east"},
	}
	if state != model.WorkerAlive {
		w.Reason = "silent since a moment"
	}
	return w
}

func fakeApp(n int, name string, state model.AppState, submitted, ended string) model.AppView {
	return model.AppView{
		Version: model.ViewVersion, ID: model.AppID(fmt.Sprintf("app-20261130120000-%04d", n)), Name: name, User: "ada", Kind: model.AppKindCommand,
		State: state, Active: !state.Terminal(), Terminal: state.Terminal(), Cores: 6, CoresMax: 12, MemoryMiB: 2048, ExecutorCores: 2,
		Live: 3, Running: 2, Target: 4, Completed: 1, Completions: 9, Failures: 2, SubmittedAt: submitted, EndedAt: ended, Disconnect: "keep",
	}
}

func fakeDriver(n int, name string, state model.DriverState, attempt int, submitted, ended string) model.DriverView {
	d := model.DriverView{
		Version: model.ViewVersion, ID: model.DriverID(fmt.Sprintf("driver-20261130120000-%04d", n)), Name: name, User: "ada",
		State: state, Active: !state.Terminal(), Terminal: state.Terminal(), Attempt: attempt, Cores: 1, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1},
		Supervise: n != 2, Disconnect: "keep", Command: []string{"/opt/nightly", "--day", "7"}, SubmittedAt: submitted, EndedAt: ended, Apps: []model.AppID{},
	}
	if attempt > 0 {
		d.Worker, d.StartedAt = "worker-1111111111", submitted
	}
	if state.Queued() {
		d.QueuePosition = 1
	}
	return d
}

// Driver finds a driver and gives it its attempts.
func (s *fakeSource) Driver(id string) (model.DriverView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range append(append([]model.DriverView{}, s.snap.Drivers...), s.snap.EndedDrivers...) {
		if string(d.ID) != id {
			continue
		}
		if d.Attempts = []model.ExecutorView{}; d.Attempt > 0 {
			d.Attempts = s.executors(d.ID.Owner())
		}
		return d, nil
	}
	return model.DriverView{}, fmt.Errorf("%w: driver %q", model.ErrNotFound, id)
}

func (s *fakeSource) Snapshot() (Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes++
	return s.snap, s.err
}

// change changes the state and tells those who watch.
func (s *fakeSource) change(f func(*Snapshot)) {
	s.mu.Lock()
	f(&s.snap)
	s.snap.Cluster.Staleness.AppliedIndex++
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *fakeSource) App(id string) (model.AppView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range append(append([]model.AppView{}, s.snap.Cluster.Apps...), s.snap.Ended...) {
		if string(a.ID) == id {
			a.Executors = s.executors(a.ID)
			return a, nil
		}
	}
	return model.AppView{}, fmt.Errorf("%w: application %q", model.ErrNotFound, id)
}

func (s *fakeSource) executors(app model.AppID) []model.ExecutorView {
	return []model.ExecutorView{
		{App: app, ID: 0, Worker: "worker-1111111111", State: model.ExecutorFailed, Terminal: true, Cause: model.CauseApp, Reason: "exit 3", ExitCode: 3, PlacedAt: "2026-11-30T11:59:00.000Z", EndedAt: "2026-11-30T11:59:10.000Z"},
		{App: app, ID: 1, Worker: "worker-1111111111", State: model.ExecutorRunning, Active: true, Cores: 2, MemoryMiB: 2048, PID: 77, PlacedAt: "2026-11-30T11:59:30.000Z", Resources: map[string][]string{"gpu": {"1"}}},
	}
}

func (s *fakeSource) OnWorker(model.WorkerID) []model.ExecutorView {
	if s.onWorker != nil {
		return s.onWorker
	}
	return s.executors("app-20261130120000-0001")[1:]
}

func (s *fakeSource) ReadLog(_ context.Context, req rpc.LogRequest, send func(rpc.LogChunk) error) error {
	s.mu.Lock()
	text := s.log
	s.mu.Unlock()
	from := req.Offset
	if from < 0 {
		from = max(0, int64(len(text))+from)
	}
	for from < int64(len(text)) {
		end := min(from+100_000, int64(len(text)))
		if err := send(rpc.LogChunk{Offset: from, Data: []byte(text[from:end])}); err != nil {
			return err
		}
		from = end
	}
	return nil
}

func (s *fakeSource) Unready() string { return s.ready }

func (s *fakeSource) Watch() (<-chan struct{}, func()) { return s.wake, func() {} }

// handlerOf makes the pages of a fake.
func handlerOf(s *fakeSource, change ...func(*Config)) *Handler {
	cfg := Config{Source: s, Board: NewBoard(s.Snapshot), Logger: hclog.NewNullLogger()}
	for _, f := range change {
		f(&cfg)
	}
	return New(cfg)
}

// ask answers one request as a browser would make it.
func ask(h http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(t *testing.T, h http.Handler, target string) string {
	t.Helper()
	w := ask(h, http.MethodGet, target)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: status %d: %s", target, w.Code, w.Body)
	}
	return w.Body.String()
}

// wants fails for each text that a page lacks.
func wants(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// fakeWhy is what keeps an application waiting.
func fakeWhy(id, name string, never bool) model.Why {
	return model.Why{
		Version: model.ViewVersion, ID: id, Kind: model.WhyApp, Name: name, User: "ada", Queue: "batch", State: string(model.AppWaiting), Waiting: true, Never: never,
		Text: "needs 16 GiB per executor; the largest worker offers 8 GiB", Wanted: 4, AgeMilli: 75_000,
		Reasons: []model.WhyReason{{
			Code: model.WhyNeverFits, Text: "needs 16 GiB per executor; the largest worker offers 8 GiB", Never: never, Resource: model.ResourceMemory,
			Need: 16384, Have: 8192, Missing: 8192, WorkerIDs: []model.WorkerID{}, Holders: []model.WhyHolder{},
		}},
	}
}

func (s *fakeSource) Why(id string) (model.Why, error) {
	for _, w := range s.waiting {
		if w.ID == id {
			return w, nil
		}
	}
	return model.Why{}, fmt.Errorf("%w: application %q", model.ErrNotFound, id)
}

func (s *fakeSource) Waiting() model.WaitingView {
	return model.WaitingView{Version: model.ViewVersion, Staleness: s.snap.Cluster.Staleness, Waiting: append([]model.Why{}, s.waiting...)}
}
