package bench

import (
	"context"
	"fmt"
	"os"

	"github.com/prometheus/procfs"
)

// cpuSeconds is what processes have used so far, in user space and in the kernel,
// to a hundredth of a second.
func cpuSeconds(pids ...int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return 0, fmt.Errorf("cpu time of process %d: %w", pid, err)
		}
		st, err := p.Stat()
		if err != nil {
			return 0, fmt.Errorf("cpu time of process %d: %w", pid, err)
		}
		sum += st.CPUTime()
	}
	return sum, nil
}

// counted measures a rate over n things and notes beside it what each cost this
// process and those with the given ids, in microseconds of one core. Unlike the
// rate it says something on a busy machine too.
func counted(n int, cost *[]float64, pids []int, rate Measure) Measure {
	return func(ctx context.Context) (float64, error) {
		all := append([]int{os.Getpid()}, pids...)
		before, err := cpuSeconds(all...)
		if err != nil {
			return 0, err
		}
		v, err := rate(ctx)
		if err != nil {
			return v, err
		}
		after, err := cpuSeconds(all...)
		*cost = append(*cost, (after-before)*micros/float64(n))
		return v, err
	}
}
