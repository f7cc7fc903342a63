//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	// refusedFor is how long a standby is refused at the leader's ports, and
	// refusedEvery how often its connections are broken meanwhile.
	refusedFor   = 20 * time.Second
	refusedEvery = 2 * time.Second
	// leftAlone is what the standby says of it (package raftnode).
	leftAlone = "too few others find the same in time: leaving it alone"
	// partitions is how often the leader is cut off.
	partitions = 3
)

// A firewall between one standby and the leader answers RST at both of its
// ports, and breaks what was open: to this standby the leader looks dead. One
// opinion is no majority, so nothing happens (design 6).
func TestAFirewallThatRefusesOneStandbyChangesNoLeader(t *testing.T) {
	skipLong(t)
	i := newIsland(t)
	leader, before := i.whole(t)
	standby := i.others(leader)[0]
	standby.rules(t, fmt.Sprintf(`table inet e2e {
		chain out {
			type filter hook output priority 0;
			ip daddr %s tcp dport { 7070, 7071 } reject with tcp reset;
		};
	}`, leader.addr))
	var broken time.Time
	times := 0
	steady(t, refusedFor, "the leader leads on", func() string {
		if time.Since(broken) > refusedEvery {
			tool(t, "", "ip", "netns", "exec", standby.space, "ss", "-K", "dst", leader.addr)
			broken = time.Now()
			times++
		}
		for _, m := range i.others(standby) {
			v, err := m.view(t)
			if err != nil {
				return err.Error()
			}
			if v.Staleness.Term != before.Staleness.Term || v.Staleness.Leader != before.Staleness.Leader {
				return fmt.Sprintf("%q leads term %d, was %q in term %d", v.Staleness.Leader, v.Staleness.Term, before.Staleness.Leader, before.Staleness.Term)
			}
		}
		return ""
	})
	suspicions := strings.Count(standby.written(t), leftAlone)
	t.Logf("connections broken %d times, the standby suspected the leader %d times", times, suspicions)
	if suspicions == 0 {
		t.Errorf("the log of the standby never says %q: it was not put to the test", leftAlone)
	}
	standby.rules(t, "")
	if _, after := i.whole(t); after.Staleness.Term != before.Staleness.Term {
		t.Errorf("term %d in the end, was %d", after.Staleness.Term, before.Staleness.Term)
	}
}

// A leader whose packets are dropped is replaced, acknowledges nothing, and
// follows once it is heard again (HA-08, by a real firewall).
func TestALeaderWhosePacketsAreDroppedIsReplacedAndAcknowledgesNothing(t *testing.T) {
	skipLong(t)
	i := newIsland(t)
	var took []time.Duration
	acknowledged := map[string]bool{}
	for n := range partitions {
		old, before := i.whole(t)
		rest := i.others(old)
		name := func(side string) string { return fmt.Sprintf("%s-%d", side, n) }
		old.rules(t, `table inet e2e {
			chain in {
				type filter hook input priority 0;
				iifname "eth0" drop;
			};
			chain out {
				type filter hook output priority 0;
				oifname "eth0" drop;
			};
		}`)
		cut := time.Now()
		refused := old.begin(t, []*islander{old}, "submit", "--detach", "--timeout", "4s", "--name", name("cut-off"), "--", "true")
		rest[0].hearth(t, rest, "submit", "--detach", "--timeout", "20s", "--name", name("served"), "--", "true").wantCode(t, 0)
		took = append(took, time.Since(cut))
		acknowledged[name("served")] = true
		if r := refused.wait(t); r.code == 0 {
			t.Errorf("the leader that was cut off acknowledged a submission: %s", r.stdout)
		}
		old.rules(t, "")
		_, after := i.whole(t)
		if after.Staleness.Term <= before.Staleness.Term {
			t.Errorf("term %d after the partition, was %d", after.Staleness.Term, before.Staleness.Term)
		}
	}
	report(t, "packets of the leader dropped to the answer of hearth submit at standbys", took)
	_, v := i.whole(t)
	for _, a := range v.Apps {
		if !acknowledged[a.Name] {
			t.Errorf("%s (%s) is there, and was never acknowledged", a.ID, a.Name)
		}
		delete(acknowledged, a.Name)
	}
	for name := range acknowledged {
		t.Errorf("%s was acknowledged and is lost", name)
	}
}
