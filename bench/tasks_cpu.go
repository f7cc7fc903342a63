package bench

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// cpuSeconds is what processes have used so far, in user space and in the kernel.
func cpuSeconds(pids ...int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		var t unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|processClock), &t); err != nil { //nolint:gosec // it is a process id
			return 0, fmt.Errorf("cpu time of process %d: %w", pid, err)
		}
		sum += float64(t.Nano()) / 1e9
	}
	return sum, nil
}

// processClock in the id of a clock makes it count all that the threads of a process
// have run, as clock_getcpuclockid(3) does: to the nanosecond, where /proc counts hundredths
// of a second, which is half of what an idle master uses in one.
const processClock = 2

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
