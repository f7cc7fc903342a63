// Package testcluster runs whole clusters in virtual time: real masters (Raft, Serf, gRPC, stores on disk), real workers,
// clients, drivers and executors over internal/simnet in a testing/synctest bubble, with production timeouts. A minute of
// a cluster's life costs a fraction of a second, and nothing but the processes on the workers is pretended
// (processes.go): they start, run, obey signals and end as the keeper's do, in virtual time.
//
//	func TestSimSomething(t *testing.T) {
//		testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
//			c.StartMasters(3)
//			c.StartWorkers(3)
//			leader := c.Settled(20 * time.Second)
//			app := c.Submit(testcluster.Sleepers("work", 4))
//			c.Running(app, 4, 10*time.Second)
//			c.KillMaster(leader)
//			c.Settled(5 * time.Second)
//		})
//	}
//
// Run repeats a scenario for each seed: HEARTH_SIM_SEEDS (default 3) from HEARTH_SIM_FIRST_SEED (default 0) on. The seed
// feeds Cluster.Rand, which scenarios draw from, and the network; the order in which goroutines run stays Go's, so a seed
// repeats the schedule of faults and not each step. A failure prints the command that runs the seed again. HEARTH_SIM_LOG
// sets the level of the log that is shown then (default info).
//
// There are three ways to end a process. Stop is SIGTERM: goodbyes are said. Kill is kill -9: connections are reset, dials
// refused, the data directory is as it was at that instant. PowerOff takes the machine: the network is silent, what ran on
// it is gone without an exit status.
//
// When a scenario returns, Run heals the network, starts the masters that are down, waits until the cluster is at rest and
// checks the rules of check.go: one cluster id, equal state hashes, the invariants of fsm, books that balance with what
// really runs on the workers, each acknowledged application on each replica and none twice, no executor launched twice.
//
// Imported by tests only.
package testcluster
