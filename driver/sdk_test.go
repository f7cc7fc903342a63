package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearthd/hearth/executor"
	"github.com/hearthd/hearth/internal/tlsconf"
	"github.com/hearthd/hearth/model"
)

// sdk runs programs in this process: their driver's part, and executors with
// functions, on the cluster that a test plays.
type sdk struct {
	*cluster
	t     testing.TB
	setup func(*Program)

	mu        sync.Mutex
	stops     map[model.ExecutorID]context.CancelFunc
	executors sync.WaitGroup
	stdout    bytes.Buffer
	stderr    bytes.Buffer
}

func newSDK(t testing.TB, setup func(*Program)) *sdk {
	t.Helper()
	return &sdk{cluster: newCluster(t), t: t, setup: setup, stops: map[model.ExecutorID]context.CancelFunc{}}
}

// run is the program from its start to its end, on executors with so many cores
// each; it returns the exit code.
func (s *sdk) run(ctx context.Context, cores []int, args ...string) int {
	s.t.Helper()
	exe := filepath.Join(s.t.TempDir(), "program")
	if err := os.WriteFile(exe, []byte("not run here"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, s.setup, Invocation{
			Args: append([]string{"program", "--masters", s.addr}, args...), Stdout: &s.stdout, Stderr: &s.stderr,
			Executable: exe, Observer: func(e Event) {
				if e.Kind == EventRegistered {
					for id, n := range cores {
						s.start(model.ExecutorID(id), n)
					}
				}
			},
		})
	}()
	got := <-code
	s.stopAll()
	return got
}

// start places an executor and runs it.
func (s *sdk) start(id model.ExecutorID, cores int) { s.startSized(id, cores, 0) }

