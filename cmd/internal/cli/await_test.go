package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/model"
)

// patience is a cluster in which an application is placed at some time, or
// never, and changes in between.
type patience struct {
	began  time.Time
	placed time.Duration // 0 = never
	change time.Duration // how often its record changes; 0 = never
	why    model.Why
	err    error
}

func (p *patience) WaitApp(ctx context.Context, app model.AppID, after uint64) (model.AppView, error) {
	v := model.AppView{ID: app, State: model.AppWaiting, ChangeIndex: after + 1}
	wait := time.Hour
	if p.placed > 0 {
		wait = max(0, p.placed-time.Since(p.began))
	}
	if p.change > 0 && p.change < wait {
		wait = p.change
	}
	if after == 0 {
		wait = 0 // the answer to the first question is what there is
	}
	select {
	case <-ctx.Done():
		return model.AppView{}, ctx.Err()
	case <-time.After(wait):
	}
	if p.placed > 0 && time.Since(p.began) >= p.placed {
		v.State, v.StartedAt = model.AppRunning, "2026-11-30T12:00:00.000Z"
	}
	return v, nil
}

func (p *patience) Why(ctx context.Context, _ string) (model.Why, error) {
	if p.err != nil {
		return model.Why{}, p.err
	}
	return p.why, ctx.Err()
}

func TestSubmitSaysWhyItWaitsAndForHowLong(t *testing.T) {
	t.Parallel()
	const app = "app-20261130061500-0001"
	prefix := "hearth: application " + app + " is WAITING for "
	for _, tc := range []struct {
		name  string
		p     patience
		limit time.Duration
		want  []string
		err   error
	}{
		{
			"within three seconds and every ten, until its time is up",
			patience{why: model.Why{Text: "no worker is there"}},
			25 * time.Second,
			[]string{"2s: no worker is there", "12s: no worker is there", "22s: no worker is there"},
			context.DeadlineExceeded,
		},
		{
			"however often the application changes",
			patience{why: model.Why{Text: "busy"}, change: 300 * time.Millisecond, placed: 13 * time.Second},
			time.Hour,
			[]string{"2s: busy", "12s: busy"},
			nil,
		},
		{"not if it is placed before", patience{why: model.Why{Text: "busy"}, placed: time.Second}, time.Hour, nil, nil},
		{
			"that it waits in vain",
			patience{why: model.Why{Text: "needs 16 GiB", Never: true}, placed: 5 * time.Second},
			time.Hour,
			[]string{"2s: it can't ever be placed as things are: needs 16 GiB"},
			nil,
		},
		{
			"that nobody knows",
			patience{err: errors.New("no master answers"), placed: 5 * time.Second},
			time.Hour,
			[]string{"2s: no master could say why: no master answers"},
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tc.p.began = time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
				defer cancel()
				var out strings.Builder
				_, err := awaitPlacement(ctx, &tc.p, &out, app)
				if !errors.Is(err, tc.err) {
					t.Errorf("error %v, want %v", err, tc.err)
				}
				var want strings.Builder
				for _, line := range tc.want {
					want.WriteString(prefix + line + "\n")
				}
				if out.String() != want.String() {
					t.Errorf("got\n%swant\n%s", out.String(), want.String())
				}
			})
		})
	}
}
