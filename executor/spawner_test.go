package executor

import (
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

func TestAnExecutorStartsAsManyProcessesAtOnceAsItHasCores(t *testing.T) {
	procs, err := newProcesses(hclog.NewNullLogger(), false)
	if err != nil {
		t.Fatal(err)
	}
	x := &executor{cfg: Config{Cores: 3, timing: defaultTiming()}, procs: procs}
	stop := x.startHelpers()
	defer stop()
	release, threads := make(chan struct{}), make(chan int, 3)
	for n := range 3 {
		select {
		case procs.spawn <- func() { threads <- unix.Gettid(); <-release }:
		case <-time.After(10 * time.Second):
			t.Fatalf("the start of process %d waits for the others", n+1)
		}
	}
	seen := map[int]bool{}
	for range 3 {
		seen[<-threads] = true
	}
	if len(seen) != 3 {
		t.Errorf("three starts ran on %d threads", len(seen))
	}
	close(release)
}

// BenchmarkProcesses is what the process of a task costs, without its output and its
// directory: two tasks at once, with one thread that starts processes and with two.
func BenchmarkProcesses(b *testing.B) {
	for _, spawners := range []int{1, 2} {
		b.Run(fmt.Sprintf("spawners-%d", spawners), func(b *testing.B) {
			ps, err := newProcesses(hclog.NewNullLogger(), false)
			if err != nil {
				b.Fatal(err)
			}
			var threads, tasks sync.WaitGroup
			for range spawners {
				threads.Go(ps.runSpawner)
			}
			next := make(chan struct{})
			for range 2 {
				tasks.Go(func() {
					for range next {
						p, err := ps.start(&exec.Cmd{Path: "/bin/true", Args: []string{"true"}}, nil)
						if err != nil {
							b.Error(err)
							continue
						}
						<-p.exited
						ps.bury(p)
					}
				})
			}
			for b.Loop() {
				next <- struct{}{}
			}
			close(next)
			tasks.Wait()
			close(ps.stop)
			threads.Wait()
		})
	}
}
