// Package bench holds the benchmark commands: what Hearth does beside what the
// machine can do (probes: disk, process start, loopback) and beside a peer that
// is run in turns with it.
//
// Shared by all of them: pairs in the order A B B A, so that a drift of the
// machine hits both sides alike (pairs.go); medians, percentiles and a 95 %
// interval of ratios by bootstrap (stats.go); a report that is printed as a
// table or as JSON, whose claims are met, missed, or fail because the peer is
// missing (report.go); the probes (probe_*.go). One file or more for each
// command is named after it (place*.go, launch*.go, tasks*.go).
//
// Nothing here is tuned for the benchmark: daemons are the ordinary binary with
// its ordinary settings, on a real file system, with every sync.
//
// Importers: cmd. It reaches a cluster through client, driver and rpc only.
package bench
