package source

import (
	"testing"
	"testing/synctest"
	"time"
)

func simulate(t *testing.T) { synctest.Test(t, func(*testing.T) { sleep() }) }
func sleep()                { time.Sleep(1) }

var _ = simulate
