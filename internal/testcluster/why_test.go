//go:build linux

package testcluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
	"github.com/hearthd/hearth/workerd"
)

const (
	reasonWithin = 2 * time.Second // after a submission
	goneWithin   = time.Second     // after a placement
)

// asked asks one master why an application waits.
func asked(cl *client.Client, app model.AppID) (model.Why, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return cl.Why(ctx, string(app))
}

// everywhere waits until every master gives a code first, with a text.
func everywhere(c *testcluster.Cluster, limit time.Duration, app model.AppID, code model.WhyCode, text string) {
	for i := range c.Expect {
		cl := c.Client(c.Master(i))
		c.Until(fmt.Sprintf("%s of %s from master %d", code, app, i+1), limit, func() error {
			v, err := asked(cl, app)
			if err != nil {
				return err
			}
			if !v.Waiting || len(v.Reasons) == 0 || v.Reasons[0].Code != code || !strings.Contains(v.Text, text) {
				return fmt.Errorf("got waiting %t, %q, %+v", v.Waiting, v.Text, v.Reasons)
			}
			return nil
		})
	}
}

// placedAndGone waits for a placement, and then for every master to have no reason any more.
func placedAndGone(c *testcluster.Cluster, app model.AppID) {
	cl := c.Client()
	c.Until("a placement of "+string(app), 20*time.Second, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		v, err := cl.App(ctx, rpc.AppRequest{ID: string(app)})
		if err == nil && v.Live == 0 {
			err = fmt.Errorf("it is %s", v.State)
		}
		return err
	})
	for i := range c.Expect {
		cl := c.Client(c.Master(i))
		c.Until(fmt.Sprintf("no old reason of %s from master %d", app, i+1), goneWithin, func() error {
			v, err := asked(cl, app)
			if err != nil {
				return err
			}
			for _, r := range v.Reasons {
				if r.Code != model.WhyStarting {
					return fmt.Errorf("still %s: %s", r.Code, r.Text)
				}
			}
			if v.Waiting {
				return fmt.Errorf("it still waits: %q", v.Text)
			}
			return nil
		})
	}
}

func sized(name string, cores int, memoryMiB int64) model.AppSpec {
	spec := testcluster.Sleepers(name, 1)
	spec.Profile = model.Profile{Cores: cores, MemoryMiB: memoryMiB}
	return spec
}

// TestSimWhyIsSaidWithinTwoSecondsByEveryMasterAndForgottenWithinOneOfThePlacement goes through what keeps an application
// waiting, with a failover in the middle. Nothing is ever said that was true before.
func TestSimWhyIsSaidWithinTwoSecondsByEveryMasterAndForgottenWithinOneOfThePlacement(t *testing.T) {
	testcluster.Run(t, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(3)
		c.Settled(20 * time.Second)
		first := c.Submit(sized("first", 4, 1024))
		everywhere(c, reasonWithin, first, model.WhyNoWorkers, "no worker is there")

		c.StartWorkerOn("w1", workerd.Config{Cores: 4, MemoryMiB: 8192})
		placedAndGone(c, first)

		large := c.Submit(sized("large", 1, 16384))
		everywhere(c, reasonWithin, large, model.WhyNeverFits, "needs 16 GiB per executor; the largest worker offers 8 GiB")
		second := c.Submit(sized("second", 1, 1024))
		everywhere(c, reasonWithin, second, model.WhyBusy, fmt.Sprintf("waiting behind %s (100 %% of cores)", first))

		leader := c.Settled(20 * time.Second)
		c.KillMaster(leader)
		next := c.AwaitLeader(20*time.Second, leader)
		cl := c.Client(next)
		c.Until("what waits, from the next leader", reasonWithin, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			v, err := cl.Waiting(ctx)
			if err != nil {
				return err
			}
			var got []string
			for _, w := range v.Waiting {
				got = append(got, fmt.Sprintf("%s %s %t", w.Name, w.Reasons[0].Code, w.Never))
			}
			if strings.Join(got, ", ") != "large NEVER_FITS true, second BUSY false" {
				return fmt.Errorf("got %q", got)
			}
			return nil
		})
		c.RestartMaster(leader)
		c.Settled(30 * time.Second)
		c.Kill(first)
		placedAndGone(c, second)
		everywhere(c, reasonWithin, large, model.WhyNeverFits, "the largest worker offers 8 GiB")
		c.Kill(large)
	})
}
