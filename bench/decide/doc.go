// Package decide measures placement decisions of the scheduler in this
// process, in turns with a full scan of all workers that makes the same ones.
//
// It is apart from package bench because that reaches a cluster through its
// processes only, and a decision is a function. Importers: cmd.
package decide
