// Package scheduler decides where drivers and executors go: a view in,
// placements out, by the rules of Spark Standalone (first registered, first
// served; spread out or consolidated; five orders of workers).
//
// It owns the algorithm, the view that it reads, and an index over that view.
// It does not own what fits where (model.Fits), how many executors are wanted
// (model.Wanted), or any state: whoever applies a plan checks each placement
// again. No clock, goroutine, randomness or I/O: the same view gives the same
// plan, whether an Index has seen what came before or reads it for the first
// time.
//
// index.go makes a pass, queue.go holds who waits, pool.go what is free,
// order.go says in which order workers are tried, grid.go (by cores or id) and
// tree.go (by memory) keep them in that order, assign.go hands out cores, and
// drivers.go places drivers. ADR 0031 says why it is built so, ADR 0045 why there
// is a grid.
//
// masterd and bench import it.
package scheduler
