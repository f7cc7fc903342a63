package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// resamples of a bootstrap; more changes the third digit only.
	resamples = 4000
	// bootstrapSeed makes the interval of given figures always the same.
	bootstrapSeed = 20261130
)

// Interval is a median with the bounds within which it lies with 95 %
// confidence. The unit is that of the figures it was made from.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Percentile returns the value at the rank p (0 to 1) of values, by linear
// interpolation between neighbours; NaN for no values. It does not change them.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return percentileSorted(slices.Sorted(slices.Values(values)), p)
}

func percentileSorted(s []float64, p float64) float64 {
	at := min(max(p, 0), 1) * float64(len(s)-1)
	low := int(at)
	if low+1 >= len(s) {
		return s[len(s)-1]
	}
	part := at - float64(low)
	return s[low]*(1-part) + s[low+1]*part
}

// Median is the percentile 0.5.
func Median(values []float64) float64 { return Percentile(values, 0.5) }

// MedianInterval is the median of values with its interval by the percentile
// bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter
// 13). With fewer than two values the interval is the value.
func MedianInterval(values []float64) Interval {
	m := Median(values)
	if len(values) < 2 {
		return Interval{m, m, m}
	}
	rnd := rand.New(rand.NewPCG(bootstrapSeed, uint64(len(values))))
	medians := make([]float64, resamples)
	draw := make([]float64, len(values))
	for i := range medians {
		for j := range draw {
			draw[j] = values[rnd.IntN(len(values))]
		}
		slices.Sort(draw)
		medians[i] = percentileSorted(draw, 0.5)
	}
	slices.Sort(medians)
	return Interval{m, percentileSorted(medians, 0.025), percentileSorted(medians, 0.975)}
}
