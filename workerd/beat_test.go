//go:build linux

package workerd

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/hearthd/hearth/client"
	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// metronome is a leader that answers each beat, after a while, with when the next one is due.
type metronome struct {
	ctx   context.Context
	down  chan model.WorkerDown
	beats []time.Time
	after time.Duration
	next  func(n int) (d time.Duration, answered bool) // after the n-th beat, counted from 1
}

func (m *metronome) Send(up model.WorkerUp) error {
	if up.Hello != nil {
		m.down <- model.WorkerDown{Welcome: &model.WorkerWelcome{BeatMilli: 1000, DeathMilli: 10_000}}
	}
	if up.Beat != nil {
		m.beats = append(m.beats, time.Now())
		if d, ok := m.next(len(m.beats)); ok {
			ack := &model.Beat{Number: up.Beat.Number, NextMicro: d.Microseconds()}
			time.AfterFunc(m.after, func() { m.down <- model.WorkerDown{BeatAck: ack} })
		}
	}
	return nil
}

func (m *metronome) Recv() (model.WorkerDown, error) {
	select {
	case d := <-m.down:
		return d, nil
	case <-m.ctx.Done():
		return model.WorkerDown{}, io.EOF
	}
}

func (*metronome) Close() error { return nil }

// beatTimes are the pauses before the second and every further beat of a worker within d.
func beatTimes(t *testing.T, d, after time.Duration, next func(n int) (time.Duration, bool)) (pauses []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		m := &metronome{ctx: ctx, down: make(chan model.WorkerDown, 8), after: after, next: next}
		open := func(context.Context, string, bool) (rpc.WorkerSessionClient, func() error, error) {
			return m, func() error { return nil }, nil
		}
		began := time.Now()
		newSessions(hclog.NewNullLogger(), client.NewLeaderFinder([]string{"m1:7070"}, nil), open, &busyOwner{enough: cancel},
			newContact(func() time.Duration { return time.Since(began) })).run(ctx)
		for i := 1; i < len(m.beats); i++ {
			pauses = append(pauses, m.beats[i].Sub(m.beats[i-1]))
		}
		time.Sleep(time.Second) // answers on their way
	})
	return pauses
}

func TestAWorkerBeatsWhenItsLeaderSaysAndElseAtTheInterval(t *testing.T) {
	t.Parallel()
	const slack = time.Second / model.BeatSlack
	say := []time.Duration{
		300 * time.Millisecond, 1010 * time.Millisecond, 0, // of an older master
		time.Microsecond, time.Hour, -time.Hour, // what it may not say
	}
	want := []time.Duration{
		300 * time.Millisecond, 1010 * time.Millisecond, time.Second,
		slack, time.Second + slack, time.Second, time.Second,
	}
	got := beatTimes(t, 7*time.Second, 20*time.Millisecond, func(n int) (time.Duration, bool) {
		if n > len(say) {
			return 0, true
		}
		return say[n-1], true
	})
	if !slices.Equal(got[:min(len(want), len(got))], want) {
		t.Errorf("it beats after %v, want %v", got, want)
	}
}

// The answer says when the next beat after its own is due: one that is late moves no other, and one that is missing leaves the interval.
func TestAnAnswerThatIsLateOrMissingMovesNoBeat(t *testing.T) {
	t.Parallel()
	got := beatTimes(t, 5500*time.Millisecond, 1200*time.Millisecond, func(n int) (time.Duration, bool) {
		return 500 * time.Millisecond, n != 2
	})
	want := []time.Duration{time.Second, time.Second, time.Second, time.Second}
	if !slices.Equal(got, want) {
		t.Errorf("it beats after %v, want %v", got, want)
	}
}
