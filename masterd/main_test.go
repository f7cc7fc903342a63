package masterd

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hearthd/hearth/internal/leaktest"
)

func TestMain(m *testing.M) {
	var known []goleak.Option
	for _, f := range unfinishedTransfer {
		known = append(known, goleak.IgnoreTopFunction(f))
	}
	leaktest.Main(m, known...)
}
