package scheduler

import "github.com/hearthd/hearth/model"

// The order in which workers are tried (spark-standalone 1.F step 3) is that
// of one number: free cores or memory, as the policy says, above the worker's
// label, which ranks ids as strings. The descending orders are the ascending
// ones walked backwards, ties included: equal workers go by descending id.

// Dimensions of a capacity. What the key tells already is not tracked: it
// would change the inner entries of the tree at every turn for nothing.
const (
	dimCores = iota
	dimMemory
	dimResources // first of those for custom resources
)

// trackedResources is how many names of custom resources the index knows;
// others are looked at worker by worker.
const trackedResources = dimensions - dimResources

const labelBits = 32

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

// key places a worker that has this free. Cores and memory are at most
// model.MaxCores and model.MaxMemoryMiB, so that all of it fits.
func (o order) key(cores int, memoryMiB int64, label uint32) uint64 {
	var rank uint64
	switch {
	case o.cores:
		rank = uint64(cores)
	case o.memory:
		rank = uint64(memoryMiB)
	}
	return rank<<labelBits | uint64(label)
}

// tree is an empty tree that tracks what the key does not tell.
func (o order) tree() *tree {
	switch {
	case o.cores:
		return newTree(dimMemory)
	case o.memory:
		return newTree(dimCores)
	}
	return newTree(dimCores, dimMemory)
}

// tracked turns what is free or needed into a capacity.
func tracked(cores int, memoryMiB int64) capacity {
	return capacity{dimCores: int32(cores), dimMemory: int32(memoryMiB)}
}
