package model

import "slices"

// AppState is the state of an application.
type AppState string

// Application states. WAITING and RUNNING are active, the rest are final.
const (
	AppWaiting  AppState = "WAITING"
	AppRunning  AppState = "RUNNING"
	AppFinished AppState = "FINISHED"
	AppFailed   AppState = "FAILED"
	AppKilled   AppState = "KILLED"
)

// AppStates lists every application state in order of life.
func AppStates() []AppState {
	return []AppState{AppWaiting, AppRunning, AppFinished, AppFailed, AppKilled}
}

// Terminal reports whether the application has ended.
func (s AppState) Terminal() bool {
	return s == AppFinished || s == AppFailed || s == AppKilled
}

// ExecutorState is the state of an executor.
type ExecutorState string

// Executor states (design 8). DECOMMISSIONING, KILLING and STUCK still hold
// their cores and memory but no longer count against the application's target.
const (
	ExecutorPlaced    ExecutorState = "PLACED"
	ExecutorLaunching ExecutorState = "LAUNCHING"
	ExecutorRunning   ExecutorState = "RUNNING"
	// ExecutorDecommissioning: its worker is drained. It runs on, gets no new
	// tasks and is replaced; back to RUNNING leads the end of the drain alone.
	ExecutorDecommissioning ExecutorState = "DECOMMISSIONING"

	ExecutorKilling ExecutorState = "KILLING"
	ExecutorStuck   ExecutorState = "STUCK"
	ExecutorExited  ExecutorState = "EXITED"
	ExecutorFailed  ExecutorState = "FAILED"
	ExecutorKilled  ExecutorState = "KILLED"
	ExecutorLost    ExecutorState = "LOST"
)

// executorNext holds the legal transitions; a state absent from the inner list
// cannot follow.
var executorNext = map[ExecutorState][]ExecutorState{ //nolint:gochecknoglobals // a constant table
	ExecutorPlaced: {
		ExecutorLaunching, ExecutorRunning, ExecutorKilling, ExecutorStuck,
		ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost,
	},
	ExecutorLaunching: {
		ExecutorRunning, ExecutorKilling, ExecutorStuck, ExecutorExited,
		ExecutorFailed, ExecutorKilled, ExecutorLost,
	},
	ExecutorRunning: {
		ExecutorDecommissioning, ExecutorKilling, ExecutorStuck, ExecutorExited, ExecutorFailed,
		ExecutorKilled, ExecutorLost,
	},
	ExecutorDecommissioning: {
		ExecutorKilling, ExecutorStuck, ExecutorExited, ExecutorFailed,
		ExecutorKilled, ExecutorLost,
	},
	ExecutorKilling: {ExecutorStuck, ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost},
	ExecutorStuck:   {ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost},
}

// ExecutorStates lists every executor state in order of life.
func ExecutorStates() []ExecutorState {
	return []ExecutorState{
		ExecutorPlaced, ExecutorLaunching, ExecutorRunning, ExecutorDecommissioning, ExecutorKilling, ExecutorStuck,
		ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost,
	}
}

// Terminal reports whether the process is known to be gone.
func (s ExecutorState) Terminal() bool {
	switch s {
	case ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost:
		return true
	case ExecutorPlaced, ExecutorLaunching, ExecutorRunning, ExecutorDecommissioning, ExecutorKilling, ExecutorStuck:
	}
	return false
}

// Live reports whether the executor counts against its application's target.
func (s ExecutorState) Live() bool {
	return s == ExecutorPlaced || s == ExecutorLaunching || s == ExecutorRunning
}

// Confirmed reports whether a driver's word that it has the executor has been heard, or
// means nothing any more. A state of a later release is taken for an early one: a word
// too many changes nothing, one too few would leave the executor waiting.
func (s ExecutorState) Confirmed() bool {
	switch s {
	case ExecutorRunning, ExecutorDecommissioning, ExecutorKilling, ExecutorStuck:
		return true
	case ExecutorPlaced, ExecutorLaunching, ExecutorExited, ExecutorFailed, ExecutorKilled, ExecutorLost:
	}
	return s.Terminal()
}

