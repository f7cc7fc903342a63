// Package keeper spawns and supervises the processes of one worker from a process of its own.
//
// A worker's agent talks to masters, may be upgraded and may crash. The processes it launched must
// neither outlive it by accident nor die because it is restarted on purpose. So they are children
// of the keeper, a small process with one Unix socket and no other listener, and the agent only
// asks: start, kill, list, forget. The rules it keeps:
//
//   - The agent's connection is the claim on everything here. When it drops without a Keep, every
//     process group, cgroup and descendant is killed at once and the keeper exits. With a Keep
//     they run on until its end, and the next agent attaches and lists them.
//   - Direct children are spawned from one locked OS thread that never ends while a child lives,
//     with a parent-death signal (which belongs to the thread, not the process), so a keeper that
//     is killed takes them along. What they had forked away carries HEARTH_WORKER_ID in its
//     environment and is found by Orphans.
//   - The keeper is a child subreaper: whatever a child forks stays below the keeper in the process
//     tree, so no process outside that tree is ever considered, and a scan misses none inside it. Of
//     executors of one process the kernel's lists of children tell as much (ADR 0049).
//   - Nobody is signalled by a bare process id: a direct child only while it is not reaped (its id,
//     and the group it leads, cannot be given to anybody else), everything else through a pidfd
//     after its start time was checked once more.
//   - An exit is reported when nothing of the key is left, and after it was written to a file that
//     outlives the keeper.
//
// The package owns the protocol on the socket, the file of exits, output files with rotation, and
// cgroups of the children. It knows nothing of masters, apps or placements: a key is a string, and
// what a process needs to know is in the environment the agent gives it. The variables that tie a
// process to its key (HEARTH_WORKER_ID and either HEARTH_APP_ID with HEARTH_EXECUTOR_ID or
// HEARTH_DRIVER_ID with HEARTH_DRIVER_ATTEMPT) are demanded of every Start.
//
// Known limits: a process that was orphaned, left its process group and wiped its environment
// between two scans cannot be tied to its key without a cgroup; it is killed when nothing else
// runs here or when the keeper ends. A set-user-id program clears its parent-death signal.
//
// The package is Linux only and imports nothing of ours. workerd uses Client; the hidden verb
// "hearth keeper" calls Main. Nobody else may import it.
package keeper
