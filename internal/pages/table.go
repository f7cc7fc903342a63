package pages

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// Table holds records by their numbers. The zero value cannot be used; see New. Not
// safe for concurrent use.
type Table[K ~uint64, T any] struct {
	pages map[K]*page[K, T]
	last  *page[K, T] // the one looked at last
	// spare are empty pages for the next numbers.
	spare  []*page[K, T]
	spares int
	bits   uint
	size   int
}

type page[K ~uint64, T any] struct {
	number  K
	records []*T
	used    int
}

// New makes a table of pages of 1<<bits numbers, and keeps up to spares empty pages.
// A page should cover about as many numbers as live and end together.
func New[K ~uint64, T any](bits uint, spares int) Table[K, T] {
	return Table[K, T]{pages: make(map[K]*page[K, T]), spares: spares, bits: bits}
}

// Len is how many records there are.
func (tb *Table[K, T]) Len() int { return tb.size }

func (tb *Table[K, T]) page(id K) *page[K, T] {
	n := id >> tb.bits
	if tb.last != nil && tb.last.number == n {
		return tb.last
	}
	p := tb.pages[n]
	if p != nil {
		tb.last = p
	}
	return p
}

// slot is where a number is in its page.
func (p *page[K, T]) slot(id K) **T { return &p.records[id&K(len(p.records)-1)] } //nolint:gosec // a power of two

// Get returns the record of a number, nil if there is none.
func (tb *Table[K, T]) Get(id K) *T {
	if p := tb.page(id); p != nil {
		return *p.slot(id)
	}
	return nil
}

// Put adds a record whose number is not in the table.
func (tb *Table[K, T]) Put(id K, rec *T) {
	p := tb.page(id)
	if p == nil {
		if n := len(tb.spare); n > 0 {
			p, tb.spare = tb.spare[n-1], tb.spare[:n-1]
		} else {
			p = &page[K, T]{records: make([]*T, 1<<tb.bits)}
		}
		p.number = id >> tb.bits
		tb.pages[p.number], tb.last = p, p
	}
	*p.slot(id) = rec
	p.used++
	tb.size++
}

// Remove forgets a number that is in the table.
func (tb *Table[K, T]) Remove(id K) {
	p := tb.page(id)
	*p.slot(id) = nil
	tb.size--
	if p.used--; p.used > 0 {
		return
	}
	delete(tb.pages, p.number)
	tb.last = nil
	if len(tb.spare) < tb.spares {
		tb.spare = append(tb.spare, p)
	}
}

// All lists the records in the order of their numbers. The table may be changed
// meanwhile: what is listed is what was there at the beginning.
func (tb *Table[K, T]) All() iter.Seq2[K, *T] {
	type entry struct {
		id  K
		rec *T
	}
	return func(yield func(K, *T) bool) {
		all := make([]entry, 0, tb.size)
		for _, p := range slices.SortedFunc(maps.Values(tb.pages), func(a, b *page[K, T]) int { return cmp.Compare(a.number, b.number) }) {
			for i, rec := range p.records {
				if rec != nil {
					all = append(all, entry{p.number<<tb.bits + K(i), rec}) //nolint:gosec // an index
				}
			}
		}
		for _, e := range all {
			if !yield(e.id, e.rec) {
				return
			}
		}
	}
}
