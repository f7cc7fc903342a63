package decide

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIndexAndScanDecideAlike(t *testing.T) {
	t.Parallel()
	for _, m := range modes() {
		for _, n := range []int{100, 1000} {
			if err := compare(n, m, 500); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTheBenchmarkMeasuresEverySizeAndMode(t *testing.T) {
	t.Parallel()
	sc := scale{sizes: []int{100, 200, 300}, claimed: 200, compared: 50}
	r, err := run(t.Context(), Config{Pairs: 1, Turns: 400}, sc)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(sc.sizes) * (2*len(modes()) + 1); len(r.Figures) != want {
		t.Errorf("%d figures, want %d", len(r.Figures), want)
	}
	for _, f := range r.Figures {
		if f.Median <= 0 {
			t.Errorf("%s: %v %s", f.Name, f.Median, f.Unit)
		}
	}
	if want := len(modes()) + 2; len(r.Claims) != want {
		t.Errorf("%d claims, want %d", len(r.Claims), want)
	}
}
