package scheduler

import "github.com/hearthd/hearth/model"

// The order in which workers are tried (spark-standalone 1.F step 3) is that
// of one number: free cores or memory, as the policy says, above the worker's
// position among all ids as strings. The descending orders are the ascending
// ones walked backwards, ties included: equal workers go by descending id.

// Dimensions of a capacity. What the key of a tree tells already is not tracked
// there: it would change inner entries at every turn for nothing.
const (
	dimCores = iota
	dimMemory
	dimResources // first of those for custom resources
)

// trackedResources is how many names of custom resources the index knows;
// others are looked at worker by worker.
const trackedResources = dimensions - dimResources

// order is how a policy arranges workers.
type order struct {
	cores, memory bool // what the key begins with; neither = the id alone
	down          bool
}

func orderOf(p model.SelectionPolicy) order {
	switch p {
	case model.CoresFreeAsc:
		return order{cores: true}
	case model.MemoryFreeAsc:
		return order{memory: true}
	case model.MemoryFreeDesc:
		return order{memory: true, down: true}
	case model.ByWorkerID:
		return order{}
	case model.CoresFreeDesc:
	}
	return order{cores: true, down: true}
}

// rank is the number that a policy goes by.
func (o order) rank(free *capacity) uint32 {
	switch {
	case o.cores:
		return uint32(free[dimCores])
	case o.memory:
		return uint32(free[dimMemory])
	}
	return 0
}

// ranking keeps the workers that have something left in the order of their
// rank and, where that is equal, of their position among all ids. Each is known
// by both.
type ranking interface {
	insert(at int32, rank, pos uint32, c *capacity)
	remove(rank, pos uint32)
	// set changes what a worker has while its rank is the same.
	set(rank, pos uint32, c *capacity)
	size() int
	// track adds a dimension that is asked for.
	track(dimension int)
	// start begins a search for those whose rank is at least so much and that
	// have what is needed; next returns them one by one. Nothing must change
	// meanwhile.
	start(need *capacity, least uint32, down bool)
	next() (rank uint32, at int32, ok bool)
}

// sorted is a ranking of numbers of which there are many: a tree, whose keys
// are the rank above the position.
type sorted struct {
	tree   *tree
	cursor cursor
	least  uint64
}

func newSorted(first int, others ...int) *sorted { return &sorted{tree: newTree(first, others...)} }

func key(rank, pos uint32) uint64 { return uint64(rank)<<32 | uint64(pos) }

func (s *sorted) insert(at int32, rank, pos uint32, c *capacity) {
	s.tree.insert(key(rank, pos), *c, at)
}

func (s *sorted) remove(rank, pos uint32) { s.tree.remove(key(rank, pos)) }

func (s *sorted) set(rank, pos uint32, c *capacity) { s.tree.set(key(rank, pos), *c) }

func (s *sorted) size() int { return s.tree.size }

func (s *sorted) track(dimension int) { s.tree.others = append(s.tree.others, dimension) }

func (s *sorted) start(need *capacity, least uint32, down bool) {
	s.least = key(least, 0)
	if down {
		s.cursor.descend(s.tree, *need)
	} else {
		s.cursor.ascend(s.tree, s.least, *need)
	}
}

func (s *sorted) next() (rank uint32, at int32, ok bool) {
	k, at, ok := s.cursor.next()
	if !ok || k < s.least {
		return 0, 0, false
	}
	return uint32(k >> 32), at, true
}

// tracked turns what is free or needed into a capacity.
func tracked(cores int, memoryMiB int64) capacity {
	return capacity{dimCores: int32(cores), dimMemory: int32(memoryMiB)}
}
