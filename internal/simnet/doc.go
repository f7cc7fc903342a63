// Package simnet is an in-memory network of named hosts for tests: stream connections, datagrams, and the faults a
// real network has (latency, loss, cut links in one or both directions, crashed processes), driven by a seed.
//
// It owns the simulated wire and nothing else. Every wait is on channels and timers, so a network created inside a
// testing/synctest bubble runs in virtual time with production timeouts; outside a bubble it runs in real time. It
// starts no goroutines of its own.
//
// What it does like TCP and UDP, because callers depend on it:
//   - nobody listens, or the process there has crashed: a dial is refused ([syscall.ECONNREFUSED]) after one round trip;
//   - a cut link swallows packets: a dial hangs until its context ends or [ConnectTimeout], established connections
//     stall, and both go on when the link is healed. Acknowledgements need the other direction, so a writer whose
//     return path is cut stalls once its buffer is full;
//   - a crash resets its connections: the peer reads what had been sent, then gets [syscall.ECONNRESET], but only once
//     the link lets the reset through;
//   - datagrams are dropped by loss, by a cut link, when nobody listens and when the receiver's queue is full.
//
// It does not model bandwidth, routers, names that change address, or the kernel giving up on a stalled connection
// (about 15 minutes on Linux): deadlines and keepalives of the caller decide there.
//
// Imported by tests only; it imports nothing of this module.
package simnet
