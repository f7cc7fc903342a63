package why

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

// cases has every way to wait, each explained by the text of its reasons.
var cases = []struct {
	name  string
	build func(s *state) (id string, opt Options)
	never bool
	want  []string // "CODE text", in order
}{
	{"no master leads", func(s *state) (string, Options) {
		s.app("a", 1, 1, 1024)
		return "a", Options{NoLeader: true}
	}, false, []string{"NO_LEADER no master leads, so nothing is placed"}},
	{"a fault has put it into quarantine", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.app("a", 1, 1, 1024).Reason = "left alone by the leader"
		return "a", Options{}
	}, false, []string{"QUARANTINE left alone by the leader"}},
	{"it pauses after failures", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", 1, 1, 1024)
		a.BackoffUntil, a.Failures = s.tick+7300, make([]model.Failure, 4)
		return "a", Options{}
	}, false, []string{"BACKOFF pauses for another 8s after 4 failures within 10m0s"}},
	{"it pauses after failures of which the last is known", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", 1, 1, 1024)
		a.BackoffUntil, a.Failures = s.tick+1000, make([]model.Failure, 1)
		a.Finished = []*model.Executor{
			{ID: 1, Worker: "w1", Cause: model.CauseStart, Reason: "command not found: prog"},
			{ID: 2, Worker: "w1", Cause: model.CauseInfra, Reason: "lost"},
		}
		return "a", Options{}
	}, false, []string{"BACKOFF pauses for another 1s after 1 failure within 10m0s; the last, executor 1 on w1: it could not be started (command not found: prog)"}},
	{"there are no workers", func(s *state) (string, Options) {
		s.app("a", 1, 1, 1024)
		return "a", Options{}
	}, false, []string{"NO_WORKERS no worker is there"}},
	{"no worker has the label", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.app("a", 1, 1, 1024).Spec.Require = map[string]string{"zone": "a", "disk": "ssd"}
		return "a", Options{}
	}, true, []string{"NO_LABEL the only worker does not have the labels that it requires: disk=ssd, zone=a"}},
	{"memory that nobody offers", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.worker("w2", 8, 4096, 0)
		s.app("a", 1, 1, 16384)
		return "a", Options{}
	}, true, []string{"NEVER_FITS needs 16 GiB per executor; the largest worker offers 8 GiB"}},
	{"a resource that nobody has", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", 1, 1, 1024)
		a.Profiles[0] = model.Profile{Cores: 1, MemoryMiB: 1024, Resources: map[string]int{"gpu": 2}}
		return "a", Options{}
	}, true, []string{"NEVER_FITS needs 2 gpu per executor; no worker offers any"}},
	{"each is there, but not on one worker", func(s *state) (string, Options) {
		s.worker("w1", 16, 1024, 0)
		s.worker("w2", 2, 65536, 0)
		s.app("a", 1, 8, 32768)
		return "a", Options{}
	}, true, []string{"NEVER_FITS no worker offers what one executor needs together: 8 cores, 32 GiB"}},
	{"another application has everything (SC-11)", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.worker("w2", 4, 8192, 0)
		b := s.app("app-1", model.TargetUnlimited, 0, 1024)
		s.run(b, "w1", 4, model.ExecutorRunning)
		s.run(b, "w2", 4, model.ExecutorRunning)
		s.app("a", 1, 1, 1024)
		return "a", Options{}
	}, false, []string{"BUSY waiting behind app-1 (100 % of cores): needs 1 core on one worker, none is free on 2 of the 2 workers that could hold it"}},
	{"what is free lies in pieces, and another waits first", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.run(s.app("b", 1, 3, 1024), "w1", 3, model.ExecutorRunning)
		s.app("c", 2, 4, 1024)
		s.app("a", 1, 3, 1024)
		return "a", Options{}
	}, false, []string{
		"BUSY waiting behind b (75 % of cores): needs 3 cores on one worker, at most 1 core is free on the only worker that could hold it",
		"LEFT_OVER 1 core can't be used: executor needs 3",
		"AHEAD 1 application is waiting ahead of it (c)",
	}},
	{"cores here, memory there", func(s *state) (string, Options) {
		s.worker("w1", 4, 4096, 0)
		s.worker("w2", 4, 4096, 0)
		b := s.app("b", 2, 1, 4096)
		s.run(b, "w1", 1, model.ExecutorRunning)
		c := s.app("c", 1, 4, 512)
		s.run(c, "w2", 4, model.ExecutorRunning)
		b.Targets[0] = 1
		s.app("a", 1, 2, 1024)
		return "a", Options{}
	}, false, []string{
		"BUSY waiting behind c (100 % of cores): needs 2 cores on one worker, none is free on 1 of the 2 workers that could hold it",
		"BUSY waiting behind b (100 % of memory): needs 1 GiB on one worker, none is free on 1 of the 2 workers that could hold it",
	}},
	{"it has failed on the only worker", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.app("a", 1, 1, 1024).Excluded = []model.Exclusion{{Worker: "w1", UntilTick: s.tick + 90_000}}
		return "a", Options{}
	}, false, []string{"EXCLUDED keeps off the only worker that could hold it after failures there (w1), the first for another 1m30s"}},
	{"workers drain, are silent or hold too much", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0).State = model.WorkerDraining
		s.worker("w2", 4, 8192, 0)
		s.worker("w3", 4, 8192, 0).Overcommitted = true
		s.app("a", 1, 1, 1024)
		return "a", Options{WorkerBlocked: func(id model.WorkerID) bool { return id == "w2" }}
	}, false, []string{"WORKERS_AWAY 3 of the 3 workers that could hold it get nothing new: 1 DRAINING, 1 holding more than it offers, 1 silent (w1, w2, w3)"}},
	{"a gang does not fit now", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.worker("w2", 4, 8192, 0)
		s.run(s.app("b", 1, 4, 1024), "w1", 4, model.ExecutorRunning)
		s.app("a", 4, 2, 1024).Spec.MinExecutors = 4
		return "a", Options{}
	}, false, []string{
		"GANG takes 4 executors together or none; there is room for 2",
		"BUSY waiting behind b (50 % of cores): needs 2 cores on one worker, none is free on 1 of the 2 workers that could hold it",
	}},
	{"a gang has room on every worker, but not enough", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.worker("w2", 4, 8192, 0)
		b := s.app("b", 2, 3, 1024)
		s.run(b, "w1", 3, model.ExecutorRunning)
		s.run(b, "w2", 3, model.ExecutorRunning)
		s.app("a", 4, 1, 1024).Spec.MinExecutors = 4
		return "a", Options{}
	}, false, []string{"GANG waiting behind b (75 % of cores): takes 4 executors together or none; there is room for 2"}},
	{"it has most of it itself", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.run(s.app("a", 2, 3, 1024), "w1", 3, model.ExecutorRunning)
		return "a", Options{}
	}, false, []string{
		"BUSY waiting behind its own executors (75 % of cores): needs 3 cores on one worker, at most 1 core is free on the only worker that could hold it",
		"LEFT_OVER 1 core can't be used: executor needs 3",
	}},
	{"it pauses, and keeps off the only worker afterwards", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", 1, 1, 1024)
		a.BackoffUntil, a.Failures = s.tick+4000, make([]model.Failure, 3)
		a.Excluded = []model.Exclusion{{Worker: "w1", UntilTick: s.tick + 90_000}}
		return "a", Options{}
	}, false, []string{
		"BACKOFF pauses for another 4s after 3 failures within 10m0s",
		"EXCLUDED keeps off the only worker that could hold it after failures there (w1), the first for another 1m30s",
	}},
	{"a gang never fits", func(s *state) (string, Options) {
		s.worker("w1", 4, 8192, 0)
		s.app("a", 4, 2, 1024).Spec.MinExecutors = 4
		return "a", Options{}
	}, true, []string{"GANG takes 4 executors together or none; the workers hold 2 even if nothing else runs"}},
	{"cores are kept for a gang", func(s *state) (string, Options) {
		s.settings.GangAfterMilli = 1000
		s.worker("w1", 4, 8192, 0)
		s.worker("w2", 4, 8192, 0)
		s.run(s.app("b", 1, 4, 1024), "w1", 4, model.ExecutorRunning)
		s.app("g", 4, 2, 1024).Spec.MinExecutors = 4
		s.app("a", 1, 3, 1024)
		return "a", Options{}
	}, false, []string{
		"WITHHELD what is free is kept for g, which takes 4 executors together",
		"AHEAD 1 application is waiting ahead of it (g)",
	}},
	{"more per executor than its own limit", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.settings.DefaultCores = 2
		s.app("a", 1, 4, 1024)
		return "a", Options{}
	}, true, []string{"DEFAULT_CORES needs 4 cores per executor; the cluster's limit default_cores is 2"}},
	{"its executors that end still hold its cores", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", 1, 4, 1024)
		a.Spec.CoresMax = 5
		s.run(a, "w1", 4, model.ExecutorStuck)
		return "a", Options{}
	}, false, []string{
		"CORES_MAX 4 of at most 5 cores are held: its own limit",
		"LEFT_OVER 1 core can't be used: executor needs 4",
		"ENDING 4 cores of it are held by 1 executor being ended, 1 of them STUCK",
	}},
	{"the user holds all he may", func(s *state) (string, Options) {
		s.settings.UserCores = 4
		s.worker("w1", 8, 8192, 0)
		s.run(s.app("b", 1, 3, 1024), "w1", 3, model.ExecutorRunning)
		s.app("a", 1, 2, 1024)
		return "a", Options{}
	}, false, []string{
		"USER_CAP 3 of at most 4 cores are held: the limit user_cores of ann",
		"LEFT_OVER 1 core can't be used: executor needs 2",
	}},
	{"the queue is full", func(s *state) (string, Options) {
		s.settings.Queues = []model.Queue{{Name: "batch", Weight: 1, CapCores: 4}}
		s.worker("w1", 8, 8192, 0)
		b := s.app("b", 1, 4, 1024)
		b.Spec.Queue = "batch"
		s.run(b, "w1", 4, model.ExecutorRunning)
		s.app("a", 1, 2, 1024).Spec.Queue = "batch"
		return "a", Options{}
	}, false, []string{"QUEUE_CAP 4 of at most 4 cores are held: the cap_cores of queue batch"}},
	{"there is room, and nobody has looked yet", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.app("a", 1, 2, 1024)
		return "a", Options{}
	}, false, []string{"NEXT there is room on w1; the next pass of the scheduler uses it"}},
	{"there is room, which another takes first", func(s *state) (string, Options) {
		s.worker("w1", 2, 8192, 0)
		s.app("b", 1, 2, 1024)
		s.app("a", 1, 2, 1024)
		return "a", Options{}
	}, false, []string{"AHEAD 1 application is waiting ahead of it (b)"}},
	{"it has a place and is not up", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.run(s.app("a", 1, 2, 1024), "w1", 2, model.ExecutorLaunching)
		return "a", Options{}
	}, false, []string{"STARTING 1 executor is starting on w1"}},
	{"it runs", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.run(s.app("a", 1, 2, 1024), "w1", 2, model.ExecutorRunning)
		return "a", Options{}
	}, false, nil},
	{"it takes whatever is free and has its limit", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		a := s.app("a", model.TargetUnlimited, 2, 1024)
		a.Spec.CoresMax = 2
		s.run(a, "w1", 2, model.ExecutorRunning)
		return "a", Options{}
	}, false, []string{"CORES_MAX 2 of at most 2 cores are held: its own limit"}},
	{"a driver is launched again later", func(s *state) (string, Options) {
		d := s.driver("driver-1", 1, 512)
		d.State, d.BackoffUntil, d.Reason = model.DriverRelaunching, s.tick+2000, "exit code 1"
		return "driver-1", Options{}
	}, false, []string{"BACKOFF is launched again in 2s: exit code 1"}},
	{"too many drivers", func(s *state) (string, Options) {
		s.settings.MaxDrivers = 1
		s.worker("w1", 8, 8192, 0)
		s.driver("driver-1", 1, 512).State = model.DriverRunning
		s.driver("driver-2", 1, 512)
		s.driver("driver-3", 1, 512)
		return "driver-3", Options{}
	}, false, []string{"MAX_DRIVERS 1 driver is placed; max_drivers is 1", "AHEAD 1 driver is waiting ahead of it (driver-2)"}},
	{"drivers have their share", func(s *state) (string, Options) {
		s.settings.DriverShareMilli = 250
		s.worker("w1", 8, 8192, 0)
		s.driver("driver-1", 2, 512).State = model.DriverRunning
		s.driver("driver-2", 1, 512)
		return "driver-2", Options{}
	}, false, []string{"DRIVER_SHARE drivers hold 2 of the 2 cores that driver_share 0.25 leaves them; it needs 1"}},
	{"no worker is large enough for a driver", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		s.driver("driver-1", 9, 512)
		return "driver-1", Options{}
	}, true, []string{"NEVER_FITS needs 9 cores per driver; the largest worker offers 8 cores"}},
	{"a driver is being ended", func(s *state) (string, Options) {
		s.worker("w1", 8, 8192, 0)
		d := s.driver("driver-1", 1, 512)
		d.State = model.DriverKilling
		s.executors = append(s.executors, &model.Executor{App: d.ID.Owner(), ID: 1, Worker: "w1", Cores: 1, State: model.ExecutorStuck})
		return "driver-1", Options{}
	}, false, []string{"ENDING its process on w1 is being ended (STUCK)"}},
}

