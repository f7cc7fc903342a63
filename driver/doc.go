// Package driver is the driver's side of an application: it registers the
// application, keeps the session with the leader, serves the executors that
// the cluster grants, and gets tasks done on them.
//
// It owns the table of executors (announced by the leader, proven by their
// secret, suspect when silent, lost), the queue of tasks, and the rule that
// each task gets exactly one result: tasks of a lost executor run again
// elsewhere, repeated results are dropped. It does not decide how many
// executors there are (the scheduler), what a failed task means (package run
// retries), or how a task is run (package executor). A change of leader is
// invisible here: client.DriverSession reconnects.
//
// All state belongs to one goroutine, the loop of Run. Each connected executor
// has a sender, a receiver and a fetcher; no task has a goroutine.
//
// Importers: run, demo, bench and tests.
package driver
