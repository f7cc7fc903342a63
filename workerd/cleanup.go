//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

// removeScratch removes what the executors of an ended application shared. The executors' own
// directories stay, for their logs, until prune.
func (w *workDir) removeScratch(app model.AppID) error {
	if err := checkApp(app); err != nil {
		return err
	}
	if _, err := w.root.Lstat(filepath.Join(string(app), markerFile)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // none of ours, or gone already
		}
		return fmt.Errorf("remove scratch directory of %s: %w", app, err)
	}
	if err := w.root.RemoveAll(filepath.Join(string(app), scratchDir)); err != nil {
		return fmt.Errorf("remove scratch directory of %s: %w", app, err)
	}
	return nil
}

// scratchApps lists applications that have a scratch directory here, at most MaxKeptApps of them.
func (w *workDir) scratchApps() ([]model.AppID, error) {
	apps, err := w.listApps(func(model.AppID) bool { return false })
	if err != nil {
		return nil, err
	}
	var out []model.AppID
	for _, a := range apps {
		if _, err := w.root.Lstat(filepath.Join(a.name, scratchDir)); err == nil && len(out) < MaxKeptApps {
			out = append(out, model.AppID(a.name))
		}
	}
	return out, nil
}

// prune removes directories of applications that are not in use, have no scratch directory any more,
// and are either older than maxAge or not among the newest keep. Directories without the marker are never touched. It returns how
// many it removed.
func (w *workDir) prune(now time.Time, keep int, maxAge time.Duration, inUse func(model.AppID) bool) (int, error) {
	apps, err := w.listApps(inUse)
	if err != nil {
		return 0, err
	}
	removed := 0
	var errs []error
	for i, a := range apps {
		if i < keep && now.Sub(a.used) <= maxAge {
			continue
		}
		if _, err := w.root.Lstat(filepath.Join(a.name, scratchDir)); err == nil {
			continue // the application is not known to be over
		}
		if err := w.root.RemoveAll(a.name); err != nil {
			errs = append(errs, fmt.Errorf("remove directory of %s: %w", a.name, err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

type appDir struct {
	name string
	used time.Time // when an executor was last added, or scratch removed
}

// listApps returns the directories that prune may remove, the newest first.
func (w *workDir) listApps(inUse func(model.AppID) bool) ([]appDir, error) {
	f, err := w.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("list work directory: %w", err)
	}
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("list work directory: %w", err)
	}
	var apps []appDir
	for _, e := range entries {
		if !e.IsDir() || checkApp(model.AppID(e.Name())) != nil || inUse(model.AppID(e.Name())) {
			continue
		}
		if _, err := w.root.Lstat(filepath.Join(e.Name(), markerFile)); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has just gone
		}
		apps = append(apps, appDir{name: e.Name(), used: info.ModTime()})
	}
	slices.SortFunc(apps, func(a, b appDir) int { return b.used.Compare(a.used) })
	return apps, nil
}

// cleaner removes directories in the background. Its owner gives it work through clean.
type cleaner struct {
	dir   *workDir
	log   hclog.Logger
	clean <-chan model.AppID // applications whose scratch directory is to go
	owner cleanerOwner
}

// cleanerOwner is the agent as the cleaner sees it. Its methods may block until it has time.
type cleanerOwner interface {
	// inUse says whether anything of an application may still run here.
	inUse(ctx context.Context, app model.AppID) bool
	// cleaned takes note that a scratch directory is gone.
	cleaned(ctx context.Context, app model.AppID)
	// cleanAgain asks once more for what is still to be cleaned.
	cleanAgain(ctx context.Context)
}

// run works until ctx ends. A directory that cannot be removed is tried a few times, told once, and
// left to the next round.
func (c *cleaner) run(ctx context.Context) error {
	tick := time.NewTicker(cleanupInterval)
	defer tick.Stop()
	c.prune(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.owner.cleanAgain(ctx)
			c.prune(ctx)
		case app := <-c.clean:
			if err := c.scratch(ctx, app); err != nil {
				c.log.Warn("scratch directory not removed", "app", app, "err", err)
				continue
			}
			c.owner.cleaned(ctx, app)
		}
	}
}

func (c *cleaner) scratch(ctx context.Context, app model.AppID) error {
	var err error
	for range maxCleanupRetries {
		if err = c.dir.removeScratch(app); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(backoffMax):
		}
	}
	return err
}

func (c *cleaner) prune(ctx context.Context) {
	n, err := c.dir.prune(time.Now(), MaxKeptApps, MaxKeptAge, func(app model.AppID) bool { return c.owner.inUse(ctx, app) })
	if err != nil {
		c.log.Warn("old directories not removed", "err", err)
	}
	if n > 0 {
		c.log.Info("removed directories of ended applications", "count", n)
	}
}
