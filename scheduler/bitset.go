package scheduler

import "math/bits"

// bitsetLevels is how many levels a bitset has: 64^4 numbers, more than
// model.MaxCores.
const bitsetLevels = 4

// bitset is a set of numbers in which the next lower or higher one is found by
// looking at a few words: the bits of each level say which words of the level
// below are not 0.
type bitset [bitsetLevels][]uint64

// grow makes room for the numbers up to most.
func (b *bitset) grow(most int) {
	for l := range b {
		most >>= 6
		for len(b[l]) <= most {
			b[l] = append(b[l], 0)
		}
	}
}

func (b *bitset) add(i int) {
	for l := range b {
		w := &b[l][i>>6]
		was := *w
		*w |= 1 << (i & 63)
		if was != 0 {
			return
		}
		i >>= 6
	}
}

func (b *bitset) remove(i int) {
	for l := range b {
		w := &b[l][i>>6]
		if *w &^= 1 << (i & 63); *w != 0 {
			return
		}
		i >>= 6
	}
}

// atMost is the highest number of the set that is not above i, or -1.
func (b *bitset) atMost(i int) int {
	i = min(i, len(b[0])<<6-1)
	for l := 0; l < bitsetLevels && i >= 0; l++ {
		if w := b[l][i>>6] << (63 - i&63); w != 0 {
			i -= bits.LeadingZeros64(w)
			for l--; l >= 0; l-- {
				i = i<<6 + 63 - bits.LeadingZeros64(b[l][i])
			}
			return i
		}
		i = i>>6 - 1
	}
	return -1
}

// atLeast is the lowest number of the set that is not below i, or -1.
func (b *bitset) atLeast(i int) int {
	for l := 0; l < bitsetLevels && i>>6 < len(b[l]); l++ {
		if w := b[l][i>>6] >> (i & 63); w != 0 {
			i += bits.TrailingZeros64(w)
			for l--; l >= 0; l-- {
				i = i<<6 + bits.TrailingZeros64(b[l][i])
			}
			return i
		}
		i = i>>6 + 1
	}
	return -1
}
