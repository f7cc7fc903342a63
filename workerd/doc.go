// Package workerd is the worker daemon: it offers a machine's cores, memory and named resources to
// the leader of a cluster, and starts, watches and ends processes as the leader orders.
//
// Who owns what:
//
//   - session.go finds the leader and holds one stream to it; it beats, and reconnects when the
//     stream or the leader is gone. It knows nothing of executors.
//   - fence.go decides which orders are obeyed. What it has once accepted is on disk before the
//     order takes effect, so a restart cannot make the worker obey an older leader.
//   - reconcile.go is the table of executors: a deterministic state machine without goroutines,
//     clocks or files. It says what to do (start, kill, forget, remove); agent.go does it.
//   - journal.go makes the table survive the process; reports.go turns its changes into numbered
//     reports that are repeated until the leader has acknowledged them.
//   - launch.go prepares directories and environments, logs.go reads what came of them, cleanup.go
//     removes them. The processes themselves belong to the keeper (package workerd/keeper).
//
// Absence from anything the leader says is never an order: only an explicit kill kills. A worker
// without a leader runs on.
//
// The package is a client of the cluster: it must not import fsm, raftnode, scheduler or masterd.
// Importers: the worker verb of cmd, demo, and tests. Linux only, as the keeper is.
package workerd
