package masterd

import (
	"time"

	"github.com/hearthd/hearth/model"
)

// Of the moments at which workers beat.
const (
	beatsAtOnce = 16                    // workers for whom a moment of their own is worth it
	beatApart   = 10 * time.Millisecond // least time between two moments
)

// nextBeat is how long after a beat that has just come, now after the begin of
// the term, its worker's next one is due. What a beat costs an idle leader is
// that it wakes up for it, so workers beat together; but thousands of them must
// not come in one moment. Every answer corrects what clocks and networks do. To
// get to its moment a worker beats early rather than late (model.BeatSlack).
func nextBeat(now, beat time.Duration, number, workers int) time.Duration {
	moments := max(1, min(workers/beatsAtOnce, int(beat/beatApart)))
	moment := beat * time.Duration(number%moments) / time.Duration(moments)
	left := (moment - now%beat + beat) % beat
	if left > beat/model.BeatSlack {
		return left
	}
	return beat + left
}
