// Command etcd is a peer that failover and placements are measured beside: a member of an
// embedded etcd cluster, and the client that times it.
//
//	etcd serve -name m1 -dir DIR -client URL -peer URL -cluster m1=URL,… -heartbeat 30 -election 300
//	etcd client -endpoints HOST:PORT,…
//
// The client obeys lines on its standard input and answers each with one line:
//
//	leader   the index of the leading endpoint, or "none" while members disagree
//	arm N    connect to all endpoints but number N, and read there once
//	go       put until the first put is acknowledged; answers CLOCK_MONOTONIC in ns
//	connect  open connections to the leader
//	load I B N S
//	         put N keys of S bytes at the leader, B in a transaction (1: single
//	         puts), I requests at once; answers "SECONDS P50_MS P99_MS"
//
// It is a module of its own, so that nothing of etcd is in ours.
package main
