package scheduler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

// one places an executor of a core.
func one() Demand { return Demand{Profile: model.Profile{Cores: 1}, CoresLeft: 1, Wanted: 1} }

func TestAWorkerThatComesBetweenOthersIsTriedInItsPlace(t *testing.T) {
	t.Parallel()
	for _, policy := range model.SelectionPolicies() {
		p := NewPool(policy)
		var want []string
		add := func(id string) {
			p.Set(&model.Worker{ID: model.WorkerID(id), Offer: model.Offer{Cores: 2, MemoryMiB: 2}}, model.Usage{})
		}
		add("z")
		for i := range 100 {
			add(strings.Repeat("a", 100-i)) // before all that came until now
			p.Len()
		}
		for i := range 100 {
			want = append(want, strings.Repeat("a", i+1))
		}
		want = append(want, "z")
		if policy == model.CoresFreeDesc || policy == model.MemoryFreeDesc {
			slices.Reverse(want)
		}
		d := Demand{Profile: model.Profile{Cores: 2, MemoryMiB: 2}, CoresLeft: 2, Wanted: 1}
		var got []string
		for range want {
			for _, s := range p.Take(d, nil) {
				got = append(got, string(s.Worker.ID))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: order (-want +got):\n%s", policy, diff)
		}
	}
}

func TestAWorkerThatChangesWhileItIsBlockedComesBackOnce(t *testing.T) {
	t.Parallel()
	p := NewPool(model.CoresFreeDesc)
	w := &model.Worker{ID: "w1", Offer: model.Offer{Cores: 4, MemoryMiB: 1}}
	p.Set(w, model.Usage{})
	blocked := func(model.WorkerID) bool { return true }
	d := one()
	for used := range 3 {
		if shares, fits := p.assign(&d, 1, nil, blocked); len(shares) > 0 || fits {
			t.Fatalf("%d shares on a blocked worker, fits %v", len(shares), fits)
		}
		p.Set(w, model.Usage{Cores: used})
		p.unpark(blocked)
	}
	if p.Len() != 0 || len(p.parked) != 1 {
		t.Fatalf("%d workers are in order and %d parked, want 0 and 1", p.Len(), len(p.parked))
	}
	p.Set(w, model.Usage{Cores: 4}) // nothing left
	if len(p.parked) != 0 {
		t.Fatal("a full worker is still parked")
	}
	p.unpark(nil)
	p.Set(w, model.Usage{Cores: 2})
	if p.Len() != 1 {
		t.Fatalf("%d workers are in order, want 1", p.Len())
	}
	if shares := p.Take(one(), nil); len(shares) != 1 || shares[0].Worker != w {
		t.Errorf("shares %+v, want one on w1", shares)
	}
}

func TestWhatIsGivenBackIsTakenAgain(t *testing.T) {
	t.Parallel()
	p := NewPool(model.CoresFreeDesc)
	p.Set(&model.Worker{ID: "w1", Offer: model.Offer{Cores: 4, MemoryMiB: 4096, Resources: model.Resources{"gpu": {"0", "1", "2"}}}},
		model.Usage{Resources: model.Resources{"gpu": {"1"}}})
	prof := model.Profile{Cores: 2, MemoryMiB: 1024, Resources: map[string]int{"gpu": 1}}
	d := Demand{Profile: prof, CoresLeft: 4, Wanted: 2}
	want := []model.Resources{{"gpu": {"0"}}, {"gpu": {"2"}}}
	for range 3 {
		shares := p.Take(d, nil)
		if len(shares) != 1 || p.Len() != 0 {
			t.Fatalf("%d shares, %d workers left, want 1 and 0", len(shares), p.Len())
		}
		if diff := cmp.Diff(want, shares[0].Addresses); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
		p.Give(shares[0], prof)
	}
}

// Of more names than the index tracks each still counts.
func TestEveryCustomResourceCounts(t *testing.T) {
	t.Parallel()
	p := NewPool(model.ByWorkerID)
	names := []string{"a", "b", "c", "d", "e"}
	for _, lacks := range names {
		offer := model.Offer{Cores: 4, MemoryMiB: 1024, Resources: model.Resources{}}
		for _, name := range names {
			if name != lacks {
				offer.Resources[name] = []string{"0"}
			}
		}
		p.Set(&model.Worker{ID: model.WorkerID("lacks-" + lacks), Offer: offer}, model.Usage{})
	}
	need := map[string]int{}
	for _, name := range names[:4] {
		need[name] = 1
	}
	shares := p.Take(Demand{Profile: model.Profile{Cores: 1, Resources: need}, CoresLeft: 9, Wanted: 9}, nil)
	if len(shares) != 1 || shares[0].Worker.ID != "lacks-e" || shares[0].Executors != 1 {
		t.Errorf("shares %+v, want one executor on the worker that lacks e", shares)
	}
}
