package masterd

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	var known []goleak.Option
	for _, f := range unfinishedTransfer {
		known = append(known, goleak.IgnoreTopFunction(f))
	}
	goleak.VerifyTestMain(m, known...)
}
