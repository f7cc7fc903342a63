package model

// Fence travels on every order (design 7): cluster and epoch, the leader's
// term, the worker's incarnation, and the index of the view that the order was
// made from. A worker persists (cluster, epoch, term) and refuses lower ones;
// within one session it ignores a lower view index.
type Fence struct {
	Cluster     ClusterIdentity
	Term        uint64
	Incarnation uint64
	ViewIndex   uint64
}

// WorkerHello opens a worker's session.
type WorkerHello struct {
	Worker      WorkerID
	Incarnation uint64
	BootID      string
	Cluster     ClusterIdentity // the last one obeyed; zero on the first start
	HighestTerm uint64          // highest term ever obeyed
	Offer       Offer
	// Inventory lists every process the worker has or has had and that was
	// not yet acknowledged as ended.
	Inventory []ExecutorReport
	ReportSeq uint64 // last sequence this incarnation has used
	// Apps lists applications that still have scratch directories here; the
	// leader answers AppEnded for those that are over.
	Apps []AppID
}

// ExecutorReport is what a worker says of one executor. It is repeated until
// acknowledged and changes nothing when it comes twice or late.
type ExecutorReport struct {
	Ref      ExecutorRef
	State    ExecutorState // LAUNCHING, RUNNING, STUCK, EXITED, FAILED, KILLED, LOST
	Cause    Cause
	ExitCode int // -1 unknown
	Signal   int
	PID      int
	Reason   string
}

// WorkerUp is one message from worker to leader: exactly one field is set.
type WorkerUp struct {
	Hello  *WorkerHello
	Beat   *Beat
	Report *WorkerReport
	// Leave asks the leader to commit LEFT; all processes are gone.
	Leave *WorkerLeave
	// Restart asks the leader to commit RESTARTING: this process is about to
	// be replaced and keeps its children. Answered by WorkerDown.RestartOK.
	Restart *WorkerRestart
	// Stopping says that the worker has begun to stop: from now on nothing new
	// is placed here. Soft: forgotten with the session or the leader, not
	// answered.
	Stopping *WorkerStopping
	// Drain asks to take the worker out of service. Answered by
	// WorkerDown.DrainOK.
	Drain *DrainTerms
}

// Beat is answered with the same number.
type Beat struct {
	Number uint64
	// NextMicro is, in the answer to a worker, how long after this beat was sent
	// the next one is due: see BeatSlack. 0 = WorkerWelcome.BeatMilli.
	NextMicro int64
}

// BeatSlack bounds what a leader may ask for with Beat.NextMicro: not less than
// this part of the interval of beats, and not more than the interval and this
// part of it. All deadlines are made for beats that come so late.
const BeatSlack = 16

// WorkerReport carries executor reports under one sequence number.
type WorkerReport struct {
	Incarnation uint64
	Seq         uint64
	Executors   []ExecutorReport
}

// WorkerLeave says that the worker goes away for good.
type WorkerLeave struct {
	Reason string
}

// WorkerRestart says for how long the worker may be away, from the commit on.
type WorkerRestart struct {
	WindowMilli int64 // 1 to MaxRestartMilli
}

// WorkerStopping says that a graceful stop has begun.
type WorkerStopping struct{}

// WorkerDown is one message from leader to worker: exactly one field is set.
type WorkerDown struct {
	Welcome   *WorkerWelcome
	BeatAck   *Beat
	ReportAck *ReportAck
	Launch    *LaunchOrder
	Kill      *KillOrder
	AppEnded  *AppEndedOrder
	// Rehello: the leader has declared the worker dead or does not know it;
	// the worker says Hello again on a new session with a new incarnation.
	Rehello *Rehello
	LeaveOK *LeaveOK
	// RestartOK: RESTARTING is committed; the worker says "keep" to its keeper
	// and ends.
	RestartOK *RestartOK
	// DrainOK answers WorkerUp.Drain.
	DrainOK *DrainOK
}

// WorkerWelcome answers Hello once the registration is committed.
type WorkerWelcome struct {
	Fence      Fence
	Leader     MasterID
	Masters    []string // gRPC addresses of all masters
	SerfSeeds  []string // their gossip addresses
	BeatMilli  int64    // interval of beats
	DeathMilli int64    // worker_timeout
}

// ReportAck says that every report up to Seq is committed.
type ReportAck struct {
	Seq uint64
}

// LaunchOrder starts an executor. Idempotent by Ref; a kill order for the same
// Ref beats it in any order.
type LaunchOrder struct {
	Fence      Fence
	Ref        ExecutorRef
	Spec       AppSpec // Kind, Name, User, Command, Files, DriverAddr, Disconnect, Program are used
	Profile    int
	Cores      int
	MemoryMiB  int64
	Resources  Resources
	Secret     Secret
	MasterAddr []string
}

// KillOrder ends an executor: SIGTERM, after GraceMilli SIGKILL.
type KillOrder struct {
	Fence      Fence
	Ref        ExecutorRef
	GraceMilli int64
	Reason     string
}

// AppEndedOrder says that the application has ended and that its scratch
// directories may go once no executor of it is left here. It kills nothing.
type AppEndedOrder struct {
	Fence Fence
	App   AppID
}

// Rehello is the answer to a worker that was declared dead.
type Rehello struct {
	Fence  Fence
	Reason string
}

// LeaveOK says that LEFT is committed.
type LeaveOK struct{}

// DrainOK says that the worker is out of service, or why not.
type DrainOK struct {
	Refused string // "" = it is
}

// RestartOK says that RESTARTING is committed.
type RestartOK struct{}

// DriverHello opens a driver's session.
type DriverHello struct {
	App   AppID
	Token Secret
	// Addr is where executors reach the driver; it may be new after a
	// restart of the driver's listener.
	Addr string
}

// DriverUp is one message from driver to leader: exactly one field is set.
type DriverUp struct {
	Hello *DriverHello
	Beat  *Beat
	// Confirm lists executors that have registered with the driver.
	Confirm []ExecutorID
}

// DriverDown is one message from leader to driver: exactly one field is set.
type DriverDown struct {
	// Executors is the whole present list: sent first, and after a gap.
	Executors *DriverExecutors
	// Change is one executor added, updated or ended.
	Change  *DriverExecutor
	BeatAck *Beat
	// Ended: the application is over; the session closes.
	Ended *DriverEnded
}

// DriverExecutors is the whole list of an application's unfinished executors.
type DriverExecutors struct {
	Index     uint64
	BeatMilli int64
	Executors []DriverExecutor
}

// DriverExecutor is what a driver is told of one executor.
type DriverExecutor struct {
	ID        ExecutorID
	Worker    WorkerID
	Host      string
	Cores     int
	MemoryMiB int64
	Resources Resources
	State     ExecutorState
	// Terminal is the leader's word that it has ended, whatever a state is
	// called that a newer leader knows; see Ended.
	Terminal bool
	Cause    Cause
	ExitCode int
	Signal   int
	Reason   string
	Secret   Secret
	Profile  int
	Index    uint64 // of the last change
}

// Ended reports whether the executor has ended: by the leader's flag, or by the
// name of its state, which is all that an older leader sends.
func (e DriverExecutor) Ended() bool { return e.Terminal || e.State.Terminal() }

// DriverEnded tells the driver how its application ended.
type DriverEnded struct {
	State  AppState
	Reason string
}
