package masterd

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

// beating is a worker as nextBeat sees it: a beat is sent at at, and comes way later.
type beating struct{ at, way time.Duration }

// arrivals lets workers beat for some intervals and returns when the beats of the last one came. Nobody is asked for a beat earlier or later
// than a leader may ask for it.
func arrivals(t *testing.T, workers []beating, beat time.Duration, intervals int) (at []time.Duration) {
	t.Helper()
	end := time.Duration(intervals)*beat - beatApart/2 // between two moments
	for number := range workers {
		for w := workers[number]; w.at < end; {
			if came := w.at + w.way; came >= end-beat && came < end {
				at = append(at, w.at+w.way)
			}
			next := nextBeat(w.at+w.way, beat, number, len(workers))
			if slack := beat / model.BeatSlack; next < slack || next > beat+slack {
				t.Fatalf("worker %d: the next beat is due after %s, want %s to %s", number, next, slack, beat+slack)
			}
			w.at += next
		}
	}
	return at
}

// gathered counts the groups of moments that are the same by d, and how many are in the largest.
func gathered(at []time.Duration, d time.Duration) (most, groups int) {
	in := make(map[time.Duration]int)
	for _, a := range at {
		in[a.Round(d)]++
	}
	for _, n := range in {
		most = max(most, n)
	}
	return most, len(in)
}

func TestWorkersBeatAtFewMomentsAndThousandsOfThemAtMore(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for _, c := range []struct {
		name                   string
		workers, groups, atOne int
	}{
		{"one", 1, 1, 1},
		{"a few", 20, 1, 20},
		{"a hundred", 100, 6, 17},
		{"five thousand", 5000, 100, 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, uint64(c.workers))) //nolint:gosec // reproducible, no secret
			workers := make([]beating, c.workers)
			for i := range workers {
				workers[i] = beating{time.Duration(rnd.Int64N(int64(beat))), time.Duration(rnd.Int64N(int64(20 * time.Millisecond)))}
			}
			at := arrivals(t, workers, beat, 4)
			most, groups := gathered(at, time.Millisecond)
			if len(at) != c.workers || groups != c.groups || most != c.atOne {
				t.Errorf("%d beats at %d moments, %d at one of them; want %d, %d, %d", len(at), groups, most, c.workers, c.groups, c.atOne)
			}
		})
	}
}

// A clock that is slow or fast by a thousandth moves a beat by a millisecond each time: the answers correct that, without beats of a short interval
// between.
func TestABeatThatComesALittleEarlyOrLateIsNotFollowedByAHastyOne(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for off := -beat/model.BeatSlack + time.Millisecond; off < beat/2; off += time.Millisecond {
		next := nextBeat(7*beat+off, beat, 0, 1)
		if want := beat - off; next != want {
			t.Fatalf("a beat %s after its moment: the next one after %s, want %s", off, next, want)
		}
	}
}

func TestTheAnswerToABeatSaysWhenTheNextOneIsDue(t *testing.T) {
	t.Parallel()
	m, _ := startTimed(t, time.Minute, 10*time.Second)
	w := newScriptedWorker(t, "worker-a")
	w.mute = true
	w.hello(m)
	w.next("welcome", isWelcome)
	l := m.leading.Load()
	for n := range uint64(3) {
		w.send(model.WorkerUp{Beat: &model.Beat{Number: n + 1}})
		ack := w.next("answer", func(d model.WorkerDown) bool { return d.BeatAck != nil && d.BeatAck.Number == n+1 }).BeatAck
		next := time.Duration(ack.NextMicro) * time.Microsecond
		// Its moments are multiples of the interval since the term began.
		off := (time.Since(l.began) + next) % m.cfg.WorkerBeat
		if next <= 0 || off > m.cfg.WorkerBeat/4 {
			t.Errorf("the next beat is due in %s, %s off its moment", next, off)
		}
	}
	eventually(t, "its beat to be noted", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.workers[w.id].beat != 3 {
			return errors.New("it is not")
		}
		return nil
	})
}
