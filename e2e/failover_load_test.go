//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/e2e/history"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// Bounds of the load.
const (
	loadClients  = 6
	loadEvery    = 40 * time.Millisecond // one call of one client
	loadRecent   = 12                    // applications that calls are about at a time
	loadFlappers = 4                     // processes that end and start for ever
	// loadPatience bounds a call; a change of leader may lie in the middle.
	loadPatience = 20 * time.Second
	// loadHaste bounds the calls that give up early, so that some outcomes
	// stay unknown.
	loadHaste = 30 * time.Millisecond
	// A kill of the leader lets the load register and kill so many more: 200
	// ended applications are remembered, and all of them are looked for.
	loadKeysPerKill  = 6
	loadKillsPerKill = 1
)

// loadApp is an application that the load has registered, or has tried to.
type loadApp struct {
	spec    model.AppSpec // its name is the key of the history
	request string
	id      model.AppID
	token   model.Secret
}

// load is a bounded stream of calls by concurrent clients. What they did is in
// rec.
type load struct {
	masters []string
	rec     *history.Recorder
	stop    context.CancelFunc
	done    sync.WaitGroup
	keys    atomic.Int64 // registrations left
	kills   atomic.Int64 // kills left

	mu     sync.Mutex
	next   int
	recent []loadApp // registered, newest last
	odd    []string  // answers that nobody should get
}

// startLoad starts so many clients; end stops them.
func startLoad(t testing.TB, c *cluster, rec *history.Recorder, seed uint64, clients int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{masters: strings.Split(c.masterList, ","), rec: rec, stop: cancel}
	l.more()
	for n := range clients {
		cl, err := c.access.client(fmt.Sprintf("load-%d", n), l.masters...)
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		l.done.Go(func() { l.run(ctx, n, cl, rnd) })
	}
	return l
}

// more allows what belongs to one more kill of the leader.
func (l *load) more() {
	l.keys.Add(loadKeysPerKill)
	l.kills.Add(loadKillsPerKill)
}

// take uses one up, if any is left.
func take(left *atomic.Int64) bool {
	for {
		n := left.Load()
		if n <= 0 {
			return false
		}
		if left.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// end stops the clients; calls under way are waited for.
func (l *load) end(t testing.TB) {
	t.Helper()
	l.stop()
	l.done.Wait()
	for _, line := range l.odd {
		t.Error(line)
	}
}

func (l *load) run(ctx context.Context, n int, cl *client.Client, rnd *rand.Rand) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := cl.Close(); err != nil {
				l.wonder("close client %d: %v", n, err)
			}
			return
		case <-tick.C:
			l.once(n, cl, rnd)
		}
	}
}

// once makes one call, whose context does not end with the load: what was begun
// gets its answer.
func (l *load) once(n int, cl *client.Client, rnd *rand.Rand) {
	limit := loadPatience
	if rnd.IntN(5) == 0 {
		limit = time.Duration(1 + rnd.Int64N(int64(loadHaste)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	roll := rnd.IntN(100)
	if roll < 15 && take(&l.keys) {
		l.register(ctx, n, cl, l.fresh(cl))
		return
	}
	a, ok := l.pick(rnd)
	if !ok {
		return
	}
	op := history.Operation{Client: n, Key: a.spec.Name, App: string(a.id)}
	switch {
	case roll < 22:
		l.register(ctx, n, cl, a)
	case roll < 50:
		op.Kind, op.Target = history.SetTarget, rnd.IntN(4)
		l.rec.Do(op, func(op *history.Operation) {
			op.Outcome = l.outcome(cl.SetTargets(ctx, rpc.SetTargetsRequest{
				App: a.id, Token: a.token, Totals: map[int]int{model.ProfileDefault: op.Target},
			}))
		})
	case roll < 56 && take(&l.kills):
		op.Kind = history.Kill
		l.rec.Do(op, func(op *history.Operation) { op.Outcome = l.outcome(cl.KillApp(ctx, a.id, "the load kills it")) })
	case roll < 64:
		// Not in the model: the application stays as it is, and another
		// executor is placed.
		l.outcome(cl.KillExecutors(ctx, rpc.KillExecutorsRequest{App: a.id, Executors: []model.ExecutorID{0, 1}, Reason: "the load kills them"}))
	default:
		l.rec.Do(op, func(op *history.Operation) { strongRead(ctx, cl, op, l.outcome) })
	}
}

// fresh describes another application. Every third is placed; the rest is too
// large for any worker and only fills the state.
func (l *load) fresh(cl *client.Client) loadApp {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.next
	l.next++
	cores := 1
	if n%3 != 0 {
		cores = 4096
	}
	return loadApp{spec: commandSpec(fmt.Sprintf("load-%05d", n), cores, "sleep", "3600"), request: cl.NewRequestID()}
}

// register registers an application, or repeats that with the same request id.
func (l *load) register(ctx context.Context, n int, cl *client.Client, a loadApp) {
	var r rpc.RegisterAppReply
	op := l.rec.Do(history.Operation{Client: n, Key: a.spec.Name, Kind: history.Register, Target: a.spec.Executors},
		func(op *history.Operation) {
			var err error
			r, err = cl.RegisterAppWithID(ctx, a.request, a.spec)
			op.Outcome, op.GotApp, op.Index = l.outcome(err), string(r.App), r.Index
		})
	if op.Outcome != history.Done || a.id != "" {
		return
	}
	a.id, a.token = r.App, r.Token
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = append(l.recent, a)
	if len(l.recent) > loadRecent {
		l.recent = l.recent[1:]
	}
}

func (l *load) pick(rnd *rand.Rand) (loadApp, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.recent) == 0 {
		return loadApp{}, false
	}
	return l.recent[rnd.IntN(len(l.recent))], true
}

// strongRead fills in what the leader says of an application.
func strongRead(ctx context.Context, cl *client.Client, op *history.Operation, outcome func(error) history.Outcome) {
	op.Kind = history.Read
	v, err := cl.App(ctx, rpc.AppRequest{ID: op.App, Strong: true})
	op.Outcome = outcome(err)
	op.GotTarget, op.GotEnded = v.Target, v.Terminal
}

// outcome sorts what a client was told by the promise of package client: an
// error without "outcome unknown" is of a call that changed nothing.
func (l *load) outcome(err error) history.Outcome {
	switch {
	case err == nil:
		return history.Done
	case errors.Is(err, model.ErrOutcomeUnknown):
		return history.Unknown
	case errors.Is(err, model.ErrEnded):
		return history.Ended
	case errors.Is(err, model.ErrNotFound):
		return history.Absent
	case errors.Is(err, model.ErrNoLeader), errors.Is(err, model.ErrUnavailable):
		return history.Failed
	}
	l.wonder("a client of the load was told: %v", err)
	return history.Failed
}

func (l *load) wonder(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.odd) < 20 {
		l.odd = append(l.odd, fmt.Sprintf(format, args...))
	}
}

// startFlappers registers processes that end by themselves and are replaced, so
// that reports flow whatever the clients do.
func startFlappers(t testing.TB, c *cluster) model.AppID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	spec := commandSpec("flappers", 1, "sleep", "0.2")
	spec.Executors = loadFlappers
	r, err := c.client.RegisterApp(ctx, spec)
	if err != nil {
		t.Fatalf("register %s: %v", spec.Name, err)
	}
	return r.App
}
