package scheduler

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// gridModel is a grid with what it should hold, by position.
type gridModel struct {
	grid  *grid
	slots []slot
	at    []int32
}

// newGridModel has room for n positions; slots are in the opposite order, so
// that one taken for the other shows.
func newGridModel(n int) *gridModel {
	m := &gridModel{slots: make([]slot, n), at: make([]int32, n)}
	for i := range n {
		m.at[i] = int32(n - 1 - i)
	}
	m.grid = newGrid(&m.slots, &m.at)
	return m
}

func (m *gridModel) turn(r *rand.Rand, pos uint32, growing float64) {
	s := &m.slots[m.at[pos]]
	free := capacity{int32(r.IntN(6)), int32(r.IntN(9)), int32(r.IntN(2)), int32(r.IntN(2))}
	switch {
	case s.place == inOrder && r.Float64() < 0.3:
		s.free = free
		m.grid.set(s.rank, pos, &s.free)
	case s.place == inOrder && r.Float64() > growing:
		m.grid.remove(s.rank, pos)
		s.place = outside
	case s.place == outside && r.Float64() < growing:
		s.free, s.rank, s.place = free, uint32(r.IntN(4)*50), inOrder
		m.grid.insert(m.at[pos], s.rank, pos, &s.free)
	}
}

// walk lists the positions that the grid finds.
func (m *gridModel) walk(need capacity, least uint32, down bool) (got []uint32) {
	m.grid.start(&need, least, down)
	for _, at, ok := m.grid.next(); ok; _, at, ok = m.grid.next() {
		got = append(got, uint32(len(m.at)-1-int(at)))
	}
	return got
}

// want lists the positions that it should find.
func (m *gridModel) want(need capacity, least uint32, down bool) (want []uint32) {
	for pos, at := range m.at {
		if s := &m.slots[at]; s.place == inOrder && s.rank >= least && s.free.covers(need) {
			want = append(want, uint32(pos))
		}
	}
	slices.SortStableFunc(want, func(a, b uint32) int {
		return cmp.Compare(m.slots[m.at[a]].rank, m.slots[m.at[b]].rank)
	})
	if down {
		slices.Reverse(want)
	}
	return want
}

func TestAGridAnswersLikeASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		m := newGridModel(rapid.SampledFrom([]int{10, 100, 5000, 20_000}).Draw(rt, "positions"))
		near := min(len(m.at), rapid.SampledFrom([]int{10, 300, 20_000}).Draw(rt, "near"))
		growing := 0.5
		for n := range rapid.IntRange(1, 3000).Draw(rt, "operations") {
			if n%200 == 0 {
				growing = []float64{0.1, 0.5, 0.9}[r.IntN(3)]
			}
			m.turn(r, uint32(r.IntN(near)*(len(m.at)/near)), growing)
		}
		for range 20 {
			need := capacity{int32(r.IntN(7)), int32(r.IntN(10)), int32(r.IntN(2)), int32(r.IntN(2))}
			least, down := uint32(r.IntN(220)), r.IntN(2) == 0
			if got, want := m.walk(need, least, down), m.want(need, least, down); !slices.Equal(got, want) {
				rt.Fatalf("need %v from %d, down %v:\ngot  %v\nwant %v", need, least, down, got, want)
			}
		}
		m.check(rt)
	})
}

// check looks for bounds that promise less than there is, and for parts that
// are kept although they are empty.
func (m *gridModel) check(t *rapid.T) {
	n := 0
	for pos, at := range m.at {
		s := &m.slots[at]
		if s.place != inOrder {
			continue
		}
		n++
		row := m.grid.rows[s.rank]
		sh := row.sheets[pos>>sheetBits]
		if b := &sh.blocks[pos>>blockBits&blockMask]; !row.most.covers(s.free) || !sh.most.covers(s.free) || !b.most.covers(s.free) {
			t.Fatalf("position %d has %v; bounds are %v, %v and %v", pos, s.free, row.most, sh.most, b.most)
		}
	}
	if n != m.grid.size() {
		t.Fatalf("size %d, want %d", m.grid.size(), n)
	}
	for rank, row := range m.grid.rows {
		if row == nil {
			continue
		}
		if in := m.grid.ranks.atMost(rank) == rank; in != (row.count > 0) {
			t.Fatalf("row %d of %d workers, in the set: %v", rank, row.count, in)
		}
		for i, sh := range row.sheets {
			if sh != nil && sh.used == 0 {
				t.Fatalf("row %d keeps sheet %d although it is empty", rank, i)
			}
		}
	}
}

// A row knows its sheets by words of 64, each of which stands for 262,144
// positions.
func TestAGridGoesOnBeyondAWordOfSheets(t *testing.T) {
	t.Parallel()
	m := newGridModel(600_000)
	want := []uint32{3, 262_143, 262_144, 599_999}
	for _, pos := range want {
		s := &m.slots[m.at[pos]]
		s.free, s.place = capacity{1}, inOrder
		m.grid.insert(m.at[pos], 0, pos, &s.free)
	}
	if got := m.walk(capacity{1}, 0, false); !slices.Equal(got, want) {
		t.Errorf("up: %v, want %v", got, want)
	}
	slices.Reverse(want)
	if got := m.walk(capacity{1}, 0, true); !slices.Equal(got, want) {
		t.Errorf("down: %v, want %v", got, want)
	}
}

func TestASearchOfAGridThatIsLedAstrayPutsInTheTruth(t *testing.T) {
	t.Parallel()
	m := newGridModel(10_000)
	for pos := range uint32(10_000) {
		s := &m.slots[m.at[pos]]
		s.free, s.place = capacity{1 + int32(pos%2)}, inOrder
		m.grid.insert(m.at[pos], 0, pos, &s.free)
	}
	for pos := uint32(1); pos < 10_000; pos += 2 {
		m.grid.remove(0, pos)
	}
	if got := m.walk(capacity{2}, 0, true); got != nil {
		t.Fatalf("found %v, want none", got)
	}
	if most := m.grid.rows[0].most[0]; most != 1 {
		t.Errorf("after a search of everything the row still promises %d, want 1", most)
	}
}

func TestABitsetFindsNeighboursLikeASortedList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.SampledFrom([]int{0, 63, 64, 5000, 1 << 20}).Draw(rt, "most")
		in := rapid.SliceOfDistinct(rapid.IntRange(0, most), rapid.ID[int]).Draw(rt, "members")
		out := rapid.SliceOf(rapid.SampledFrom(append([]int{0}, in...))).Draw(rt, "removed")
		var b bitset
		b.grow(most)
		for _, i := range in {
			b.add(i)
		}
		for _, i := range out {
			b.remove(i)
		}
		left := slices.DeleteFunc(slices.Clone(in), func(i int) bool { return slices.Contains(out, i) })
		slices.Sort(left)
		for _, i := range append(rapid.SliceOf(rapid.IntRange(0, most)).Draw(rt, "asked"), left...) {
			below, above := -1, -1
			for _, m := range left {
				if m <= i {
					below = m
				} else if above < 0 {
					above = m
				}
			}
			if below == i {
				above = i
			}
			if lo, hi := b.atMost(i), b.atLeast(i); lo != below || hi != above {
				rt.Fatalf("of %v next to %d: %d and %d, want %d and %d", left, i, lo, hi, below, above)
			}
		}
	})
}
