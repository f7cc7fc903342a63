package rpc

import (
	"context"

	"github.com/hearthd/hearth/model"
)

// CallInfo is what travels beside a client's mutating call.
type CallInfo struct {
	RequestID string // identifies the call for ever
	Base      uint64 // applied index the client knew when it made the id
	Principal string // who calls, as far as it is known
	// What the server has found out; a caller leaves it empty.
	Credential string // how the principal is known; see Caller
	From       string // host
	OwnOnly    bool   // it may end its own applications only
}

// ClusterService is what a master offers to clients. Unary calls may be sent
// to any master: those marked leader-only are forwarded once by a standby. The
// watch streams are served by the leader alone: a standby answers ErrNotLeader
// with the leader's address, or proxies the stream when asked to.
type ClusterService interface {
	// RegisterApp commits an application (leader-only, idempotent by
	// CallInfo.RequestID).
	RegisterApp(ctx context.Context, call CallInfo, spec model.AppSpec) (RegisterAppReply, error)
	// RegisterApps commits many applications, each under its own request id
	// and with its own verdict, in order (leader-only). call names the caller
	// only. The error is of the call as a whole: then every outcome that
	// matches it is unknown or certainly not done, as the error says.
	RegisterApps(ctx context.Context, call CallInfo, subs []Submission) (RegisterAppsReply, error)
	// FinishApp ends an application on its driver's word (leader-only).
	FinishApp(ctx context.Context, call CallInfo, req FinishAppRequest) error
	// KillApp ends an application as KILLED (leader-only).
	KillApp(ctx context.Context, call CallInfo, app model.AppID, reason string) error
	// KillExecutors ends executors; a kept target refills them (leader-only).
	KillExecutors(ctx context.Context, call CallInfo, req KillExecutorsRequest) error
	// SetTargets sets absolute executor totals per profile (leader-only).
	SetTargets(ctx context.Context, call CallInfo, req SetTargetsRequest) error

	// Staleness says who leads and how far this replica is; cheap. Clients
	// take from it the base of their first mutating call.
	Staleness(ctx context.Context) (model.Staleness, error)
	// Status answers from this master's own replica, marked with its lag.
	Status(ctx context.Context) (model.ClusterView, error)
	// Apps lists applications from this replica; ended ones newest first.
	Apps(ctx context.Context, req AppsRequest) (AppsReply, error)
	// App describes one application, its executors included. The id may be a
	// unique prefix. Strong asks the leader (forwarded) after a quorum check.
	App(ctx context.Context, req AppRequest) (model.AppView, error)
	// Workers lists workers from this replica.
	Workers(ctx context.Context) (WorkersReply, error)
	// WaitApp answers when the application's ChangeIndex is above After or it
	// has ended, or when ctx ends; any master serves it from its replica.
	WaitApp(ctx context.Context, req WaitAppRequest) (model.AppView, error)

	// Settings reads the replicated settings; SetSettings changes the named
	// ones (leader-only).
	Settings(ctx context.Context) (model.Settings, error)
	SetSettings(ctx context.Context, call CallInfo, values map[string]string) error

	// DrainWorkers takes workers out of service, all or none, and answers which
	// (leader-only). Naming one that is drained gives it new terms.
	DrainWorkers(ctx context.Context, call CallInfo, req DrainRequest) (DrainReply, error)
	// UndrainWorkers puts workers into service again, all or none (leader-only).
	// One that is in service stays so.
	UndrainWorkers(ctx context.Context, call CallInfo, workers WorkerChoice) (DrainReply, error)

	// RaftServers lists the voters and non-voters (leader-only).
	RaftServers(ctx context.Context) ([]model.MasterView, error)
	// TransferLeadership moves leadership; "" = the best follower (leader-only).
	TransferLeadership(ctx context.Context, to model.MasterID) error
	// RemoveMaster takes a master out of the Raft configuration (leader-only).
	RemoveMaster(ctx context.Context, call CallInfo, id model.MasterID) error
	// GossipMembers lists what this master's gossip sees.
	GossipMembers(ctx context.Context) ([]model.GossipMemberView, error)
	// GossipKeys asks all members of gossip which keys they have.
	GossipKeys(ctx context.Context) (model.GossipKeysView, error)
	// ChangeGossipKeys installs, uses or removes a key on all members. A repeat
	// changes nothing more. model.ErrRefused: a member would be cut off, or
	// gossip is not encrypted; model.ErrNotFound: no such key.
	ChangeGossipKeys(ctx context.Context, order model.GossipKeyOrder) (model.GossipKeysView, error)

	// ReadLog streams a log of an executor through this master. send is
	// called for each piece; ReadLog blocks until the end (or, with Follow,
	// until ctx ends or the executor has ended).
	ReadLog(ctx context.Context, req LogRequest, send func(LogChunk) error) error
}

