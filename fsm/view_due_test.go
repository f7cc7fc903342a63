package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestNothingMayFallDueWhileNobodyHasALimitOrAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(2, 4)
	w.must(regApp(commandSpec(2, 5, model.RestartAlways)))
	if w.v().MayFallDue() {
		t.Error("something may fall due: the leader would look at all applications each second")
	}
}
