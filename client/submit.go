package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// SubmitWindow is how many batches of one RegisterApps are under way at once:
// with rpc.MaxSubmissions in each, 1,024 applications.
const SubmitWindow = 16

// RegisterApps registers many applications, each under a request id of its own
// and with a verdict of its own, in the order of specs. Up to
// rpc.MaxSubmissions travel in one message, which the log takes in one write,
// and up to SubmitWindow messages are under way at once: those of one message
// are registered in their order, of several messages any may be first.
//
// It blocks until each has a verdict. Verdicts are errors as RegisterApp
// returns them, with the same meaning when ctx ends first. Safe for concurrent
// use.
func (c *Client) RegisterApps(ctx context.Context, specs []model.AppSpec) []rpc.SubmissionVerdict {
	subs := make([]rpc.Submission, len(specs))
	for i := range specs {
		subs[i] = rpc.Submission{RequestID: c.NewRequestID(), Spec: c.owned(specs[i])}
	}
	out := make([]rpc.SubmissionVerdict, len(subs))
	window := make(chan struct{}, SubmitWindow)
	var wg sync.WaitGroup
	for from := 0; from < len(subs); {
		n := batchOf(subs[from:])
		batch, verdicts := subs[from:from+n], out[from:from+n]
		from += n
		window <- struct{}{}
		wg.Go(func() {
			c.submit(ctx, batch, verdicts)
			<-window
		})
	}
	wg.Wait()
	return out
}

// batchOf counts the submissions of the next message: at least one.
func batchOf(subs []rpc.Submission) int {
	n, size := 0, 0
	for n < len(subs) && n < rpc.MaxSubmissions {
		size += rpc.SubmissionBytes(subs[n].Spec)
		if n > 0 && size > rpc.MaxSubmissionBytes {
			break
		}
		n++
	}
	return n
}

// submit repeats one batch until every submission has a final verdict. What has
// one is not sent again.
func (c *Client) submit(ctx context.Context, subs []rpc.Submission, out []rpc.SubmissionVerdict) {
	open := make([]int, len(subs))
	for i := range open {
		open[i] = i
	}
	for renewal := 0; len(open) > 0; renewal++ {
		base, err := c.ensureBase(ctx, "register applications", renewal > 0)
		if err != nil {
			giveVerdict(out, open, err)
			return
		}
		expired, err := c.submitOnce(ctx, subs, out, open, base)
		if err != nil {
			giveVerdict(out, expired, err)
			return
		}
		open = expired
		if renewal >= maxRenewals {
			return // their verdicts say that the requests have expired
		}
	}
}

// submitOnce sends what is open under one base until each has an answer. It
// returns those that were certainly not applied because the base was too old,
// or those without an answer and why.
func (c *Client) submitOnce(ctx context.Context, subs []rpc.Submission, out []rpc.SubmissionVerdict, open []int, base uint64) ([]int, error) {
	var expired []int
	unsure := make(map[int]bool) // an earlier attempt may have been done
	err := c.loop(ctx, c.leader, call{
		what: fmt.Sprintf("register %d applications", len(open)), timeout: AttemptTimeout, identified: true,
		fn: func(ctx context.Context, svc rpc.ClusterService) error {
			batch := make([]rpc.Submission, 0, len(open))
			for _, i := range open {
				sub := subs[i]
				sub.Base = base
				batch = append(batch, sub)
			}
			reply, err := svc.RegisterApps(ctx, rpc.CallInfo{Principal: c.cfg.Principal}, batch)
			if err != nil {
				if judge(err) == unknown {
					for _, i := range open {
						unsure[i] = true
					}
				}
				return err
			}
			c.leader.Hint(reply.LeaderAddr)
			open, expired, err = c.sortVerdicts(reply.Verdicts, out, open, expired, unsure)
			return err
		},
	})
	if err != nil {
		return open, err
	}
	return expired, nil
}

// sortVerdicts keeps final verdicts, and returns what must be sent again with
// the error that says so.
func (c *Client) sortVerdicts(verdicts []rpc.SubmissionVerdict, out []rpc.SubmissionVerdict, open, expired []int, unsure map[int]bool) (left, old []int, err error) {
	for n, v := range verdicts {
		i := open[n]
		switch {
		case v.Err == nil:
			c.sawIndex(v.Index)
		case errors.Is(v.Err, model.ErrRequestExpired):
			if unsure[i] {
				v.Err = fmt.Errorf("%w: %w", model.ErrOutcomeUnknown, v.Err)
			} else {
				expired = append(expired, i)
			}
		case judge(v.Err) != final:
			unsure[i] = unsure[i] || judge(v.Err) == unknown
			left, err = append(left, i), v.Err
		}
		out[i] = v
	}
	return left, expired, err
}

func giveVerdict(out []rpc.SubmissionVerdict, of []int, err error) {
	for _, i := range of {
		out[i] = rpc.SubmissionVerdict{Err: err}
	}
}
