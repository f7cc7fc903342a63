package fsm

import (
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

// gang marks placements as one.
func gang(ps ...*replogv1.Placement) []*replogv1.Placement {
	for _, p := range ps {
		p.Gang = 1
	}
	return ps
}

// rejections places and returns what became of each placement.
func (w *world) rejections(ps ...*replogv1.Placement) []model.Rejection {
	w.t.Helper()
	var out []model.Rejection
	for _, v := range w.must(place(ps...)).Placements {
		out = append(out, v.Rejection)
	}
	return out
}

func TestAGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regWorker("w1", 1, 4))
	w.must(regWorker("w2", 1, 1))
	s := driverSpec()
	s.Executors, s.MinExecutors, s.Profile.Cores = 4, 3, 1
	app := w.must(regApp(s)).App
	at := func(worker string) *replogv1.Placement { return placement(app, worker, 1, 1) }

	same := func(what string, got []model.Rejection, want model.Rejection) {
		t.Helper()
		for i, r := range got {
			if r != want {
				t.Errorf("%s: placement %d: %q, want %q", what, i, r, want)
			}
		}
		if n := w.app(app).Live[0]; want != model.RejectNone && n != 0 {
			t.Errorf("%s: %d executors are live", what, n)
		}
	}
	same("one alone", w.rejections(at("w1")), model.RejectGang)
	same("two of three", w.rejections(gang(at("w1"), at("w1"))...), model.RejectGang)
	same("three of which two share one core", w.rejections(gang(at("w1"), at("w2"), at("w2"))...), model.RejectDoesNotFit)
	same("three", w.rejections(gang(at("w1"), at("w1"), at("w2"))...), model.RejectNone)
	if n := w.app(app).Live[0]; n != 3 {
		t.Fatalf("%d executors are live, want 3", n)
	}
	same("a further one", w.rejections(at("w1")), model.RejectNone)
}

func TestCapsOfQueuesAndUsersAreCheckedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regWorker("w1", 1, 6))
	w.must(setting(model.SettingQueues, "a,cap_cores=2"))
	w.must(setting(model.SettingUserCores, "3"))
	s := driverSpec()
	s.User, s.Queue, s.Profile.Cores, s.Executors = "ann", "a", 1, model.TargetUnlimited
	first := w.must(regApp(s)).App
	s.Queue = ""
	second := w.must(regApp(s)).App
	s.Queue = "b"
	w.refused(regApp(s), model.RejectInvalid)

	want := []model.Rejection{model.RejectNone, model.RejectNone, model.RejectOverCores, model.RejectNone, model.RejectOverCores}
	got := w.rejections(
		placement(first, "w1", 1, 1), placement(first, "w1", 1, 1), placement(first, "w1", 1, 1),
		placement(second, "w1", 1, 1), placement(second, "w1", 1, 1),
	)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("placement %d: %q, want %q", i, got[i], want[i])
		}
	}
}

func TestARequiredLabelIsCheckedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regWorker("w1", 1, 4))
	s := driverSpec()
	s.Profile.Cores, s.Require = 1, map[string]string{"zone": "elsewhere"}
	app := w.must(regApp(s)).App
	if got := w.rejections(placement(app, "w1", 1, 1)); got[0] != model.RejectDoesNotFit {
		t.Errorf("placed on a worker without the label: %q", got[0])
	}
}
