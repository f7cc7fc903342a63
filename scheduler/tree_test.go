package scheduler

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// flat is what a tree should hold, as a sorted list.
type flat []flatEntry

type flatEntry struct {
	key uint64
	cap capacity
	ref int32
}

func (c capacity) covers(need capacity) bool {
	return c[0] >= need[0] && c[1] >= need[1] && c[2] >= need[2] && c[3] >= need[3]
}

func (t *tree) capacity(nd *node, i int32) (c capacity) {
	c[t.first] = nd.entries[i].cap
	for o, d := range t.others {
		c[d] = nd.others[o][i]
	}
	return c
}

func (f flat) at(key uint64) (int, bool) {
	return slices.BinarySearchFunc(f, key, func(e flatEntry, k uint64) int { return cmp.Compare(e.key, k) })
}

func TestATreeAnswersLikeASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		keys := rapid.SampledFrom([]int{10, 100, 5000}).Draw(rt, "keys")
		growing := 0.5
		tr, list := newTree(0, 1, 2), flat(nil)
		for n := range rapid.IntRange(1, 3000).Draw(rt, "operations") {
			if n%200 == 0 {
				growing = []float64{0.2, 0.5, 0.9}[r.IntN(3)]
			}
			key := uint64(r.IntN(keys))
			c := capacity{int32(r.IntN(4)), int32(r.IntN(9)), int32(r.IntN(2)), 0}
			i, there := list.at(key)
			switch {
			case there && r.Float64() < 0.3:
				tr.set(key, c)
				list[i].cap = c
			case there && r.Float64() > growing:
				tr.remove(key)
				list = slices.Delete(list, i, i+1)
			case !there && r.Float64() < growing:
				tr.insert(key, c, int32(n))
				list = slices.Insert(list, i, flatEntry{key, c, int32(n)})
			}
		}
		checkTree(rt, tr, tr.root, tr.depth)
		if tr.size != len(list) {
			rt.Fatalf("size %d, want %d", tr.size, len(list))
		}
		for range 20 {
			need := capacity{int32(r.IntN(5)), int32(r.IntN(10)), int32(r.IntN(2)), 0}
			checkWalk(rt, tr, list, need, uint64(r.IntN(keys)))
		}
	})
}

// checkWalk compares both walks with the list.
func checkWalk(t *rapid.T, tr *tree, list flat, need capacity, from uint64) {
	var up, down, gotUp, gotDown []int32
	for _, e := range list {
		if e.cap.covers(need) {
			down = append(down, e.ref)
			if e.key >= from {
				up = append(up, e.ref)
			}
		}
	}
	slices.Reverse(down)
	var c cursor
	c.ascend(tr, from, need)
	for _, ref, ok := c.next(); ok; _, ref, ok = c.next() {
		gotUp = append(gotUp, ref)
	}
	c.descend(tr, need)
	for _, ref, ok := c.next(); ok; _, ref, ok = c.next() {
		gotDown = append(gotDown, ref)
	}
	if !slices.Equal(up, gotUp) || !slices.Equal(down, gotDown) {
		t.Fatalf("need %v from %d:\nup   %v\nwant %v\ndown %v\nwant %v", need, from, gotUp, up, gotDown, down)
	}
}

// checkTree checks that inner entries tell the truth and nodes are not empty
// where there is a choice.
func checkTree(t *rapid.T, tr *tree, at int32, depth int) {
	nd := &tr.nodes[at]
	for i := range nd.n {
		if i > 0 && nd.entries[i-1].key >= nd.entries[i].key {
			t.Fatalf("node %d: keys %d and %d are out of order", at, nd.entries[i-1].key, nd.entries[i].key)
		}
		if depth == 0 {
			continue
		}
		below := &tr.nodes[nd.entries[i].ref]
		if c := tr.capacity(nd, i); !c.covers(tr.most(below)) {
			t.Fatalf("node %d: the entry says %v, below there is up to %v", at, c, tr.most(below))
		}
		if below.n > 0 && (below.entries[0].key < nd.entries[i].key || (i+1 < nd.n && below.entries[below.n-1].key >= nd.entries[i+1].key)) {
			t.Fatalf("node %d: keys %d to %d are not below entry %d", at, below.entries[0].key, below.entries[below.n-1].key, i)
		}
		checkTree(t, tr, nd.entries[i].ref, depth-1)
	}
}

func TestATreeThatHasShrunkIsFlatAgain(t *testing.T) {
	t.Parallel()
	const n = 100_000
	tr := newTree(0)
	for i := range uint64(n) {
		tr.insert(i*7919%n, capacity{1}, int32(i))
	}
	if tr.depth > 4 {
		t.Errorf("%d entries are %d levels deep", n, tr.depth)
	}
	nodes := len(tr.nodes)
	for i := range uint64(n - 10) {
		tr.remove(i)
	}
	if tr.depth > 1 {
		t.Errorf("10 entries are %d levels deep", tr.depth)
	}
	if used := len(tr.nodes) - len(tr.spare); used > 4 {
		t.Errorf("10 entries use %d of %d nodes", used, nodes)
	}
}

func TestASearchThatIsLedAstrayPutsInTheTruth(t *testing.T) {
	t.Parallel()
	const n = 10_000
	tr := newTree(0)
	for i := range uint64(n) {
		tr.insert(i, capacity{1 + int32(i%2)}, int32(i))
	}
	for i := uint64(1); i < n; i += 2 {
		tr.remove(i)
	}
	var c cursor
	c.descend(tr, capacity{2})
	if _, ref, ok := c.next(); ok {
		t.Fatalf("found entry %d, want none", ref)
	}
	if most := tr.most(&tr.nodes[tr.root])[0]; tr.depth == 0 || most != 1 {
		t.Errorf("after a search of all %d levels the root still promises %d, want 1", tr.depth+1, most)
	}
}
