package run

import (
	"testing"

	"github.com/hearthd/hearth/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
