// Package run is the engine behind "hearth run": shell commands made from a
// template and a list of inputs, run on a cluster in the manner of GNU
// parallel.
//
// It owns templates and their quoting, inputs, retries of failed tasks, the
// halt policy, how output is grouped and ordered, and the exit code. It does
// not own executors or the re-run of lost tasks (package driver), nor flags
// (the CLI).
//
// Importers: the CLI, demo and tests.
package run
