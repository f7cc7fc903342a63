package rpc

import (
	"context"
	"errors"
)

var errNotBuilt = errors.New("not built")

// ClusterClient calls a master's client services. Unary calls without a
// deadline get UnaryTimeout; mutating ones that may have been done although no
// answer came fail with model.ErrOutcomeUnknown.
func ClusterClient(c *Conn) ClusterService { return nil }

// PeerClient calls another master.
func PeerClient(c *Conn) PeerService { return nil }

// WorkerClient calls a worker.
func WorkerClient(c *Conn) WorkerService { return nil }

// OpenWorkerSession opens a worker's session. It does not wait for the server:
// a refusal (model.ErrNotLeader with a LeaderHint) comes from Recv. The session
// ends with ctx.
func OpenWorkerSession(ctx context.Context, c *Conn) (WorkerSessionClient, error) {
	return nil, errNotBuilt
}

// OpenDriverSession opens a driver's session; with proxy a standby passes the
// stream on to the leader. See OpenWorkerSession.
func OpenDriverSession(ctx context.Context, c *Conn, proxy bool) (DriverSessionClient, error) {
	return nil, errNotBuilt
}

// OpenExecutorSession opens an executor's stream to its driver. See
// OpenWorkerSession.
func OpenExecutorSession(ctx context.Context, c *Conn) (ExecutorSessionClient, error) {
	return nil, errNotBuilt
}
