//go:build linux

package workerd

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/workerd/keeper"
)

// reasonSingleton is why an executor ended that must not run twice.
const reasonSingleton = "ended by its disconnect policy (singleton): no leader had answered its worker for half of worker_timeout"

// verdict says how an executor ended whose process ended as x says. What had ended by itself before the signal of
// a worker that stops has the end that it had.
func (e *executor) verdict(x keeper.Exit) model.ExecutorReport {
	r := model.ExecutorReport{Ref: e.ref, ExitCode: x.Code, Signal: x.Signal}
	switch {
	case e.kill != nil && e.kill.infra && (x.KillRequested || x.Signal != 0):
		r.State, r.Cause, r.Reason = model.ExecutorLost, model.CauseInfra, e.kill.reason
	case e.kill != nil && !e.kill.infra:
		r.State, r.Cause, r.Reason = model.ExecutorKilled, model.CauseKill, withReason("killed", e.kill.reason)
	case x.LeaseOver:
		r.State, r.Cause, r.Reason = model.ExecutorLost, model.CauseInfra, reasonSingleton
	case x.KillRequested:
		// Not by an order: the keeper ended it because its worker had gone.
		r.State, r.Cause, r.Reason = model.ExecutorLost, model.CauseInfra, "ended together with the worker's process"
	case x.OOMKilled:
		r.State, r.Cause = model.ExecutorFailed, model.CauseApp
		r.Reason = fmt.Sprintf("killed by the kernel at its memory limit of %d MiB", e.memoryMiB)
	case x.Signal != 0:
		r.State, r.Cause = model.ExecutorFailed, model.CauseApp
		r.Reason = fmt.Sprintf("ended by signal %d (%s)", x.Signal, unix.SignalName(unix.Signal(x.Signal)))
	case x.Code != 0:
		r.State, r.Cause = model.ExecutorFailed, model.CauseApp
		r.Reason = fmt.Sprintf("exit code %d", x.Code)
	default:
		r.State, r.Cause, r.Reason = model.ExecutorExited, model.CauseClean, "exit code 0"
	}
	return r
}

// failedBy reports whether a process has failed by itself.
func failedBy(x keeper.Exit) bool {
	return !x.LeaseOver && !x.KillRequested && (x.OOMKilled || x.Signal != 0 || x.Code != 0)
}

func lost(ref model.ExecutorRef, reason string) model.ExecutorReport {
	return model.ExecutorReport{Ref: ref, State: model.ExecutorLost, Cause: model.CauseInfra, ExitCode: -1, Reason: reason}
}

func startFailure(ref model.ExecutorRef, err error) model.ExecutorReport {
	return model.ExecutorReport{
		Ref: ref, State: model.ExecutorFailed, Cause: model.CauseStart, ExitCode: -1,
		Reason: clip("could not be started: " + err.Error()),
	}
}
