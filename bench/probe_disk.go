package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotDurable refuses to measure on a file system that keeps nothing.
var ErrNotDurable = errors.New("not a file system on a disk")

// CheckDurable refuses a directory in memory: a sync there costs nothing, and
// what was measured with it says nothing.
func CheckDurable(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, err)
	}
	switch int64(st.Type) { //nolint:unconvert // its type differs between architectures
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return fmt.Errorf("%s: %w: it is in memory, where a sync does nothing; name a directory on a disk with --dir", dir, ErrNotDurable)
	}
	return nil
}

// SyncProbe has writers append bytes and fdatasync them, each to a file of its
// own below dir, n times each at the same time: what durable writes cost here.
// It returns how long each write with its sync took, in milliseconds.
func SyncProbe(ctx context.Context, dir string, writers, bytes, n int) ([]float64, error) {
	var mu sync.Mutex
	var all []float64
	var errs []error
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			took, err := syncWrites(ctx, filepath.Join(dir, "probe-"+strconv.Itoa(i)), bytes, n)
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, took...), append(errs, err)
		})
	}
	wg.Wait()
	return all, errors.Join(errs...)
}

func syncWrites(ctx context.Context, path string, bytes, n int) (took []float64, err error) {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("disk probe: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	data := make([]byte, bytes)
	for range n {
		if ctx.Err() != nil {
			return took, ctx.Err()
		}
		begin := time.Now()
		if _, err := f.Write(data); err != nil {
			return took, fmt.Errorf("disk probe: %w", err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return took, fmt.Errorf("disk probe: sync %s: %w", path, err)
		}
		took = append(took, time.Since(begin).Seconds()*1e3)
	}
	return took, nil
}