// RegisterAppReply answers a registration.
type RegisterAppReply struct {
	App        model.AppID
	Token      model.Secret // opens the driver session
	Index      uint64
	LeaderAddr string
}

// Submission is one application of a batch.
type Submission struct {
	RequestID string // as CallInfo.RequestID
	Base      uint64 // as CallInfo.Base
	Spec      model.AppSpec
}

// Limits of one batch of submissions. MaxSubmissionBytes is the encoded size
// of their descriptions together; a single one is always taken.
const (
	MaxSubmissions     = 64
	MaxSubmissionBytes = 1 << 20
)

// RegisterAppsReply answers a batch, one verdict for each submission.
type RegisterAppsReply struct {
	Verdicts   []SubmissionVerdict
	LeaderAddr string
}

// SubmissionVerdict is what became of one submission: Err, which matches what
// RegisterApp would have returned, or the rest.
type SubmissionVerdict struct {
	App   model.AppID
	Token model.Secret
	Index uint64
	Err   error
}

// FinishAppRequest ends an application on its driver's word.
type FinishAppRequest struct {
	App      model.AppID
	Token    model.Secret
	State    model.AppState // FINISHED or FAILED
	Reason   string
	ExitCode int
}

// KillExecutorsRequest names executors to end.
type KillExecutorsRequest struct {
	App       model.AppID
	Executors []model.ExecutorID
	Reason    string
}

// SetTargetsRequest sets totals; profiles that are not named keep theirs.
type SetTargetsRequest struct {
	App      model.AppID
	Token    model.Secret
	Totals   map[int]int
	Profiles map[int]model.Profile
}

// AppsRequest selects applications.
type AppsRequest struct {
	Ended bool // ended ones too
}

// AppsReply lists applications with where the list comes from.
type AppsReply struct {
	Staleness model.Staleness
	Apps      []model.AppView
}

// AppRequest names one application.
type AppRequest struct {
	ID     string // whole or a unique prefix
	Strong bool
}

// WaitAppRequest waits for a change of one application.
type WaitAppRequest struct {
	App   model.AppID
	After uint64 // ChangeIndex already seen
}

// WorkersReply lists workers with where the list comes from.
type WorkersReply struct {
	Staleness model.Staleness
	Workers   []model.WorkerView
}

// LogStream names one of the two output files.
type LogStream string

// The output files of a process.
const (
	LogStdout LogStream = "stdout"
	LogStderr LogStream = "stderr"
)

// LogRequest asks for a log of one executor.
type LogRequest struct {
	Ref    model.ExecutorRef
	Stream LogStream
	// Offset from the start; negative: that many bytes before the end.
	Offset int64
	Follow bool
}

// LogChunk is a piece of a log, at most MaxLogChunk bytes.
type LogChunk struct {
	Offset int64
	Data   []byte
}

// MaxLogChunk bounds a piece of a log.
const MaxLogChunk = 256 << 10

// WorkerSessionService is the leader's end of worker sessions.
type WorkerSessionService interface {
	// WorkerSession serves one session and blocks until it ends. A standby
	// returns ErrNotLeader (with the leader's address as hint). The first
	// message received is a Hello.
	WorkerSession(ctx context.Context, s WorkerSessionStream) error
}

// WorkerSessionStream is the leader's view of one worker session. Send may be
// called from one goroutine at a time, beside Recv.
type WorkerSessionStream interface {
	Send(model.WorkerDown) error
	Recv() (model.WorkerUp, error)
}

// DriverSessionService is the leader's end of driver sessions.
type DriverSessionService interface {
	// DriverSession serves one session and blocks until it ends; see
	// WorkerSession.
	DriverSession(ctx context.Context, s DriverSessionStream) error
}

// DriverSessionStream is the leader's view of one driver session.
type DriverSessionStream interface {
	Send(model.DriverDown) error
	Recv() (model.DriverUp, error)
}

// WorkerSessionClient is the worker's end of its session.
type WorkerSessionClient interface {
	Send(model.WorkerUp) error
	Recv() (model.WorkerDown, error)
	// Close ends the session and frees the stream. Idempotent.
	Close() error
}

// DriverSessionClient is the driver's end of its session.
type DriverSessionClient interface {
	Send(model.DriverUp) error
	Recv() (model.DriverDown, error)
	Close() error
}

