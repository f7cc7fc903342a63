package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// SpawnProbe starts argv n times with os/exec, parallel at a time, waits for
// each to end, and returns processes per second: what starting processes from
// Go costs here.
func SpawnProbe(ctx context.Context, argv []string, parallel, n int) (float64, error) {
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	begin := time.Now()
	for range parallel {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := exec.CommandContext(ctx, argv[0], argv[1:]...).Run(); err != nil { //nolint:gosec // the caller's program
					mu.Lock()
					errs = append(errs, fmt.Errorf("spawn probe: run %s: %w", argv[0], err))
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(begin).Seconds(), nil
}
