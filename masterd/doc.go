// Package masterd is the master daemon: it wires a replica of the state
// (raftnode, fsm) to gossip and gRPC, and while this master leads it runs the
// leader scope: scheduler, worker sessions, driver sessions, liveness,
// deadlines, membership and the comparison of state hashes.
//
// Being leader is being inside one function (leader.go): what it starts is
// joined before it returns, and nothing outside it acts on the cluster. Reads
// are answered from the local replica and marked with its lag; calls that
// change something are proposed through raftnode and answered after they are
// committed and applied.
//
// Data flows in one direction: rpc -> service_*.go -> raftnode.Propose -> fsm ->
// change hub (hub.go) -> sessions and loops, which read the view and compare.
//
// Importers: cmd and tests. masterd never imports workerd, executor or driver.
package masterd
