// Package executor is the executor process: it connects to its driver,
// proves itself with its secret, runs the tasks it is sent and reports their
// results until the driver has acknowledged them.
//
// It owns the life of tasks on this machine (directory, files, environment,
// process group, captured and spilled output, time-outs, what a task leaves
// behind) and the executor's end of the stream. It does not know masters,
// workers or applications: who may run what is decided before it is started,
// and which task runs again elsewhere is decided by the driver.
//
// Tasks are processes, or calls of functions that the executor's program has
// registered. Those run on a fixed set of goroutines, one for each slot, and wait
// here for their turn (calls.go).
//
// A driver that cannot be reached changes nothing at first: tasks run on, and
// the executor comes back as the same executor with everything it holds. Only
// after DriverTimeout without a word it kills its tasks and ends.
//
// Known limits: a process that was orphaned, left its task's session and wiped
// its environment cannot be tied to a task; it is killed when no task runs or
// when the executor ends. The package is Linux only.
//
// The hidden verb "hearth executor" and the driver SDK import it.
package executor
