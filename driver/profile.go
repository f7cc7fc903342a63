package driver

import (
	"context"
	"fmt"
	"maps"

	"github.com/hearthd/hearth/model"
)

// ProfileSpec is a size of executors (Spark's ResourceProfile).
type ProfileSpec struct {
	// Cores and MemoryMiB of one executor; 0 = as the program's own executors.
	Cores     int
	MemoryMiB int64
	// Resources are what it has besides, such as {"gpu": 1}, and nothing else: the
	// program's own are not inherited (spark-standalone 1.G).
	Resources map[string]int
	// CoresPerTask is how many of its cores one call takes; 0 = as Program says.
	CoresPerTask int
}

// Profile is a size of executors beside the program's own. Calls get it by
// WithProfile, and run on executors of that size alone. Safe for concurrent use.
type Profile struct {
	app    *App
	number int
	spec   ProfileSpec
}

// Number names the profile in what the cluster shows, from 1 on. It is 0, the
// program's own size, for nil.
func (p *Profile) Number() int {
	if p == nil {
		return model.ProfileDefault
	}
	return p.number
}

// WithProfile runs calls on executors of this size alone, and on none of the
// program's own; nil changes nothing. While there is no such executor they wait; the
// driver says so after 10 s.
func WithProfile(p *Profile) Option { return func(o *callOptions) { o.profile = p } }

// NewProfile makes a size of executors known to the cluster, where it lasts as long
// as the application. The same size gives the same profile again. There are no
// executors of it before SetExecutors, or, with Program.Dynamic, before the first
// calls. Errors wrap model.ErrInvalid for a size that cannot be. It returns when
// the profile is committed.
func (a *App) NewProfile(ctx context.Context, spec ProfileSpec) (*Profile, error) {
	spec.Resources = maps.Clone(spec.Resources)
	if spec.CoresPerTask == 0 {
		spec.CoresPerTask = a.drv.cfg.CoresPerTask
	}
	cores := spec.Cores
	if cores == 0 {
		cores = a.drv.cfg.Spec.Profile.Cores
	}
	if spec.CoresPerTask < 0 || cores > 0 && spec.CoresPerTask > cores {
		return nil, fmt.Errorf("new profile: %w: a call takes %d cores, an executor has %d", model.ErrInvalid, spec.CoresPerTask, cores)
	}
	a.profiling.Lock()
	defer a.profiling.Unlock()
	for _, p := range a.profiles {
		if p.spec.equal(spec) {
			return p, nil
		}
	}
	a.lastProfile++ // a failed one may be known all the same
	p := &Profile{app: a, number: a.lastProfile, spec: spec}
	size := model.Profile{Cores: spec.Cores, MemoryMiB: spec.MemoryMiB, Resources: spec.Resources}
	if err := a.drv.RequestExecutors(ctx, ExecutorRequest{Profiles: map[int]model.Profile{p.number: size}}); err != nil {
		return nil, fmt.Errorf("new profile: %w", err)
	}
	if err := a.drv.call(ctx, func(l *loop) { l.lane(p.number).taskCores = spec.CoresPerTask }); err != nil {
		return nil, fmt.Errorf("new profile: %w", err)
	}
	a.profiles = append(a.profiles, p)
	return p, nil
}

// SetExecutors asks the cluster for that many executors of this size from now on.
// It returns when the wish is committed; see App.SetExecutors. Not with
// Program.Dynamic, which does it by itself.
func (p *Profile) SetExecutors(ctx context.Context, n int) error {
	if p.app.program.Dynamic != nil {
		return fmt.Errorf("set executors of profile %d: %w: Program.Dynamic decides how many there are", p.number, model.ErrConflict)
	}
	return p.app.drv.setTarget(ctx, p.number, n)
}

func (s ProfileSpec) equal(t ProfileSpec) bool {
	return s.Cores == t.Cores && s.MemoryMiB == t.MemoryMiB && s.CoresPerTask == t.CoresPerTask && maps.Equal(s.Resources, t.Resources)
}
