package driver

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/hearthd/hearth/model"
)

// RunOnTestCluster runs a program on two executors in this process, for examples,
// which have no *testing.T.
func RunOnTestCluster(setup func(*Program), stdout, stderr io.Writer, args ...string) (code int) {
	t := &exampleT{out: stderr}
	defer t.end()
	s := newSDK(t, setup)
	started := model.ExecutorID(2)
	s.sized = func(profile, n int) {
		for range n {
			s.startSized(started, s.profiles[profile].Cores, profile)
			started++
		}
	}
	code = s.run(context.Background(), []int{2, 2}, args...)
	_, _ = s.stdout.WriteTo(stdout) // an example that says nothing fails by itself
	_, _ = s.stderr.WriteTo(stderr)
	return code
}

// exampleT is as much of a *testing.T as the harness needs.
type exampleT struct {
	testing.TB
	out      io.Writer
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Error(args ...any)                 { fmt.Fprintln(t.out, args...) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }
func (t *exampleT) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "hearth-example-")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort
	return dir
}

func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
