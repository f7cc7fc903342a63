package scheduler

import "math/bits"

// gridWalk is a search in a grid. Of each level it keeps which parts are still
// to be looked at, and whether the part that it is in has answered anything.
type gridWalk struct {
	need  capacity
	least int // rank
	down  bool

	rank   int // of the row; -1 = the walk is over
	row    *row
	word   int    // of row.used
	sheets uint64 // of that word, to be looked at
	sheet  *sheet
	blocks uint64
	block  *block
	bits   uint64
	first  uint32 // position of the sheet, then of the block

	rowFound, sheetFound, blockFound bool
}

// start begins a search for workers whose rank is at least so much and that
// have what is needed, up from the lowest or down from the highest. The grid
// must not change meanwhile.
func (g *grid) start(need *capacity, least uint32, down bool) {
	w := &g.walk
	*w = gridWalk{need: *need, least: int(least), down: down}
	if down {
		w.rank = g.ranks.atMost(len(g.rows) - 1)
	} else {
		w.rank = g.ranks.atLeast(w.least)
	}
	g.enterRow()
}

// startAt is start for the lowest rank alone, upwards from a position on.
func (g *grid) startAt(need *capacity, pos uint32) {
	w := &g.walk
	*w = gridWalk{need: *need, rank: -1}
	sheet := int(pos >> sheetBits)
	if len(g.rows) == 0 || g.rows[0] == nil || !g.rows[0].most.holds(need) || sheet>>6 >= len(g.rows[0].used) {
		return
	}
	// What is passed over has not been looked at: bounds are lowered by none but
	// what they hold, and that is read in full.
	w.rank, w.row, w.word = 0, g.rows[0], sheet>>6
	w.sheets = w.row.used[w.word] >> (sheet & 63) << (sheet & 63)
	if w.sheets>>(sheet&63)&1 == 0 || !w.row.sheets[sheet].most.holds(need) {
		return
	}
	w.sheets &^= 1 << (sheet & 63)
	block := pos >> blockBits & blockMask
	w.sheet, w.first = w.row.sheets[sheet], uint32(sheet)<<sheetBits
	w.blocks = w.sheet.used >> block << block
	if b := &w.sheet.blocks[block]; w.blocks>>block&1 == 1 && b.most.holds(need) {
		w.blocks &^= 1 << block
		w.block, w.first = b, w.first|block<<blockBits
		w.bits = b.used >> (pos & blockMask) << (pos & blockMask)
	}
}

// pick takes the next one out of a word of bits that is not 0.
func pick(word *uint64, down bool) uint32 {
	if down {
		i := 63 - bits.LeadingZeros64(*word)
		*word &^= 1 << i
		return uint32(i)
	}
	i := bits.TrailingZeros64(*word)
	*word &= *word - 1
	return uint32(i)
}

// next returns the next worker that has what is needed.
func (g *grid) next() (rank uint32, at int32, ok bool) {
	w := &g.walk
	for w.rank >= 0 {
		for w.bits != 0 {
			at = (*g.at)[w.first|pick(&w.bits, w.down)]
			if (*g.slots)[at].free.holds(&w.need) {
				w.blockFound, w.sheetFound, w.rowFound = true, true, true
				return uint32(w.rank), at, true
			}
		}
		if !g.nextBlock() && !g.nextSheet() {
			g.nextRow()
		}
	}
	return 0, 0, false
}

// nextBlock goes on to the next block of the sheet that may have an answer.
func (g *grid) nextBlock() bool {
	w := &g.walk
	if w.block != nil && !w.blockFound { // the bound has promised what is not there
		g.lowerBlock(w.block, w.first)
	}
	for w.blocks != 0 {
		i := pick(&w.blocks, w.down)
		if b := &w.sheet.blocks[i]; b.most.holds(&w.need) {
			w.block, w.bits, w.blockFound = b, b.used, false
			w.first = w.first&^(1<<sheetBits-1) | i<<blockBits
			return true
		}
	}
	w.block = nil
	return false
}

// nextSheet goes on to the next sheet of the row that may have an answer.
func (g *grid) nextSheet() bool {
	w := &g.walk
	if w.sheet != nil && !w.sheetFound {
		w.sheet.lower()
	}
	for {
		for w.sheets != 0 {
			i := uint32(w.word)<<6 | pick(&w.sheets, w.down)
			if s := w.row.sheets[i]; s.most.holds(&w.need) {
				w.sheet, w.blocks, w.sheetFound = s, s.used, false
				w.first = i << sheetBits
				return true
			}
		}
		if w.word++; w.down {
			w.word -= 2
		}
		if w.word < 0 || w.word >= len(w.row.used) {
			w.sheet = nil
			return false
		}
		w.sheets = w.row.used[w.word]
	}
}

// nextRow goes on to the next row that may have an answer.
func (g *grid) nextRow() {
	w := &g.walk
	if !w.rowFound {
		w.row.lower()
	}
	if w.down {
		w.rank = g.ranks.atMost(w.rank - 1)
	} else {
		w.rank = g.ranks.atLeast(w.rank + 1)
	}
	g.enterRow()
}

// enterRow passes over rows that cannot have an answer, and ends the walk
// behind the last.
func (g *grid) enterRow() {
	w := &g.walk
	for w.rank >= 0 {
		if w.rank < w.least {
			w.rank = -1
			return
		}
		if r := g.rows[w.rank]; r.most.holds(&w.need) {
			w.row, w.rowFound = r, false
			if w.word = 0; w.down {
				w.word = len(r.used) - 1
			}
			w.sheets = r.used[w.word]
			return
		}
		if w.down {
			w.rank = g.ranks.atMost(w.rank - 1)
		} else {
			w.rank = g.ranks.atLeast(w.rank + 1)
		}
	}
}
