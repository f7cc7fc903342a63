package bench

import (
	"context"
	"fmt"
)

// Measure runs one side once and returns its figure.
type Measure func(ctx context.Context) (float64, error)

// Pairs are the figures of two sides; those with one index were measured one
// right after the other.
type Pairs struct {
	A, B []float64
}

// Alternate measures a and b n times each, in the order A B B A A B …, so that
// what changes slowly on the machine changes both. It stops at the first error.
func Alternate(ctx context.Context, n int, a, b Measure) (Pairs, error) {
	var p Pairs
	for i := range n {
		for turn := range 2 {
			if err := ctx.Err(); err != nil {
				return p, err
			}
			ofA := (i%2 == 0) == (turn == 0)
			side, into, name := b, &p.B, "B"
			if ofA {
				side, into, name = a, &p.A, "A"
			}
			v, err := side(ctx)
			if err != nil {
				return p, fmt.Errorf("pair %d of %d, side %s: %w", i+1, n, name, err)
			}
			*into = append(*into, v)
		}
	}
	return p, nil
}

// Ratio is the interval of A/B over the pairs.
func (p Pairs) Ratio() Interval { return MedianInterval(p.ratios()) }

// ratios are A/B of each pair.
func (p Pairs) ratios() []float64 {
	ratios := make([]float64, 0, len(p.A))
	for i := range min(len(p.A), len(p.B)) {
		ratios = append(ratios, p.A[i]/p.B[i])
	}
	return ratios
}