func explain(t *testing.T, s *state, id string, opt Options) model.Why {
	t.Helper()
	if model.IsDriver(model.AppID(id)) {
		v, ok := Driver(s, model.DriverID(id), opt)
		if !ok {
			t.Fatalf("no driver %s", id)
		}
		return v
	}
	v, ok := App(s, model.AppID(id), opt)
	if !ok {
		t.Fatalf("no application %s", id)
	}
	return v
}

func TestWhatKeepsSomethingWaitingIsSaidWithNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newState()
			id, opt := tc.build(s)
			v := explain(t, s, id, opt)
			var got []string
			for _, r := range v.Reasons {
				got = append(got, string(r.Code)+" "+r.Text)
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
			if v.Never != tc.never {
				t.Errorf("never is %t, want %t", v.Never, tc.never)
			}
		})
	}
}

func TestEveryCodeOfTheClosedListIsGivenAndNoOther(t *testing.T) {
	t.Parallel()
	missing := make(map[model.WhyCode]bool)
	for _, c := range model.WhyCodes() {
		missing[c] = true
	}
	known := len(missing)
	for _, tc := range cases {
		s := newState()
		id, opt := tc.build(s)
		for _, r := range explain(t, s, id, opt).Reasons {
			delete(missing, r.Code)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no case is explained by %v of %d codes", missing, known)
	}
}

// The numbers of two reasons, field by field.
func TestNumbersHaveFieldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newState()
	s.worker("w1", 4, 8192, 0)
	s.run(s.app("b", 1, 3, 1024), "w1", 3, model.ExecutorRunning)
	s.app("a", 2, 3, 1024)
	v := explain(t, s, "a", Options{})
	if !v.Waiting || v.Wanted != 2 || v.Live != 0 || v.AgeMilli != 7000 {
		t.Errorf("waiting %t, wanted %d, live %d, age %d: want true, 2, 0, 7000", v.Waiting, v.Wanted, v.Live, v.AgeMilli)
	}
	r := v.Reasons[0]
	if r.Resource != model.ResourceCores || r.Need != 3 || r.Have != 1 || r.Missing != 2 || r.Workers != 1 {
		t.Errorf("%+v: want 3 cores needed, 1 free, 2 missing on 1 worker", r)
	}
	if len(r.Holders) != 1 || r.Holders[0] != (model.WhyHolder{ID: "b", Name: "name of b", User: "ann", Amount: 3, Percent: 75}) {
		t.Errorf("holders %+v: want b with 3 cores, 75 %%", r.Holders)
	}
}

