package masterd

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/model"
)

func TestAnAlarmIsLoggedWhenItBeginsAndWhenItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		b := newAlarmBook(hclog.New(&hclog.LoggerOptions{Output: &out}), func() time.Time { return time.UnixMilli(1000) })
		if got := b.list(); got == nil || len(got) != 0 {
			t.Errorf("without alarms: got %v, want an empty list", got)
		}
		for _, texts := range []string{"first", "second", "third"} {
			b.set(model.AlarmMasterStuck, map[string]string{"m2": texts, "m3": texts})
			time.Sleep(time.Second)
		}
		b.set(model.AlarmStoreStalled, map[string]string{"m1": "disk"})
		b.set(model.AlarmMasterStuck, map[string]string{"m3": "still"})
		want := []model.AlarmView{
			{Kind: model.AlarmMasterStuck, Subject: "m3", Since: "1970-01-01T00:00:01.000Z", Text: "still"},
			{Kind: model.AlarmStoreStalled, Subject: "m1", Since: "1970-01-01T00:00:01.000Z", Text: "disk"},
		}
		if diff := cmp.Diff(want, b.list()); diff != "" {
			t.Errorf("alarms (-want +got):\n%s", diff)
		}
		b.set(model.AlarmMasterStuck, nil)
		b.set(model.AlarmStoreStalled, nil)
		if got := b.list(); len(got) != 0 {
			t.Errorf("after all are over: got %v", got)
		}
		for line, n := range map[string]int{"[ERROR]": 3, "[INFO]": 3, "about=m2": 2, "after=3s": 2, "second": 0} {
			if got := strings.Count(out.String(), line); got != n {
				t.Errorf("lines with %q: got %d, want %d\n%s", line, got, n, out.String())
			}
		}
	})
}

func TestAVoterIsStuckOnlyIfItIsBehindAndDoesNotMove(t *testing.T) {
	type step struct {
		leader uint64
		voter  uint64
		gone   bool // not alive
	}
	seconds := func(n int, at func(i int) step) (out []step) {
		for i := range n {
			out = append(out, at(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		steps []step
		stuck bool // after the last step
	}{
		"an idle cluster": {seconds(60, func(int) step { return step{leader: 7, voter: 7} }), false},
		"one that follows a moment later": {
			seconds(60, func(i int) step { return step{leader: uint64(10 + i), voter: uint64(9 + i)} }), false,
		},
		"one that is far behind and moves": {
			seconds(60, func(i int) step { return step{leader: 100000, voter: uint64(1 + i/9)} }), false,
		},
		"one that stands still while the leader goes on": {
			seconds(12, func(i int) step { return step{leader: uint64(10 + i), voter: 10} }), true,
		},
		"one that stands still for nine seconds": {
			seconds(10, func(i int) step { return step{leader: uint64(10 + i), voter: 10} }), false,
		},
		"one that lacks the last entry for good": {
			seconds(12, func(int) step { return step{leader: 11, voter: 10} }), true,
		},
		"one whose figures nobody knows": {
			seconds(12, func(int) step { return step{leader: 11} }), true,
		},
		"one that has moved again": {
			append(seconds(30, func(i int) step { return step{leader: uint64(10 + i), voter: 10} }), step{leader: 41, voter: 11}), false,
		},
		"one that was dead in between": {
			append(seconds(8, func(int) step { return step{leader: 11, voter: 10} }),
				append([]step{{gone: true}}, seconds(8, func(int) step { return step{leader: 11, voter: 10} })...)...), false,
		},
	} {
		p := newProgress()
		now := time.Now()
		var stuck map[model.MasterID]uint64
		for _, s := range c.steps {
			voters := map[model.MasterID]uint64{"m2": s.voter}
			if s.gone {
				voters = nil
			}
			stuck = p.note(now, s.leader, voters)
			now = now.Add(time.Second)
		}
		if got := len(stuck) > 0; got != c.stuck {
			t.Errorf("%s: stuck = %v, want %v", name, got, c.stuck)
		}
	}
}