// CanBecome reports whether next may follow s. A final state has no successor.
func (s ExecutorState) CanBecome(next ExecutorState) bool {
	return slices.Contains(executorNext[s], next)
}

// WorkerState is the state of a worker.
type WorkerState string

// Worker states. ALIVE, DRAINING and DRAINED are those of a worker that
// answers.
const (
	WorkerAlive WorkerState = "ALIVE"
	// WorkerDraining: it is out of service, and something of ours runs there
	// still (Worker.Drain).
	WorkerDraining WorkerState = "DRAINING"
	// WorkerDrained: it is out of service and empty.
	WorkerDrained     WorkerState = "DRAINED"
	WorkerUnreachable WorkerState = "UNREACHABLE"
	// WorkerRestarting: the worker has said that its process is replaced and
	// keeps its children; nothing is held against its absence until
	// Worker.RestartUntil.
	WorkerRestarting WorkerState = "RESTARTING"
	WorkerDead       WorkerState = "DEAD"
	WorkerLeft       WorkerState = "LEFT"
)

// workerNext holds the legal transitions. Out of DEAD and LEFT only a new
// incarnation leads.
var workerNext = map[WorkerState][]WorkerState{ //nolint:gochecknoglobals // a constant table
	WorkerAlive:       {WorkerDraining, WorkerDrained, WorkerUnreachable, WorkerRestarting, WorkerDead, WorkerLeft},
	WorkerDraining:    {WorkerAlive, WorkerDrained, WorkerUnreachable, WorkerRestarting, WorkerDead, WorkerLeft},
	WorkerDrained:     {WorkerAlive, WorkerUnreachable, WorkerRestarting, WorkerDead, WorkerLeft},
	WorkerUnreachable: {WorkerAlive, WorkerDraining, WorkerDrained, WorkerRestarting, WorkerDead, WorkerLeft},
	WorkerRestarting:  {WorkerAlive, WorkerDraining, WorkerDrained, WorkerUnreachable, WorkerDead, WorkerLeft},
	WorkerDead:        {WorkerAlive, WorkerDrained, WorkerLeft},
	WorkerLeft:        {WorkerAlive, WorkerDrained},
}

// WorkerStates lists every worker state.
func WorkerStates() []WorkerState {
	return []WorkerState{
		WorkerAlive, WorkerDraining, WorkerDrained, WorkerUnreachable, WorkerRestarting, WorkerDead, WorkerLeft,
	}
}

// Up reports whether the worker answers: ALIVE, DRAINING or DRAINED.
func (s WorkerState) Up() bool {
	return s == WorkerAlive || s == WorkerDraining || s == WorkerDrained
}

// CanBecome reports whether next may follow s.
func (s WorkerState) CanBecome(next WorkerState) bool { return slices.Contains(workerNext[s], next) }

// Gone reports whether nothing of ours runs on the worker any more.
func (s WorkerState) Gone() bool { return s == WorkerDead || s == WorkerLeft }

// MasterRole is what a master is at the moment.
type MasterRole string

// Roles of a master.
const (
	MasterLeader  MasterRole = "leader"
	MasterStandby MasterRole = "standby"
)

// Cause says why an executor ended, in the classes that the failure policy
// distinguishes (design 8).
type Cause string

// Causes. Only CauseApp and CauseStart count as failures of the application.
const (
	CauseNone  Cause = ""      // still live
	CauseClean Cause = "clean" // exit 0
	CauseApp   Cause = "app"   // the process failed by itself
	CauseStart Cause = "start" // the process could not be started at all
	CauseInfra Cause = "infra" // lost with its worker, never acknowledged, …
	CauseKill  Cause = "kill"  // ended because we were asked to
)

// AppKind says who runs the application's work.
type AppKind string

// Kinds of application that exist today.
const (
	// AppKindDriver has a driver with a session; its executors register with
	// that driver and run tasks (hearth run).
	AppKindDriver AppKind = "driver"
	// AppKindCommand has no driver: copies of one command are kept running,
	// or a number of completions is reached (hearth submit).
	AppKindCommand AppKind = "command"
)