func TestTheQueueListsWhatWaitsInTheOrderOfTheScheduler(t *testing.T) {
	t.Parallel()
	s := newState()
	s.settings.Queues = []model.Queue{{Name: "batch", Weight: 1}, {Name: "prod", Weight: 1, Priority: 5}}
	s.worker("w1", 4, 8192, 0)
	s.run(s.app("runs", 1, 4, 1024), "w1", 4, model.ExecutorRunning)
	s.app("b1", 1, 1, 1024).Spec.Queue = "batch"
	s.app("p1", 1, 1, 1024).Spec.Queue = "prod"
	s.app("b2", 1, 1, 1024).Spec.Queue = "batch"
	s.app("over", 1, 1, 1024).State = model.AppFailed
	s.driver("driver-1", 1, 512)
	var got []string
	for _, v := range New(s, Options{}).Waiting() {
		got = append(got, fmt.Sprintf("%s %s %d", v.ID, v.Reasons[0].Code, v.AgeMilli))
	}
	want := "driver-1 BUSY 5000, p1 BUSY 7000, b1 BUSY 7000, b2 BUSY 7000"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// A list over a large cluster looks at its workers once for each size, not once
// for each application.
func BenchmarkWaiting(b *testing.B) {
	s := newState()
	for i := range 1000 {
		s.worker(fmt.Sprintf("w%04d", i), 16, 65536, 0)
	}
	for i := range 1000 {
		s.app(fmt.Sprintf("a%04d", i), 1, 17, 1024)
	}
	for b.Loop() {
		New(s, Options{}).Waiting()
	}
}
