package rpc

import "time"

// Limits of every server and connection. Both ends live in this file because
// they must fit each other.
const (
	// MaxMessageBytes bounds a message that a server accepts: one task or one
	// application's description with room to spare (model.MaxTaskBytes,
	// model.MaxSpecBytes).
	MaxMessageBytes = 4<<20 + 64<<10
	// MaxReplyBytes bounds what a client accepts from a server it chose to
	// call; views of a large cluster are larger than any request.
	MaxReplyBytes = 64 << 20
	// MaxHeaderBytes bounds the headers of one call.
	MaxHeaderBytes = 16 << 10
	// MaxStreamsPerConn bounds concurrent calls on one connection. A standby
	// forwards the calls of all its clients on one; more wait at the sender.
	MaxStreamsPerConn = 4096
	// MaxErrorBytes bounds the text of an error that travels.
	MaxErrorBytes = 4 << 10
	// batchBytes is where a batch of tasks or results is cut into messages.
	batchBytes = 1 << 20
)

// Timings of connections.
const (
	// DialTimeout bounds one attempt to connect, TLS and HTTP/2 handshakes
	// included: a call into a black hole fails after this long.
	DialTimeout = 4 * time.Second
	// BackoffFirst and BackoffMax bound the pauses between attempts.
	BackoffFirst = 20 * time.Millisecond
	BackoffMax   = time.Second
	// KeepaliveInterval and KeepaliveTimeout: a silent peer is noticed after
	// at most their sum. gRPC allows no client interval below 10 s.
	KeepaliveInterval = 10 * time.Second
	KeepaliveTimeout  = 5 * time.Second
	// KeepaliveMinimum is the shortest interval that a server tolerates. It
	// must be at most half of the client's (design 12), or the server closes
	// connections for too many pings.
	KeepaliveMinimum = 4 * time.Second
	// UnaryTimeout is the deadline of a unary call whose context has none.
	UnaryTimeout = 30 * time.Second
	// streamWindow and connWindow are how much of a stream, and of a connection,
	// may be on its way unread. They are fixed: gRPC would otherwise measure the
	// way with a ping of its own at each message that comes alone, which costs
	// several times what a beat does.
	streamWindow = 1 << 20
	connWindow   = 4 << 20
	// sessionReadBuffer is what a master reads of a connection at once: it has one
	// for each worker, and most say little. gRPC's default is 32 KiB.
	sessionReadBuffer = 4 << 10
	// HandshakeTimeout bounds how long a server waits for a new connection to
	// become an HTTP/2 one.
	HandshakeTimeout = 5 * time.Second
	// StopGrace bounds how long a stopping server waits for calls in flight.
	StopGrace = 2 * time.Second
)

// Limits of what waits at a master because only the leader can serve it and no
// leader can be reached, as in the middle of an election.
const (
	// CallHold bounds how long one call waits. An election takes up to 2.5
	// heartbeat time-outs; a call that has waited longer is answered with
	// model.ErrNoLeader, and its client asks another master, which may see more
	// of the cluster.
	CallHold = 3 * time.Second
	// SessionHold is the same for sessions of workers and drivers. They have
	// less time to find a leader that this master cannot see.
	SessionHold = time.Second
	// MaxHeldCalls and MaxHeldBytes bound the calls that wait and the size of
	// their requests; more are answered with model.ErrNoLeader at once.
	MaxHeldCalls = 4096
	MaxHeldBytes = 64 << 20
	// MaxHeldSessions bounds the sessions that wait.
	MaxHeldSessions = 16384
	// heldSessionPace is the time between the releases of two sessions that
	// wait: thousands of workers must not come to a new leader in one moment.
	heldSessionPace = 100 * time.Microsecond
	// holdMargin is the least time before its caller's deadline at which what
	// waits is answered.
	holdMargin = 50 * time.Millisecond
	// forwardAgainFirst and forwardAgainMax bound the pauses before a call that
	// waits is sent to the same leader again, in case its connection broke and
	// nothing else.
	forwardAgainFirst = 20 * time.Millisecond
	forwardAgainMax   = 250 * time.Millisecond
)

// Limits of the streams between executors and drivers.
const (
	// maxKeptFrames bounds the memory for messages that is kept for the next ones.
	maxKeptFrames = 1 << 20
	// maxMerged bounds the tasks and the results that are received in one piece.
	maxMerged = 1024
	// frameChunk is the memory that what comes in is read into; a longer message
	// has more. minFrameRead is the least room for a read.
	frameChunk   = 64 << 10
	minFrameRead = 4 << 10
	// flushBytes is how much of what is sent together goes out at once.
	flushBytes = 128 << 10
	// maxSpareResults bounds the memory, in results, that a stream keeps for the
	// next messages; a list has room for leastResults.
	maxSpareResults = 8192
	leastResults    = 64
	// SendTimeout is how long a peer may take nothing of what is sent to it: it is
	// as good as KeepaliveInterval and KeepaliveTimeout together.
	SendTimeout = KeepaliveInterval + KeepaliveTimeout
	// lingerTimeout is how long the executor has to take the last word of the
	// driver.
	lingerTimeout = time.Second
)
