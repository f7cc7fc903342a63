package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

// A worker's journal may lose its last records to a power cut, that of a launch among them. The
// launch is not ordered again: it would start a second time. ADR 0043.
func TestAWorkerThatComesBackWithoutALaunchIsNotOrderedItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	app := w.must(regApp(driverSpec())).App
	ordered := model.ExecutorID(w.placed(app, "w1", 1))
	running := model.ExecutorID(w.placed(app, "w1", 1))
	w.report1("w1", says(app, int(running), model.ExecutorRunning))
	w.must(regWorker("w1", 2, 8)) // a new start, with nothing
	for _, id := range []model.ExecutorID{ordered, running} {
		if e := w.executor(app, id); e.State != model.ExecutorLost || e.Cause != model.CauseInfra {
			t.Errorf("executor %d is %s (%s), want it LOST through no fault of its own", id, e.State, e.Cause)
		}
	}
}
