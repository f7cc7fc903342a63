//go:build linux

package workerd

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

const fenceVersion = 1

// Reasons for which an order is not obeyed.
var (
	errStaleTerm   = errors.New("order of an older term")
	errStaleView   = errors.New("order made from an older view")
	errIncarnation = errors.New("order for another incarnation")
	errNoCluster   = errors.New("order without a cluster")
)

// fence decides which orders this worker obeys (design 7). It remembers the cluster, its recovery
// epoch and the term of the last order obeyed, on disk, and, while the process lives, the highest view
// index. It is used by one goroutine.
type fence struct {
	path string
	log  hclog.Logger
	save func(path string, v any) error // writeState, but for tests

	cluster model.ClusterIdentity
	term    uint64

	incarnation uint64
	view        uint64 // highest seen, on whatever session

	told map[error]bool // kinds of refusal already logged in this term
}

type fenceState struct {
	Version int                   `json:"version"`
	Cluster model.ClusterIdentity `json:"cluster"`
	Term    uint64                `json:"term"`
}

// openFence reads what was obeyed before; a missing file means nothing was.
func openFence(path string, log hclog.Logger) (*fence, error) {
	f := &fence{path: path, log: log, save: writeState}
	var state fenceState
	err := readState(path, &state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("fence: %w", err)
	case state.Version != fenceVersion:
		return nil, fmt.Errorf("fence: %s has version %d, this build reads %d", path, state.Version, fenceVersion)
	}
	f.cluster, f.term = state.Cluster, state.Term
	return f, nil
}

// session begins a new session of this incarnation.
func (f *fence) session(incarnation uint64) {
	f.incarnation = incarnation
}

// obey returns nil if an order with this fence is to be obeyed. A new cluster, epoch or term is on
// disk by then; if it cannot be written the order is not obeyed.
func (f *fence) obey(o model.Fence) error {
	if o.Incarnation != f.incarnation {
		return fmt.Errorf("%w: it names %d, this is %d", errIncarnation, o.Incarnation, f.incarnation)
	}
	if err := f.accept(o); err != nil {
		return err
	}
	// A leader's view only grows, and the next leader has all that it was made from: who knows less is
	// behind, also on a new session. Only a recovered cluster may begin with a lower one.
	if o.ViewIndex < f.view {
		return fmt.Errorf("%w: %d after %d", errStaleView, o.ViewIndex, f.view)
	}
	f.view = o.ViewIndex
	return nil
}

// accept checks and remembers cluster, epoch and term only. It serves for what is no order about
// an executor, such as Rehello, whose sender does not know this incarnation.
func (f *fence) accept(o model.Fence) error {
	if o.Cluster.IsZero() {
		return errNoCluster
	}
	if err := f.cluster.Accepts(o.Cluster); err != nil {
		return err
	}
	// A higher epoch means that the cluster was recovered: its terms may begin again.
	if o.Cluster == f.cluster && o.Term < f.term {
		return fmt.Errorf("%w: %d after %d", errStaleTerm, o.Term, f.term)
	}
	if o.Cluster == f.cluster && o.Term == f.term {
		return nil
	}
	if o.Cluster != f.cluster {
		f.view = 0
	}
	next := fenceState{Version: fenceVersion, Cluster: o.Cluster, Term: o.Term}
	if err := f.save(f.path, next); err != nil {
		return fmt.Errorf("remember term %d: %w", o.Term, err)
	}
	f.cluster, f.term, f.told = o.Cluster, o.Term, nil
	return nil
}

// refuse logs why an order was not obeyed, once per kind and term.
func (f *fence) refuse(what string, err error) {
	kind := err
	for _, k := range []error{errStaleTerm, errStaleView, errIncarnation, errNoCluster, model.ErrForeignCluster, model.ErrStaleEpoch} {
		if errors.Is(err, k) {
			kind = k
		}
	}
	if f.told[kind] {
		return
	}
	if f.told == nil {
		f.told = make(map[error]bool)
	}
	f.told[kind] = true
	f.log.Warn("order refused; more of this kind are not logged in this term", "order", what, "err", err)
}
