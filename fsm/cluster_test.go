package fsm

import (
	"errors"
	"testing"

	"github.com/hearthd/hearth/model"
	replogv1 "github.com/hearthd/hearth/proto/replog/v1"
)

func TestACclusterIsNamedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refused(initCluster(""), model.RejectInvalid)
	w.must(initCluster("c1"))
	if got, want := w.v().Cluster(), (model.ClusterIdentity{ID: "c1", Epoch: 1, EpochID: 7}); got != want {
		t.Errorf("cluster = %v, want %v", got, want)
	}
	if res := w.must(initCluster("c1")); !res.Repeated {
		t.Error("the same identity again is not taken for a repeat")
	}
	w.refused(initCluster("c2"), model.RejectInitialised)
}

func TestMastersComeChangeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(regMaster("m1", "a:1"))
	hash := w.v().HashString()
	if res := w.must(regMaster("m1", "a:1")); !res.Repeated || w.v().HashString() != hash {
		t.Error("registering the same master again changed something")
	}
	w.must(regMaster("m1", "b:1"))
	if m, _ := w.v().Master("m1"); m.GRPCAddr != "b:1" || m.ChangeIndex != w.index {
		t.Errorf("master = %+v, want the new address", m)
	}
	w.refused(regMaster("m 1", "a:1"), model.RejectInvalid)
	w.must(removeMaster("m1"))
	w.must(removeMaster("m1"))
	w.refused(removeMaster("m2"), model.RejectUnknownMaster)
	w.refused(regMaster("m1", "a:1"), model.RejectMasterRemoved)
	if lines := w.v().Audit(0); len(lines) != 3 || lines[0].Action != "remove master" {
		t.Errorf("audit = %+v, want three lines, the newest first", lines)
	}
}

func TestSettingsChangeByName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(setting(model.SettingDefaultCores, "4"))
	w.must(setting(model.SettingSpreadOutApps, "false"))
	w.must(setting(model.SettingWorkerSelectionPolicy, "WORKER_ID"))
	want := model.Settings{SpreadOutDrivers: true, WorkerSelectionPolicy: model.ByWorkerID, DefaultCores: 4}
	if got := w.v().Settings(); !got.Equal(want) {
		t.Errorf("settings = %+v, want %+v", got, want)
	}
	w.refused(setting("color", "red"), model.RejectUnknownSetting)
	w.refused(setting(model.SettingDefaultCores, "many"), model.RejectInvalid)
	w.refused(setting(model.SettingDefaultCores, "-1"), model.RejectInvalid)
	w.refused(setting(model.SettingSpreadOutApps, "perhaps"), model.RejectInvalid)
	w.refused(setting(model.SettingWorkerSelectionPolicy, "BEST"), model.RejectInvalid)
}

func TestAnEntryThatCannotBeTrustedStopsTheNode(t *testing.T) {
	t.Parallel()
	unknown := []byte{0xf2, 0x7f, 0x00} // field 2046, an empty message
	command := func(prefix ...byte) []byte {
		body := append(prefix, unknown...)
		return append([]byte{0x0a, byte(len(body))}, body...)
	}
	good, err := EncodeBatch([]*replogv1.Command{regMaster("m1", "a:1")})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		index uint64
		entry []byte
		want  error
	}{
		{"bytes that are no batch", 5, []byte{0xff, 0xff}, ErrBroken},
		{"a kind that is not known, after one that is", 5, append(append([]byte{}, good...), command()...), ErrBroken},
		{"a command without any kind", 5, []byte{0x0a, 0x00}, ErrBroken},
		{"an unknown kind whose writer allowed to skip it", 5, append(append([]byte{}, good...), command(0x38, 0x01)...), nil},
		{"an empty entry", 5, nil, nil},
		{"an index that was applied already", 0, good, ErrBroken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := New(CheckInvariants())
			_, err := f.Apply(tc.index, tc.entry)
			if !errors.Is(err, tc.want) {
				t.Fatalf("err = %v, want %v", err, tc.want)
			}
			_, applied := f.View().Master("m1")
			if want := tc.want == nil && len(tc.entry) > 0; applied != want {
				t.Errorf("the good command before it applied = %t, want %t", applied, want)
			}
		})
	}
}

func TestTheClusterClockNeverRunsBackwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := regMaster("m1", "a:1")
	c.Tick = 5000
	w.must(c)
	c = regMaster("m2", "a:1")
	c.Tick = 4000
	w.must(c)
	if got := w.v().Tick(); got != 5000 {
		t.Errorf("tick = %d, want 5000", got)
	}
	for _, bad := range []func(*replogv1.Command){
		func(c *replogv1.Command) { c.Tick = -1 },
		func(c *replogv1.Command) { c.Tick = maxTick + 1 },
		func(c *replogv1.Command) { c.Wall = -1 },
		func(c *replogv1.Command) { c.Wall = maxWall + 1 },
		func(c *replogv1.Command) { c.RequestId = "two words" },
	} {
		c := regMaster("m3", "a:1")
		bad(c)
		w.refused(c, model.RejectInvalid)
	}
}

func TestEncodeBatchRefusesWhatCannotBeApplied(t *testing.T) {
	t.Parallel()
	if _, err := EncodeBatch([]*replogv1.Command{{}}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("a command without a kind: %v, want ErrInvalid", err)
	}
	if _, err := EncodeBatch([]*replogv1.Command{killApp("\xff")}); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("text that is not UTF-8: %v, want ErrInvalid", err)
	}
	if _, err := EncodeBatch([]*replogv1.Command{killApp(model.AppID(make([]byte, MaxEntryBytes)))}); !errors.Is(err, model.ErrTooLarge) {
		t.Errorf("a batch that is too big: %v, want ErrTooLarge", err)
	}
}

// Found by random entries: the book of what queues and users hold goes by settings that the foundation replaces.
func TestTheFoundationOfAClusterCountsAnewWhatUsersHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t).withWorkers(1, 8)
	w.must(setting(model.SettingUserCores, "4"))
	app := w.must(regApp(driverSpec())).App
	w.placed(app, "w1", 1)
	w.must(initCluster("c1")) // the state is checked after each entry
	w.must(setting(model.SettingUserCores, "1"))
	if v := w.must(place(placement(app, "w1", 1, 1))).Placements[0]; v.Rejection == model.RejectNone {
		t.Error("a user who holds one core got another above his cap")
	}
}
