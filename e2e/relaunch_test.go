//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// HA-30: a driver that the cluster itself runs and relaunches, submitted through
// one standby, knows all masters; relaunched after a change of leader it
// registers with the new one.
func TestHA30ARelaunchedDriverKnowsAllMasters(t *testing.T) {
	skipLong(t)
	c := newCluster(t, size{workers: 2, cores: 4})
	standby := c.standbys(t)[0]
	holder := c.via(t, standby, slices.Concat([]string{"submit", "--name", "holder"}, c.access.passOn(), []string{"--", hearthBinary, "run", "--name", "work", "--jobs", "1", "sleep 600", ":::", "1"})...).wantCode(t, 0).app(t)
	// work is the application that the driver registers.
	work := func(not model.AppID) (found model.AppID) {
		for _, a := range c.status(t).Apps {
			if a.Name == "work" && a.ID != not && a.Running > 0 {
				found = a.ID
			}
		}
		return found
	}
	var first model.AppID
	eventually(t, settleWithin, "the driver has its executor", func() string {
		if first = work(""); first == "" {
			return "it has none"
		}
		return ""
	})
	driver := live(c.awaitRunning(t, holder, 1))[0]

	c.leader(t).proc.kill9(t)
	next := c.leader(t)
	if err := syscall.Kill(driver.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	eventually(t, 10*time.Second, "the relaunched driver has registered with the new leader", func() string {
		if work(first) == "" {
			return "it has not"
		}
		return ""
	})
	t.Logf("the relaunched driver had its executor %s after the death of the first, under %s", time.Since(killed).Round(time.Millisecond), next.name)
	again := live(c.awaitRunning(t, holder, 1))[0]
	if again.ID == driver.ID {
		t.Fatalf("executor %d was not replaced", again.ID)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", again.PID))
	if err != nil {
		t.Fatal(err)
	}
	var masters []string
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if list, ok := strings.CutPrefix(kv, "HEARTH_MASTERS="); ok {
			masters = strings.Split(list, ",")
		}
	}
	var want []string
	for _, m := range c.masters {
		want = append(want, m.GRPC)
	}
	slices.Sort(masters)
	slices.Sort(want)
	if !slices.Equal(masters, want) {
		t.Errorf("the relaunched driver knows %v, want %v", masters, want)
	}
}
