package scheduler

import (
	"cmp"

	"github.com/hearthd/hearth/model"
)

// slot is one worker during a pass.
type slot struct {
	worker *model.Worker
	free   model.Free
	// ownUsed says that free.Used belongs to the pass and may be written.
	ownUsed bool
}

// compareSlots returns the order in which workers are tried (spark-standalone
// 1.F step 3). Ids compare as strings. The descending orders are the ascending
// ones reversed, ties included: equal workers go by descending id.
func compareSlots(p model.SelectionPolicy) func(a, b *slot) int {
	byID := func(a, b *slot) int { return cmp.Compare(a.worker.ID, b.worker.ID) }
	byCores := func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.free.Cores, b.free.Cores), byID(a, b))
	}
	byMemory := func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.free.MemoryMiB, b.free.MemoryMiB), byID(a, b))
	}
	switch p {
	case model.CoresFreeAsc:
		return byCores
	case model.MemoryFreeAsc:
		return byMemory
	case model.MemoryFreeDesc:
		return func(a, b *slot) int { return byMemory(b, a) }
	case model.ByWorkerID:
		return byID
	case model.CoresFreeDesc:
	}
	return func(a, b *slot) int { return byCores(b, a) }
}
