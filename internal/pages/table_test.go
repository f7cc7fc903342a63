package pages

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type number uint64

func TestATableHoldsWhatAMapWouldHold(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		tb := New[number, int](uint(rnd.IntN(8)), rnd.IntN(3))
		want := map[number]*int{}
		last := number(0)
		for step := range 3000 {
			switch rnd.IntN(3) {
			case 0, 1:
				if last += number(rnd.IntN(3) + 1); rnd.IntN(50) == 0 {
					last += 1 << 40 // far away
				}
				v := step
				tb.Put(last, &v)
				want[last] = &v
			default:
				for id := range want { // any
					tb.Remove(id)
					delete(want, id)
					break
				}
			}
			probe := number(rnd.IntN(int(last%5000) + 1))
			if tb.Get(probe) != want[probe] || tb.Get(last) != want[last] || tb.Len() != len(want) {
				t.Fatalf("seed %d, step %d: the table differs from a map: %d records, want %d", seed, step, tb.Len(), len(want))
			}
			if len(tb.spare) > tb.spares {
				t.Fatalf("seed %d, step %d: %d spare pages, at most %d are kept", seed, step, len(tb.spare), tb.spares)
			}
		}
		order := slices.Sorted(maps.Keys(want))
		n := 0
		for id, rec := range tb.All() {
			if id != order[n] || rec != want[id] {
				t.Fatalf("seed %d: record %d of the list is %d, want %d", seed, n, id, order[n])
			}
			n++
			tb.Remove(id) // changing it meanwhile changes nothing
		}
		if n != len(order) || tb.Len() != 0 || len(tb.pages) != 0 {
			t.Errorf("seed %d: %d of %d were listed, %d and %d pages are left", seed, n, len(order), tb.Len(), len(tb.pages))
		}
	}
}