// PeerService is what masters offer to each other.
type PeerService interface {
	// Promise asks for the bootstrap promise (design 4).
	Promise(ctx context.Context, req PromiseRequest) (PromiseReply, error)
	// PeerStats answers the leader's question for replication state.
	PeerStats(ctx context.Context) (PeerStatsReply, error)
	// ReportHash tells the leader a follower's state hash at an index.
	ReportHash(ctx context.Context, req HashReport) (HashVerdict, error)
	// LeaderGone asks another voter whether it, too, finds the process of the
	// leader dead, or the leader silent (design 6, ADR 0032). The answer takes
	// two dials, or a quarter of the election time-out, at most.
	LeaderGone(ctx context.Context, req LeaderGoneRequest) (LeaderGoneReply, error)
	// Prove asks who answers at an address: gossip's word is not enough to
	// believe that a master is there (ADR 0040).
	Prove(ctx context.Context, req ProveRequest) (ProveReply, error)
}

// ProveRequest asks for a proof that was made for this question.
type ProveRequest struct {
	Nonce []byte // 32 random bytes
}

// ProveReply is what a master says of itself: id, addresses but that of gossip,
// version and key.
type ProveReply struct {
	Master    model.Master
	Cluster   model.ClusterIdentity // zero: none yet
	Signature []byte                // by Master.Key over all of it and the nonce
}

// LeaderGoneRequest names a leader that is taken for dead.
type LeaderGoneRequest struct {
	From      model.MasterID
	Cluster   model.ClusterIdentity
	Leader    model.MasterID
	Term      uint64 // that Leader led
	LastIndex uint64 // newest entry of From
	LastTerm  uint64 // of that entry
	Silent    bool   // its silence is asked about, not its ports
}

// LeaderGoneReply answers it.
type LeaderGoneReply struct {
	ID        model.MasterID // who answers
	Gone      bool
	Reason    string // why not
	LastIndex uint64 // newest entry of ID
	LastTerm  uint64 // of that entry
	Begun     bool   // an election that ID knows of
}

// PromiseRequest asks a master to promise that only From will bootstrap, with
// this cluster id, for this list.
type PromiseRequest struct {
	From    model.MasterID
	Cluster model.ClusterIdentity
	Expect  int
	Members []model.MasterID // sorted
}

// PromiseReply answers it.
type PromiseReply struct {
	Granted bool
	Reason  string // why not
}

// PeerStatsReply is a master's replication state.
type PeerStatsReply struct {
	ID               model.MasterID
	Term             uint64
	LastIndex        uint64
	LastTerm         uint64 // of the entry at LastIndex
	AppliedIndex     uint64
	LastContactMilli int64 // since the leader was heard; 0 on the leader
}

// HashReport is one master's state hash.
type HashReport struct {
	From  model.MasterID
	Index uint64
	Hash  [16]byte
}

// HashVerdict says what the leader makes of it.
type HashVerdict struct {
	// Differs: a majority of voters has another hash at that index; the
	// reporter stops.
	Differs bool
	Reason  string
}

// WorkerService is what a worker offers on its own gRPC port.
type WorkerService interface {
	// Identify is the handshake of a dial-back (design 7).
	Identify(ctx context.Context) (WorkerIdentity, error)
	// ReadLog streams a log of an executor from its files; see ClusterService.
	ReadLog(ctx context.Context, req LogRequest, send func(LogChunk) error) error
}

// WorkerIdentity names a worker process.
type WorkerIdentity struct {
	Worker      model.WorkerID
	Incarnation uint64
}

// ExecutorHub is the driver's end of its executors' streams.
type ExecutorHub interface {
	// ExecutorSession serves one executor and blocks until it ends. The first
	// message received is a Hello.
	ExecutorSession(ctx context.Context, s ExecutorSessionStream) error
}

// ExecutorSessionStream is the driver's view of one executor's stream. Send
// and SendFrames may be called from one goroutine at a time, beside Recv. They
// block while the executor does not read.
type ExecutorSessionStream interface {
	Send(model.ExecutorDown) error
	SendFrames(*Frames) error
	Recv() (model.ExecutorUp, error)
	// Free takes back the list of results of a message from Recv, but not what the
	// results hold. It may be called beside everything else.
	Free([]model.TaskResult)
}

// ExecutorSessionClient is the executor's end of its stream. As above; the list of
// tasks from Recv, but not what they hold, is valid until the next call.
type ExecutorSessionClient interface {
	Send(model.ExecutorUp) error
	SendFrames(*Frames) error
	Recv() (model.ExecutorDown, error)
	Close() error
}

// LeaderInfo tells the forwarding layer of a master who leads.
type LeaderInfo interface {
	// Leading reports whether this master serves leader-only calls now.
	Leading() bool
	// LeaderAddr is the gRPC address of the leader, "" if none is known.
	LeaderAddr() string
	// Elected reports whether this master has been elected: it leads, or will
	// as soon as it is ready. It serves proposals then.
	Elected() bool
	// Changed returns a channel that is closed once one of the answers above
	// may have changed. Take it before asking them.
	Changed() <-chan struct{}
}
