//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hearthd/hearth/model"
)

// failureFile is in the directory of an application one of whose executors has failed here. It holds
// the id of the last one; when that was is the time of the file.
const failureFile = ".hearth-last-failure"

// retention says what is kept of ended applications.
type retention struct {
	apps   int           // how many
	age    time.Duration // for how long at most
	budget int64         // bytes of the whole work directory; 0 = no limit
}

// kept is what prune has found and done, in bytes of disk.
type kept struct {
	live, ended int64 // of applications that are not known to be over; of the others, after it
	removed     int   // directories of applications
	freed       int64
}

// noteFailure writes down that an executor has failed, so that its output outlives others. Without
// the directory of its application there is none.
func (w *workDir) noteFailure(ref model.ExecutorRef) error {
	if _, err := refPath(ref); err != nil {
		return err
	}
	name := filepath.Join(string(ref.App), failureFile)
	if err := w.root.WriteFile(name+".new", []byte(strconv.Itoa(int(ref.Executor))+"\n"), 0o600); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("note the failure of %s: %w", ref, err)
	}
	if err := w.root.Rename(name+".new", name); err != nil {
		return fmt.Errorf("note the failure of %s: %w", ref, err)
	}
	return nil
}

// spared is the executor whose output must stay for now: the last one that failed here, for a day. If
// a crash has left nothing readable of its id it is the newest one.
func (w *workDir) spared(app string, now time.Time) (executor string, ok bool) {
	info, err := w.root.Lstat(filepath.Join(app, failureFile))
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	if age := now.Sub(info.ModTime()); age >= MaxFailureAge || age <= -MaxFailureAge { // a clock that has jumped spares nothing for ever
		return "", false
	}
	data, err := w.root.ReadFile(filepath.Join(app, failureFile))
	name := strings.TrimSpace(string(data))
	if _, bad := strconv.ParseUint(name, 10, 31); err == nil && bad == nil {
		return name, true
	}
	newest, found := uint64(0), false
	for _, e := range w.names(app) {
		if n, err := strconv.ParseUint(e, 10, 31); err == nil && (!found || n >= newest) {
			newest, found = n, true
		}
	}
	return strconv.FormatUint(newest, 10), found
}

// names lists what is in a directory; nothing if it cannot be read.
func (w *workDir) names(dir string) []string {
	f, err := w.root.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(-1)
	return names
}

// prune removes directories of applications that are over, the oldest first: those that are older
// than allowed, more than allowed, or that together with what runs fill more than the budget. The
// output of the last executor that failed here stays for a day. What has no marker, is in use or has
// a scratch directory still is never touched, and no link is followed.
func (w *workDir) prune(ctx context.Context, now time.Time, keep retention, inUse func(model.AppID) bool) (kept, error) {
	apps, err := w.listApps(inUse)
	if err != nil {
		return kept{}, err
	}
	var over []appDir
	for _, a := range apps {
		if _, err := w.root.Lstat(filepath.Join(a.name, scratchDir)); err == nil {
			continue // the application is not known to be over
		}
		over = append(over, a)
	}
	var k kept
	sizes := make([]int64, len(over))
	if keep.budget > 0 {
		for i, a := range over {
			sizes[i] = w.size(ctx, a.name)
			k.ended += sizes[i]
		}
		k.live = max(0, w.size(ctx, ".")-w.size(ctx, programsDir)-k.ended) // programs have a budget of their own
	}
	var errs []error
	for i := len(over) - 1; i >= 0 && ctx.Err() == nil; i-- {
		a := over[i]
		if i < keep.apps && now.Sub(a.used) <= keep.age && (keep.budget == 0 || k.live+k.ended <= keep.budget) {
			continue
		}
		whole, err := w.removeApp(a, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("remove directory of %s: %w", a.name, err))
			continue
		}
		left := int64(0)
		if whole {
			k.removed++
		} else if keep.budget > 0 {
			left = w.size(ctx, a.name)
		}
		k.ended -= sizes[i] - left
		k.freed += sizes[i] - left
	}
	return k, errors.Join(errs...)
}

// removeApp removes an application's directory, or all of it but the output that is spared. It
// reports whether nothing is left.
func (w *workDir) removeApp(a appDir, now time.Time) (whole bool, err error) {
	spared, ok := w.spared(a.name, now)
	if !ok { // the marker goes last: without it what a crash leaves would be nobody's
		if err := w.removeBut(a.name, func(name string) bool { return name == markerFile }); err != nil {
			return false, err
		}
		return true, w.root.RemoveAll(a.name)
	}
	var errs []error
	for _, name := range w.names(a.name) {
		switch name {
		case markerFile, failureFile:
		case spared:
			errs = append(errs, w.removeBut(filepath.Join(a.name, name), isOutput))
		default:
			errs = append(errs, w.root.RemoveAll(filepath.Join(a.name, name)))
		}
	}
	// It stays as old as it is.
	errs = append(errs, w.root.Chtimes(a.name, a.used, a.used))
	return false, errors.Join(errs...)
}

func (w *workDir) removeBut(dir string, keep func(name string) bool) error {
	var errs []error
	for _, name := range w.names(dir) {
		if !keep(name) {
			errs = append(errs, w.root.RemoveAll(filepath.Join(dir, name)))
		}
	}
	return errors.Join(errs...)
}

// isOutput reports whether a file in an executor's directory holds its output, rotated parts included.
func isOutput(name string) bool {
	base, part, rotated := strings.Cut(name, ".")
	if rotated {
		if _, err := strconv.Atoi(part); err != nil {
			return false
		}
	}
	return base == "stdout" || base == "stderr"
}

// size is what a directory takes on disk, as far as it can be read. Links are not followed, and a
// file with several names counts once for each.
func (w *workDir) size(ctx context.Context, dir string) int64 {
	var n int64
	_ = fs.WalkDir(w.root.FS(), dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return nil //nolint:nilerr // it has just gone, or is nobody's to read: what is seen counts
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512 // the unit of st_blocks, whatever the file system's is
			}
		}
		return nil
	})
	return n
}

// failed notes the failure of an executor; that it could not be noted costs its output a day.
func (a *agent) failed(ref model.ExecutorRef) {
	if err := a.dir.noteFailure(ref); err != nil {
		a.log.Debug("a failure is not noted", "executor", ref.String(), "err", err)
	}
}
