// Package driver is the Go SDK of Hearth and the driver's side of any application.
//
// # Programs
//
// A program on the SDK is driver and executor in one. Its main is one line,
//
//	func main() { os.Exit(driver.Main(setup)) }
//
// and setup describes it: functions (Register), what executors have once (NewLocal),
// flags, and the driver's part (Program.Run), which calls functions with Call, Map
// and Stream, shares large values with NewBroadcast, and says what happens to calls
// that fail (WithRetry) or had better run somewhere (WithLocality). The guide is
// docs/sdk.md, whole programs are in examples/. Each call has exactly one reply; a
// function may run more than once, because the calls of a lost executor run again
// elsewhere.
//
// # Drivers
//
// Below that, Driver registers the application, keeps the session with the leader,
// serves the executors that the cluster grants, and gets tasks (processes or calls)
// done on them. It is what hearth run is made of, too.
//
// It owns the table of executors (announced by the leader, proven by their
// secret, suspect when silent, lost), the queue of tasks, and the rule that
// each task gets exactly one result: tasks of a lost executor run again
// elsewhere, repeated results are dropped. It hands out by digest what executors
// and their workers need (the program, broadcast values). It does not decide how
// many executors there are (the scheduler), what a failed task means (package run
// retries), or how a task is run (package executor). A change of leader is
// invisible here: client.DriverSession reconnects.
//
// Calls of functions are sent ahead of the slots of an executor, in batches
// (window.go, ADR 0025); processes are not.
//
// All state belongs to one goroutine, the loop of Run. Each connected executor
// has a sender, a receiver and a fetcher; no task has a goroutine.
//
// Importers: programs of users, examples, run, demo, bench and tests.
package driver
