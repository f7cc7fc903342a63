package scheduler

import "math/bits"

// Sizes of a grid's parts: a word of positions is a block, a word of blocks a
// sheet.
const (
	blockBits = 6
	sheetBits = 2 * blockBits
	blockMask = 1<<blockBits - 1
)

// grid keeps workers in the order of a small number, their rank, and of their
// position among all ids. It fits the policies that go by cores, of which
// there are few different numbers: each has a row of one bit for each
// position. To put in a worker is to set a bit, and to find one is to look at
// a word of bits on each of four levels.
//
// Each word carries a bound of what its workers have, so that a search passes
// over words that cannot answer it. As in a tree, bounds are raised at once and
// lowered by the search that was led astray.
type grid struct {
	slots *[]slot
	// at are the slots by position.
	at    *[]int32
	rows  []*row // by rank; nil = never used
	ranks bitset // the rows that are not empty
	count int
	spare []*sheet // empty ones
	walk  gridWalk
}

// row is the workers of one rank.
type row struct {
	most   capacity
	count  int32
	used   []uint64 // which sheets there are
	sheets []*sheet
}

// sheet is 4,096 positions of a row.
type sheet struct {
	used   uint64 // blocks that are not empty
	most   capacity
	blocks [1 << blockBits]block
}

// block is 64 positions of a row.
type block struct {
	used uint64
	most capacity // of no meaning while the block is empty
}

func (c *capacity) raise(o *capacity) {
	for d := range c {
		c[d] = max(c[d], o[d])
	}
}

func (c *capacity) holds(need *capacity) bool {
	return c[0] >= need[0] && c[1] >= need[1] && c[2] >= need[2] && c[3] >= need[3]
}

func newGrid(slots *[]slot, at *[]int32) *grid { return &grid{slots: slots, at: at} }

func (g *grid) size() int { return g.count }

// track is no news: each dimension is.
func (g *grid) track(int) {}

// row makes room for a position of a rank.
func (g *grid) row(rank, pos uint32) *row {
	if n := int(rank) + 1; n > len(g.rows) {
		g.rows = append(g.rows, make([]*row, n-len(g.rows))...)
		g.ranks.grow(int(rank))
	}
	r := g.rows[rank]
	if r == nil {
		r = new(row)
		g.rows[rank] = r
	}
	for int(pos>>sheetBits) >= len(r.sheets) {
		r.sheets = append(r.sheets, nil)
		if len(r.sheets) > len(r.used)<<6 {
			r.used = append(r.used, 0)
		}
	}
	return r
}

// insert adds the worker at a position, which must not be there.
func (g *grid) insert(_ int32, rank, pos uint32, c *capacity) {
	r := g.row(rank, pos)
	g.count++
	if r.count++; r.count == 1 {
		r.most = *c
		g.ranks.add(int(rank))
	} else {
		r.most.raise(c)
	}
	i := pos >> sheetBits
	s := r.sheets[i]
	if s == nil {
		s = g.newSheet()
		s.most = *c
		r.sheets[i] = s
		r.used[i>>6] |= 1 << (i & 63)
	} else {
		s.most.raise(c)
	}
	j := pos >> blockBits & blockMask
	b := &s.blocks[j]
	if b.used == 0 {
		b.most = *c
		s.used |= 1 << j
	} else {
		b.most.raise(c)
	}
	b.used |= 1 << (pos & blockMask)
}

func (g *grid) newSheet() *sheet {
	if n := len(g.spare); n > 0 {
		s := g.spare[n-1]
		g.spare = g.spare[:n-1]
		return s
	}
	return new(sheet)
}

// remove takes out the worker at a position, which must be there.
func (g *grid) remove(rank, pos uint32) {
	r := g.rows[rank]
	i, j := pos>>sheetBits, pos>>blockBits&blockMask
	s := r.sheets[i]
	b := &s.blocks[j]
	bit := uint64(1) << (pos & blockMask)
	if b.used&bit == 0 {
		panic("scheduler: a worker is not where the index says")
	}
	g.count--
	if r.count--; r.count == 0 {
		g.ranks.remove(int(rank))
	}
	if b.used &^= bit; b.used != 0 {
		return
	}
	if s.used &^= 1 << j; s.used != 0 {
		return
	}
	r.sheets[i] = nil
	r.used[i>>6] &^= 1 << (i & 63)
	g.spare = append(g.spare, s)
}

// set says what the worker at a position has now.
func (g *grid) set(rank, pos uint32, c *capacity) {
	r := g.rows[rank]
	s := r.sheets[pos>>sheetBits]
	r.most.raise(c)
	s.most.raise(c)
	s.blocks[pos>>blockBits&blockMask].most.raise(c)
}

// lowerBlock puts in the truth about a block.
func (g *grid) lowerBlock(b *block, first uint32) {
	var most capacity
	for w := b.used; w != 0; w &= w - 1 {
		at := (*g.at)[first|uint32(bits.TrailingZeros64(w))]
		most.raise(&(*g.slots)[at].free)
	}
	b.most = most
}

func (s *sheet) lower() {
	var most capacity
	for w := s.used; w != 0; w &= w - 1 {
		most.raise(&s.blocks[bits.TrailingZeros64(w)].most)
	}
	s.most = most
}

func (r *row) lower() {
	var most capacity
	for _, s := range r.sheets {
		if s != nil {
			most.raise(&s.most)
		}
	}
	r.most = most
}
