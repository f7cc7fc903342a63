package known

import "testing"

func FuzzKnown(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }
