// Package unixsocket opens Unix sockets through which one user's processes on one machine talk to
// each other: at paths of any length, with mode 0600, and only to the same user or root.
//
// It owns nothing: whoever listens holds a lock that says whose the path is. It imports nothing of
// ours. Linux only. Importers: workerd, workerd/keeper.
package unixsocket
