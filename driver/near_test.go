package driver

import (
	"context"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// placing is a program whose calls say where they ran; those that are told to
// hold their slot until they are cancelled.
func placing(p *Program) Func[bool, model.ExecutorID] {
	return Register(p, "where", func(ctx context.Context, hold bool) (model.ExecutorID, error) {
		if hold {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return Executor(ctx).ID, nil
	})
}

// both waits until executors 0 and 1 may get calls.
func both(ctx context.Context, t *testing.T, app *App) {
	t.Helper()
	eventuallySDK(t, "two executors are ready", func() bool {
		n := 0
		for _, e := range app.Executors(ctx) {
			if e.State == ExecutorReady {
				n++
			}
		}
		return n == 2
	})
}

// occupy holds the only slot of an executor until the result is called.
func occupy(ctx context.Context, t *testing.T, app *App, where Func[bool, model.ExecutorID], id model.ExecutorID) (free func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = Call(ctx, app, where, true, WithLocality(Locality{Executors: []model.ExecutorID{id}, Wait: time.Minute})) // it is cancelled
	}()
	eventuallySDK(t, "the slot is taken", func() bool {
		for _, e := range app.Executors(ctx) {
			if e.ID == id {
				return e.Running == 1
			}
		}
		return false
	})
	return func() {
		cancel()
		<-done
	}
}

func TestCallsRunWhereTheyHadBetterIfASlotIsFreeThere(t *testing.T) {
	ran(t, []int{1, 1}, func(p *Program) func(context.Context, *App) error {
		where := placing(p)
		return func(ctx context.Context, app *App) error {
			both(ctx, t, app)
			for _, l := range []Locality{
				{Executors: []model.ExecutorID{1}},
				{Hosts: []string{"host-1"}},
				{Hosts: []string{"elsewhere", "host-1"}, Workers: []model.WorkerID{"nobody"}},
			} {
				l.Wait = time.Minute
				got, err := Map(ctx, app, where, make([]bool, 20), WithLocality(l))
				if err != nil {
					return err
				}
				for _, id := range got {
					if id != 1 {
						t.Fatalf("%+v: a call ran on executor %d", l, id)
					}
				}
			}
			got, err := Map(ctx, app, where, make([]bool, 20), WithLocalityOf(func(i int) Locality {
				return Locality{Executors: []model.ExecutorID{model.ExecutorID(i % 2)}, Wait: time.Minute}
			}))
			for i, id := range got {
				if int(id) != i%2 {
					t.Errorf("call %d ran on executor %d", i, id)
				}
			}
			return err
		}
	})
}

func TestACallWaitsForItsPlaceAsLongAsItMayAndThenRunsAnywhere(t *testing.T) {
	ran(t, []int{1, 1}, func(p *Program) func(context.Context, *App) error {
		where := placing(p)
		return func(ctx context.Context, app *App) error {
			both(ctx, t, app)
			// The place gets free in time.
			free := occupy(ctx, t, app, where, 0)
			time.AfterFunc(100*time.Millisecond, free)
			to0 := func(wait time.Duration) Option {
				return WithLocality(Locality{Executors: []model.ExecutorID{0}, Wait: wait})
			}
			if id, err := Call(ctx, app, where, false, to0(time.Minute)); id != 0 || err != nil {
				t.Errorf("ran on executor %d, %v, want the one that got free", id, err)
			}
			// It does not.
			free = occupy(ctx, t, app, where, 0)
			defer free()
			began := time.Now()
			if id, err := Call(ctx, app, where, false, to0(200*time.Millisecond)); id != 1 || err != nil {
				t.Errorf("ran on executor %d, %v, want the other one", id, err)
			}
			if waited := time.Since(began); waited < 200*time.Millisecond {
				t.Errorf("it waited only %s", waited)
			}
			// A place that does not exist is not waited for.
			nowhere := WithLocality(Locality{Hosts: []string{"nowhere"}, Wait: time.Hour})
			if id, err := Call(ctx, app, where, false, nowhere); id != 1 || err != nil {
				t.Errorf("ran on executor %d, %v", id, err)
			}
			// A call that waits for its place can be cancelled.
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := Call(short, app, where, false, to0(time.Hour)); err == nil {
				t.Error("a cancelled call has a value")
			}
			return nil
		}
	})
}