func (s *sdk) startSized(id model.ExecutorID, cores, profile int) {
	s.cluster.mu.Lock()
	spec := s.specs[0]
	s.cluster.mu.Unlock()
	s.placeSized(id, cores, profile)
	p, _, err := newProgram(s.setup)
	if err != nil {
		s.t.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.stops[id] = cancel
	s.mu.Unlock()
	dir, err := os.MkdirTemp(s.t.TempDir(), "executor")
	if err != nil {
		s.t.Error(err)
		return
	}
	cfg := executor.Config{
		App: testApp, Executor: id, DriverAddr: spec.DriverAddr, Secret: secretOf(id), Cores: cores,
		Host: fmt.Sprintf("host-%d", id), Worker: "w", WorkDir: dir, Env: []string{"PATH=/usr/bin:/bin", "HEARTH_RESOURCE_GPU=0,1"},
		TLS: tlsconf.Pinned(spec.DriverCert),
	}
	s.executors.Go(func() {
		err := p.execute(ctx, cfg)
		if err != nil && !errors.Is(err, model.ErrUnavailable) && !errors.Is(err, model.ErrEnded) {
			s.t.Errorf("executor %d: %v", id, err)
		}
	})
}

// lose ends an executor as if its machine had gone.
func (s *sdk) lose(id model.ExecutorID) {
	s.mu.Lock()
	stop := s.stops[id]
	s.mu.Unlock()
	stop()
	s.lost(id)
}

func (s *sdk) stopAll() {
	s.mu.Lock()
	for _, stop := range s.stops {
		stop()
	}
	s.mu.Unlock()
	s.executors.Wait()
}

// ran runs a driver's part and expects that it returns nil.
func ran(t *testing.T, cores []int, setup func(p *Program) func(ctx context.Context, app *App) error, args ...string) *sdk {
	t.Helper()
	s := newSDK(t, func(p *Program) { p.Run(setup(p)) })
	if code := s.run(t.Context(), cores, args...); code != CodeOK {
		t.Fatalf("exit code %d\n%s", code, &s.stderr)
	}
	return s
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func TestAProgramCallsItsFunctionsOnExecutors(t *testing.T) {
	s := ran(t, []int{2, 2}, func(p *Program) func(context.Context, *App) error {
		fn := Register(p, "double", double)
		where := Register(p, "where", func(ctx context.Context, _ string) (string, error) {
			e := Executor(ctx)
			return fmt.Sprintf("%s %d cores, gpu %s", e.App, e.Cores, strings.Join(e.Resources["GPU"], "+")), nil
		})
		p.Name = "called"
		return func(ctx context.Context, app *App) error {
			if got, err := Call(ctx, app, fn, 21); err != nil || got != 42 {
				t.Errorf("got %d, %v", got, err)
			}
			if got, err := Call(ctx, app, where, ""); err != nil || got != string(testApp)+" 2 cores, gpu 0+1" {
				t.Errorf("the executor is %q, %v", got, err)
			}
			args := make([]int, 1000)
			for i := range args {
				args[i] = i
			}
			got, err := Map(ctx, app, fn, args, WithAhead(50))
			for i, v := range got {
				if v != 2*i {
					t.Fatalf("value %d is %d", i, v)
				}
			}
			return err
		}
	})
	if spec := s.specs[0]; spec.Name != "called" || spec.Program.Bytes != 12 || spec.Executors != model.TargetUnlimited || spec.Profile.MemoryMiB != DefaultMemoryMiB {
		t.Errorf("registered as %+v", spec)
	}
	if s.finish == nil || s.finish.State != model.AppFinished {
		t.Errorf("finished as %+v", s.finish)
	}
}

func TestAFailedCallSaysWhereAndWhy(t *testing.T) {
	ran(t, []int{1}, func(p *Program) func(context.Context, *App) error {
		fails := Register(p, "fails", func(context.Context, int) (int, error) { return 0, errors.New("the disk is on fire") })
		panics := Register(p, "panics", func(_ context.Context, n []int) (int, error) { return n[3], nil })
		return func(ctx context.Context, app *App) error {
			_, err := Call(ctx, app, fails, 1)
			var call *CallError
			if !errors.As(err, &call) || call.Message != "the disk is on fire" || call.Panicked() || call.Host != "host-0" || call.Tries != 1 {
				t.Errorf("%v: %+v", err, call)
			}
			if want := `function "fails" failed on executor 0 (host-0): the disk is on fire`; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			_, err = Call(ctx, app, panics, []int{1})
			if !errors.As(err, &call) || !strings.Contains(call.Message, "index out of range") || !strings.Contains(call.Stack, "sdk_test.go") {
				t.Errorf("%v: %+v", err, call)
			}
			return nil
		}
	})
}

func TestARepliesStreamHasOneReplyForEachArgumentAndGoesOnAfterAFailure(t *testing.T) {
	ran(t, []int{2}, func(p *Program) func(context.Context, *App) error {
		odd := Register(p, "odd", func(_ context.Context, n int) (int, error) {
			if n%2 == 0 {
				return 0, errors.New("even")
			}
			return n, nil
		})
		return func(ctx context.Context, app *App) error {
			seen := map[int]int{}
			for i, r := range Stream(ctx, app, odd, counting(100), WithAhead(7)) {
				seen[i]++
				if (i%2 == 0) != (r.Err != nil) || r.Err == nil && r.Value != i {
					t.Errorf("argument %d: %+v", i, r)
				}
			}
			for i := range 100 {
				if seen[i] != 1 {
					t.Errorf("argument %d has %d replies", i, seen[i])
				}
			}
			return nil
		}
	})
}

func counting(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

func TestLeavingAStreamCancelsWhatRuns(t *testing.T) {
	ended := make(chan error, 64)
	ran(t, []int{2}, func(p *Program) func(context.Context, *App) error {
		wait := Register(p, "wait", func(ctx context.Context, n int) (int, error) {
			if n == 0 {
				return 0, nil
			}
			<-ctx.Done()
			ended <- ctx.Err()
			return 0, ctx.Err()
		})
		return func(ctx context.Context, app *App) error {
			for range Stream(ctx, app, wait, counting(1<<30), WithAhead(3)) {
				break
			}
			short, cancel := context.WithCancel(ctx)
			time.AfterFunc(50*time.Millisecond, cancel)
			if _, err := Call(short, app, wait, 5); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call: %v", err)
			}
			for range 2 { // one of the stream at least, and the call
				select {
				case <-ended:
				case <-time.After(patience / 2):
					t.Error("a function was not told to return")
				}
			}
			_, err := Call(ctx, app, wait, 0) // the slots are free again
			return err
		}
	})
}

func TestAFailedCallIsTriedAgainAsOftenAsAsked(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	ran(t, []int{1}, func(p *Program) func(context.Context, *App) error {
		flaky := Register(p, "flaky", func(ctx context.Context, name string) (int, error) {
			mu.Lock()
			tries[name]++
			n := tries[name]
			mu.Unlock()
			if name == "slow" && n < 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			if n < 3 || name == "never" {
				return 0, fmt.Errorf("try %d", n)
			}
			return n, nil
		})
		return func(ctx context.Context, app *App) error {
			again := WithRetry(Retry{Tries: 3, Backoff: time.Millisecond})
			if n, err := Call(ctx, app, flaky, "works", again); n != 3 || err != nil {
				t.Errorf("the third try: %d, %v", n, err)
			}
			// The third try has to answer within it too.
			if n, err := Call(ctx, app, flaky, "slow", again, WithTimeout(500*time.Millisecond)); n != 3 || err != nil {
				t.Errorf("after two time-outs: %d, %v", n, err)
			}
			var call *CallError
			if _, err := Call(ctx, app, flaky, "never", again); !errors.As(err, &call) || call.Tries != 3 || call.Message != "try 3" {
				t.Errorf("three tries: %v", err)
			}
			only := WithRetry(Retry{Tries: 3, If: func(e *CallError) bool { return e.Message != "try 1" }})
			if _, err := Call(ctx, app, flaky, "refused", only); !errors.As(err, &call) || call.Tries != 1 {
				t.Errorf("a failure that is not worth another try: %v", err)
			}
			if _, err := Call(ctx, app, flaky, "once", WithTimeout(time.Minute)); !errors.As(err, &call) || call.Tries != 1 {
				t.Errorf("without a policy: %v", err)
			}
			return nil
		}
	})
}

func TestCallsOfALostExecutorRunElsewhere(t *testing.T) {
	var s *sdk
	started := make(chan model.ExecutorID, 16)
	release := make(chan struct{})
	s = newSDK(t, func(p *Program) {
		fn := Register(p, "slow", func(ctx context.Context, n int) (int, error) {
			id := Executor(ctx).ID
			started <- id
			if id != 0 {
				return n * n, nil
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return 0, ctx.Err()
		})
		p.Run(func(ctx context.Context, app *App) error {
			go func() {
				for id := range started {
					if id == 0 {
						s.lose(0)
						s.start(1, 1)
						return
					}
				}
			}()
			got, err := Map(ctx, app, fn, []int{1, 2, 3, 4})
			if want := []int{1, 4, 9, 16}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, %v", got, err)
			}
			return nil
		})
	})
	if code := s.run(t.Context(), []int{1}); code != CodeOK {
		t.Fatalf("code %d\n%s", code, &s.stderr)
	}
	close(release)
}

func TestABroadcastValueTravelsOncePerExecutorUntilItIsReleased(t *testing.T) {
	var mu sync.Mutex
	got := map[model.ExecutorID]map[*string]int{} // where the value was, and how often
	ran(t, []int{4, 4}, func(p *Program) func(context.Context, *App) error {
		use := Register(p, "use", func(ctx context.Context, ref Ref[[]string]) (int, error) {
			v, err := ref.Get(ctx)
			if err != nil {
				return 0, err
			}
			mu.Lock()
			defer mu.Unlock()
			id := Executor(ctx).ID
			if got[id] == nil {
				got[id] = map[*string]int{}
			}
			got[id][&v[0]]++
			return len(strings.Join(v, "")), nil
		})
		return func(ctx context.Context, app *App) error {
			b, err := NewBroadcast(app, []string{strings.Repeat("x", 300_000), strings.Repeat("y", 300_000)}) // several messages
			if err != nil {
				return err
			}
			refs := make([]Ref[[]string], 200)
			for i := range refs {
				refs[i] = b.Ref()
			}
			sizes, err := Map(ctx, app, use, refs)
			if err != nil {
				return err
			}
			for _, n := range sizes {
				if n != 600_000 {
					t.Fatalf("a value of %d bytes", n)
				}
			}
			for id, where := range got {
				if len(where) != 1 {
					t.Errorf("executor %d has made %d copies", id, len(where))
				}
			}
			b.Release()
			b.Release()
			eventuallySDK(t, "the value is gone everywhere", func() bool {
				_, err := Call(ctx, app, use, b.Ref())
				return err != nil && strings.Contains(err.Error(), "not found")
			})
			return nil
		}
	})
}

func eventuallySDK(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline, tick := time.After(patience/2), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", patience/2, what)
		}
	}
}

