package fsm

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestARepeatGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.must(withID(regApp(driverSpec()), "r1", 0))
	again := w.must(withID(regApp(driverSpec()), "r1", 0))
	want := first
	want.Repeated = true
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("second answer (-want +got):\n%s", diff)
	}
	// Twice in one entry, as after a failover.
	res := w.do(withID(regApp(driverSpec()), "r2", 1), withID(regApp(driverSpec()), "r2", 1))
	if res[0].App != res[1].App || res[0].Repeated || !res[1].Repeated {
		t.Errorf("twice in one entry: %+v", res)
	}
	if got := w.v().CountActive(); got != 2 {
		t.Errorf("%d applications, want 2", got)
	}
}

func TestARejectionIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refused(withID(regMaster("m 1", "a:1"), "r1", 0), model.RejectInvalid)
	w.must(withID(regMaster("m1", "a:1"), "r1", 0))
}

func TestARequestFromTheFutureIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refused(withID(regMaster("m1", "a:1"), "r1", 1), model.RejectRequestExpired)
	w.must(withID(regMaster("m1", "a:1"), "r1", 1))
}

func TestOldRequestsExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.f.check = false
	app := w.must(withID(regApp(driverSpec()), "app", 0)).App
	w.must(withID(killApp(app), "kill", 0))
	const each = 1024
	for i := range model.MaxRemembered / each {
		cmds := make([]*replogv1.Command, each)
		for j := range cmds {
			cmds[j] = withID(regMaster("m1", fmt.Sprintf("a:%d", i*each+j)), fmt.Sprintf("r%d-%d", i, j), w.index)
		}
		w.do(cmds...)
	}
	if got := w.v().s.meta.rememberedSince; got != 2 {
		t.Errorf("remembered since %d, want 2: the two first were forgotten", got)
	}
	if res := w.must(withID(regApp(driverSpec()), "app", 0)); res.App != app || !res.Repeated {
		t.Errorf("the registration again: %+v, want application %s for as long as its record lives", res, app)
	}
	w.refused(withID(killApp(app), "kill", 0), model.RejectRequestExpired)
	w.refused(withID(killApp(app), "other", 1), model.RejectRequestExpired)
	w.must(withID(killApp(app), "other", 2))
	if res := w.must(withID(regMaster("m9", "a:1"), "r0-5", 0)); !res.Repeated {
		t.Error("a remembered request with an old base is applied again")
	}
	if err := w.v().CheckInvariants(); err != nil {
		t.Error(err)
	}
	if w.v().s.requests.n != model.MaxRemembered || w.v().s.audit.n != model.MaxAudit {
		t.Errorf("%d requests, %d audit lines; want both at their limits", w.v().s.requests.n, w.v().s.audit.n)
	}
}

func TestRememberedResultsAreSmall(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 64)
	app := w.must(regApp(driverSpec())).App
	var ps []*replogv1.Placement
	for range 40 {
		ps = append(ps, placement(app, "w1", 9, 1))
	}
	first := w.must(withID(place(ps...), "r1", 0))
	again := w.must(withID(place(ps...), "r1", 0))
	if len(first.Placements) != 40 || len(again.Placements) != 0 || again.Index != first.Index {
		t.Errorf("%d verdicts, then %d; want 40, then only the index", len(first.Placements), len(again.Placements))
	}
	few := w.must(withID(place(placement(app, "w1", 1, 1)), "r2", 0))
	if again := w.must(withID(place(placement(app, "w1", 1, 1)), "r2", 0)); !cmp.Equal(few.Placements, again.Placements) {
		t.Errorf("a small answer again: %+v, want %+v", again.Placements, few.Placements)
	}
}
