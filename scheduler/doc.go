// Package scheduler decides where executors go: a view in, placements out, by
// the rules of Spark Standalone (first registered, first served; spread out or
// consolidated; five orders of workers).
//
// It owns the algorithm and the view that it reads. It does not own what fits
// where (model.Fits), how many executors are wanted (model.Wanted), or any
// state: a pass keeps its own books and throws them away, and whoever applies
// a plan checks each placement again. No clock, goroutine, randomness or I/O:
// the same view gives the same plan.
//
// plan.go walks the applications, pool.go holds what is free during a pass,
// order.go sorts candidates and assign.go hands out cores. The pool is the
// seam for an index: nothing outside pool.go knows how candidates are found.
//
// masterd and simulate import it.
package scheduler
