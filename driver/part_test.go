package driver

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

func TestAPanicOfTheDriversPartEndsTheApplication(t *testing.T) {
	s := newSDK(t, func(p *Program) {
		p.Run(func(context.Context, *App) error { panic("no such luck") })
	})
	if code := s.run(t.Context(), []int{1}); code != CodeFailed {
		t.Errorf("exit code %d, want %d", code, CodeFailed)
	}
	if f := locked(s.cluster, func() rpc.FinishAppRequest { return *s.finish }); f.State != model.AppFailed || f.Reason != "panic: no such luck" {
		t.Errorf("the cluster was told %+v", f)
	}
	if out := s.stderr.String(); !strings.Contains(out, "panic: no such luck") || !strings.Contains(out, "part_test.go") {
		t.Errorf("the user is not told where:\n%s", out)
	}
}

// runtime.Goexit cannot be taken back, as a panic can: what waits for the driver
// must not wait for ever.
func TestADriversPartThatLeavesItsGoroutineLeavesNothingBehind(t *testing.T) {
	s := newSDK(t, func(p *Program) {
		p.Run(func(context.Context, *App) error { runtime.Goexit(); return nil })
	})
	left := make(chan struct{})
	go func() {
		defer close(left)
		Run(t.Context(), s.setup, Invocation{Args: []string{"program", "--masters", s.addr}, Stdout: &s.stdout, Stderr: &s.stderr})
	}()
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("the goroutine of the driver's part is still there")
	}
}

// What a part made of an application that is no more cannot count as success.
func TestAnApplicationThatTheClusterEndedIsNoSuccess(t *testing.T) {
	var s *sdk
	s = newSDK(t, func(p *Program) {
		p.Run(func(ctx context.Context, _ *App) error {
			s.end(model.DriverEnded{State: model.AppFailed, Reason: "10 executors failed"})
			<-ctx.Done()
			return nil
		})
	})
	if code := s.run(t.Context(), nil); code != CodeFault {
		t.Errorf("exit code %d, want %d", code, CodeFault)
	}
	if out := s.stderr.String(); !strings.Contains(out, "10 executors failed") {
		t.Errorf("the user is not told why:\n%s", out)
	}
}
