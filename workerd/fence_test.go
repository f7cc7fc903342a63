//go:build linux

package workerd

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"github.com/hearthd/hearth/model"
)

func testFence(t *testing.T, path string) *fence {
	t.Helper()
	f, err := openFence(path, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	f.session(7)
	return f
}

var (
	clusterA1 = model.ClusterIdentity{ID: "a", Epoch: 1, EpochID: 11}
	clusterA2 = model.ClusterIdentity{ID: "a", Epoch: 2, EpochID: 22}
)

func TestAFenceRefusesWhatIsOlderOrForeign(t *testing.T) {
	base := model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7, ViewIndex: 100}
	for _, c := range []struct {
		name string
		o    model.Fence
		want error
	}{
		{"the same again", base, nil},
		{"a later view", model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7, ViewIndex: 101}, nil},
		{"an earlier view", model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7, ViewIndex: 99}, errStaleView},
		{"a later term", model.Fence{Cluster: clusterA1, Term: 6, Incarnation: 7, ViewIndex: 100}, nil},
		{"an earlier term", model.Fence{Cluster: clusterA1, Term: 4, Incarnation: 7, ViewIndex: 200}, errStaleTerm},
		{"another incarnation", model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 8, ViewIndex: 200}, errIncarnation},
		{"another cluster", model.Fence{Cluster: model.ClusterIdentity{ID: "b", Epoch: 9}, Term: 9, Incarnation: 7, ViewIndex: 200}, model.ErrForeignCluster},
		{"no cluster", model.Fence{Term: 9, Incarnation: 7, ViewIndex: 200}, errNoCluster},
		{"an earlier epoch", model.Fence{Cluster: model.ClusterIdentity{ID: "a"}, Term: 9, Incarnation: 7, ViewIndex: 200}, model.ErrStaleEpoch},
		{"the same epoch by another hand", model.Fence{Cluster: model.ClusterIdentity{ID: "a", Epoch: 1, EpochID: 12}, Term: 9, Incarnation: 7, ViewIndex: 200}, model.ErrStaleEpoch},
		{"a later epoch whose terms begin again", model.Fence{Cluster: clusterA2, Term: 1, Incarnation: 7, ViewIndex: 100}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := testFence(t, filepath.Join(t.TempDir(), "fence.json"))
			if err := f.obey(base); err != nil {
				t.Fatal(err)
			}
			if err := f.obey(c.o); !errors.Is(err, c.want) || (c.want == nil && err != nil) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestALowerTermIsRefusedAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fence.json")
	if err := testFence(t, path).obey(model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7}); err != nil {
		t.Fatal(err)
	}
	f := testFence(t, path)
	if err := f.obey(model.Fence{Cluster: clusterA1, Term: 4, Incarnation: 7}); !errors.Is(err, errStaleTerm) {
		t.Errorf("got %v, want errStaleTerm", err)
	}
	if err := f.obey(model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7}); err != nil {
		t.Error(err)
	}
}

func TestAnOrderIsNotObeyedUnlessItsTermIsOnDisk(t *testing.T) {
	f := testFence(t, filepath.Join(t.TempDir(), "fence.json"))
	full := errors.New("disk full")
	f.save = func(string, any) error { return full }
	o := model.Fence{Cluster: clusterA1, Term: 5, Incarnation: 7}
	if err := f.obey(o); !errors.Is(err, full) {
		t.Errorf("got %v, want the error of the disk", err)
	}
	f.save = func(string, any) error { return nil }
	if err := f.obey(o); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// A thousand random orders, with restarts and new sessions between them, and not one stale one is
// obeyed. The oracle keeps what was obeyed in its own words.
func TestOfRandomOrdersNoStaleOneIsObeyed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		disk := map[string]fenceState{}
		open := func() *fence {
			f := &fence{path: "x", log: hclog.NewNullLogger(), cluster: disk["x"].Cluster, term: disk["x"].Term}
			f.save = func(path string, v any) error { disk[path] = v.(fenceState); return nil }
			return f
		}
		f := open()
		incarnation := uint64(1)
		f.session(incarnation)
		var best, view [2]uint64 // (epoch, term) obeyed; (unused, view) of this process
		for range 100 {
			switch rapid.IntRange(0, 19).Draw(r, "what") {
			case 0: // restart
				f = open()
				incarnation++
				f.session(incarnation)
				view = [2]uint64{}
			case 1: // new session, which makes no older view good
				f.session(incarnation)
			}
			o := model.Fence{
				Cluster:     rapid.SampledFrom([]model.ClusterIdentity{clusterA1, clusterA1, clusterA2, {ID: "b", Epoch: 3}, {}}).Draw(r, "cluster"),
				Term:        rapid.Uint64Range(1, 6).Draw(r, "term"),
				Incarnation: rapid.Uint64Range(max(incarnation, 2)-1, incarnation+1).Draw(r, "incarnation"),
				ViewIndex:   rapid.Uint64Range(0, 20).Draw(r, "view"),
			}
			first := best == [2]uint64{}
			stale := o.Incarnation != incarnation || o.Cluster.IsZero() ||
				(!first && o.Cluster.ID != disk["x"].Cluster.ID) ||
				(!first && o.Cluster.Epoch < best[0]) ||
				(!first && o.Cluster.Epoch == best[0] && o.Term < best[1]) ||
				(o.Cluster == disk["x"].Cluster && o.ViewIndex < view[1])
			err := f.obey(o)
			if stale && err == nil {
				r.Fatalf("obeyed %+v after %v, view %v", o, best, view)
			}
			if !stale && err != nil {
				r.Fatalf("refused %+v after %v, view %v: %v", o, best, view, err)
			}
			if d := disk["x"]; !d.Cluster.IsZero() {
				best = [2]uint64{d.Cluster.Epoch, d.Term}
			}
			if err == nil {
				view[1] = o.ViewIndex
				if best != [2]uint64{o.Cluster.Epoch, o.Term} {
					r.Fatalf("obeyed %+v but remembers %v", o, best)
				}
			}
		}
	})
}
