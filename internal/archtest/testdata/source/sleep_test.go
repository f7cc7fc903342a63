package source

import (
	_ "testing/synctest"
	"time"
)

func sleep() { time.Sleep(1) }
