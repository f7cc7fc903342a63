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
	dir    *workDir
	log    hclog.Logger
	clean  <-chan model.AppID // applications whose scratch directory is to go
	owner  cleanerOwner
	keep   retention
	report func(kept) // may be nil

	pruned time.Time // when prune began last
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
			if time.Since(c.pruned) >= pruneRest {
				c.prune(ctx)
			}
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
	c.pruned = time.Now()
	k, err := c.dir.prune(ctx, time.Now(), c.keep, func(app model.AppID) bool { return c.owner.inUse(ctx, app) })
	if err != nil {
		c.log.Warn("old directories not removed", "err", err)
	}
	if k.removed > 0 {
		c.log.Info("removed directories of ended applications", "count", k.removed, "freed_bytes", k.freed)
	}
	if over := k.live + k.ended - c.keep.budget; c.keep.budget > 0 && over > 0 && err == nil {
		c.log.Warn("the work directory is larger than its budget, and nothing of it may be removed yet",
			"budget_bytes", c.keep.budget, "running_bytes", k.live, "ended_bytes", k.ended)
	}
	if c.report != nil {
		c.report(k)
	}
}
