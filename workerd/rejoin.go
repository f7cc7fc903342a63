//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

const fenceFile = "fence.json"

// forget gives up the cluster, its epoch and its term; it is on disk when forget returns nil. The
// next leader that answers is obeyed, whoever it is.
func (f *fence) forget() error {
	if err := f.save(f.path, fenceState{Version: fenceVersion}); err != nil {
		return fmt.Errorf("give up cluster %s: %w", f.cluster.ID, err)
	}
	f.cluster, f.term, f.view = model.ClusterIdentity{}, 0, 0
	return nil
}

// rejoin gives up this worker's cluster, which its caller has seen to be that one. Executors run on:
// the inventory of the next Hello names them, and the new leader ends each by an order.
func (a *agent) rejoin(cluster string) error {
	switch {
	case a.stop.begun || a.hand != nil:
		return fmt.Errorf("%w: the worker is stopping or being restarted", model.ErrConflict)
	case a.fence.cluster.IsZero():
		return fmt.Errorf("%w: this worker belongs to no cluster: it joins that of its masters by itself", model.ErrConflict)
	case a.fence.cluster.ID != cluster:
		return fmt.Errorf("%w: this worker belongs to cluster %s by now, not to %s", model.ErrConflict, a.fence.cluster.ID, cluster)
	case a.up != nil:
		return fmt.Errorf("%w: this worker has a session with its cluster %s: there is nothing to rejoin", model.ErrRefused, cluster)
	}
	if err := a.fence.forget(); err != nil {
		return err
	}
	a.log.Warn("gave up its cluster by `hearth worker rejoin`; executors run until the new leader ends them",
		"cluster", cluster, "executors", a.table.live())
	a.foreign = model.ClusterIdentity{}
	a.changed(a.fence.cluster, a.id.incarnation)
	return nil
}

// foreignCluster implements sessionOwner.
func (a *agent) foreignCluster(ctx context.Context, theirs model.ClusterIdentity) (own model.ClusterIdentity) {
	_ = a.do(ctx, func() { a.foreign, own = theirs, a.fence.cluster })
	return own
}

// foreign tells, once until a leader has welcomed this worker, that masters of another cluster, or
// of an earlier epoch of this one, have refused it.
func (s *sessions) foreign(ctx context.Context, addr string, err error) {
	if s.toldForeign {
		return
	}
	theirs, askErr := s.identify(ctx, addr)
	if askErr != nil { // told as soon as it can be named
		s.log.Debug("cluster of a master not known", "master", addr, "err", askErr)
		return
	}
	s.toldForeign = true
	own := s.owner.foreignCluster(ctx, theirs)
	s.log.Error(fmt.Sprintf("refused: the masters are of cluster %s, this worker is of cluster %s and lets its executors run; "+
		"if that cluster is gone for good, run `hearth worker rejoin`", theirs, own), "master", addr, "err", err)
}

// identifier asks a master for its cluster.
func identifier(cfg rpc.DialConfig) func(ctx context.Context, addr string) (model.ClusterIdentity, error) {
	return func(ctx context.Context, addr string) (model.ClusterIdentity, error) {
		ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
		defer cancel()
		conn, err := rpc.Dial(addr, cfg)
		if err != nil {
			return model.ClusterIdentity{}, err
		}
		v, err := rpc.ClusterClient(conn).Status(ctx)
		if err := errors.Join(err, conn.Close()); err != nil {
			return model.ClusterIdentity{}, fmt.Errorf("ask %s for its cluster: %w", addr, err)
		}
		return model.ClusterIdentity{ID: v.Cluster, Epoch: v.Epoch}, nil
	}
}

// Stopped is the data directory of a worker that does not run, locked until Close.
type Stopped struct {
	lock  *os.File
	fence *fence
	// Masters are the gRPC addresses that the last leader named, if they differ from those that the
	// worker was given.
	Masters []string
}

// OpenStopped locks the data directory of a worker that does not run. ErrLocked is in the error if
// one does, fs.ErrNotExist if none ever has.
func OpenStopped(dataDir string) (*Stopped, error) {
	if _, err := os.Stat(filepath.Join(dataDir, identityFile)); err != nil {
		return nil, fmt.Errorf("no worker has ever run on this data directory: %w", err)
	}
	lock, err := lockDir(dataDir)
	if err != nil {
		return nil, err
	}
	s := &Stopped{lock: lock}
	masters, err := openMasters(filepath.Join(dataDir, "masters.json"), nil)
	if err == nil {
		s.Masters = masters.list()
		s.fence, err = openFence(filepath.Join(dataDir, fenceFile), hclog.NewNullLogger())
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// Cluster is the cluster that the worker belongs to, zero for none.
func (s *Stopped) Cluster() model.ClusterIdentity { return s.fence.cluster }

// Forget gives that cluster up: the next start obeys the leader that its masters have.
func (s *Stopped) Forget() error { return s.fence.forget() }

// Close gives the data directory back.
func (s *Stopped) Close() error { return s.lock.Close() }