func TestALocalStateIsMadeOncePerExecutorAndClosedAtItsEnd(t *testing.T) {
	var mu sync.Mutex
	opened, closed := map[model.ExecutorID]int{}, map[model.ExecutorID]int{}
	failed := false
	ran(t, []int{4, 4}, func(p *Program) func(context.Context, *App) error {
		state := NewLocal(p, func(_ context.Context, e *ExecutorEnv) (model.ExecutorID, error) {
			mu.Lock()
			defer mu.Unlock()
			if !failed {
				failed = true
				return 0, errors.New("not yet")
			}
			opened[e.ID]++
			return e.ID, nil
		}, func(id model.ExecutorID) error {
			mu.Lock()
			defer mu.Unlock()
			closed[id]++
			return nil
		})
		use := Register(p, "use", func(ctx context.Context, _ int) (bool, error) {
			id, err := state.Get(ctx)
			return id == Executor(ctx).ID, err
		})
		return func(ctx context.Context, app *App) error {
			if _, err := Call(ctx, app, use, 0); err == nil || !strings.Contains(err.Error(), "not yet") {
				t.Errorf("the first attempt to make it: %v", err)
			}
			same, err := Map(ctx, app, use, make([]int, 100))
			for _, ok := range same {
				if !ok {
					t.Error("a function got the state of another executor")
				}
			}
			return err
		}
	})
	for id, n := range opened {
		if n != 1 || closed[id] != 1 {
			t.Errorf("executor %d: made %d times, closed %d times", id, n, closed[id])
		}
	}
	if len(opened) == 0 {
		t.Error("it was never made")
	}
}
