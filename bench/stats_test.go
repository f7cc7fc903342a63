package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestPercentilesInterpolateBetweenNeighbours(t *testing.T) {
	values := []float64{40, 10, 30, 20}
	for _, c := range []struct{ p, want float64 }{{0, 10}, {0.5, 25}, {1, 40}, {0.99, 39.7}} {
		if got := Percentile(values, c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("percentile %v: got %v, want %v", c.p, got, c.want)
		}
	}
	if values[0] != 40 {
		t.Error("the values were sorted in place")
	}
}

func TestTheIntervalHoldsTheMedianAndIsTheSameEachTime(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 100}
	v := MedianInterval(values)
	if v.Median != 5 || v.Low < 2 || v.Low > 4 || v.High < 6 || v.High > 8 {
		t.Errorf("interval of nine values: %+v", v)
	}
	if MedianInterval(values) != v {
		t.Error("the same figures gave another interval")
	}
}

func TestPairsAlternateABBA(t *testing.T) {
	var order strings.Builder
	side := func(name string) Measure {
		return func(context.Context) (float64, error) {
			order.WriteString(name)
			return float64(order.Len()), nil
		}
	}
	p, err := Alternate(t.Context(), 3, side("A"), side("B"))
	if err != nil || order.String() != "ABBAAB" || len(p.A) != 3 || len(p.B) != 3 {
		t.Errorf("order %q, pairs %+v, error %v", order.String(), p, err)
	}
}

func TestAFailedRunEndsThePairs(t *testing.T) {
	broken := errors.New("broken")
	_, err := Alternate(t.Context(), 2,
		func(context.Context) (float64, error) { return 1, nil },
		func(context.Context) (float64, error) { return 0, broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "side B") {
		t.Errorf("got %v", err)
	}
}

func TestAClaimIsJudgedByTheWorseEndOfItsInterval(t *testing.T) {
	r := NewReport("x")
	r.AtLeast("rate", "/s", Interval{10, 9, 11}, 9.5)
	r.AtLeast("rate", "/s", Interval{10, 9, 11}, 9)
	r.AtMost("latency", "ms", Interval{10, 9, 11}, 10)
	r.AtMost("latency", "ms", Interval{10, 9, 11}, 11)
	r.PeerMissing("ratio", 7, "etcd")
	for i, want := range []bool{false, true, false, true, false} {
		if r.Claims[i].Met != want {
			t.Errorf("claim %d: met %v, want %v", i, r.Claims[i].Met, want)
		}
	}
	if r.Met() {
		t.Error("a report with a missing peer is met")
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "peer missing: etcd") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
