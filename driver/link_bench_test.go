package driver

import (
	"context"
	"syscall"
	"testing"
)

// BenchmarkLink measures side by side what the cipher of the link to executors
// costs: one task at a time, and as many as go. cpu-ns/op is the processor time of
// both ends, which the load of the machine does not change.
func BenchmarkLink(b *testing.B) {
	for _, link := range []struct {
		name  string
		plain bool
	}{{"plain", true}, {"tls", false}} {
		for _, window := range []struct {
			name  string
			tasks int
		}{{"one", 1}, {"many", 4096}} {
			b.Run(window.name+"/"+link.name, func(b *testing.B) {
				d := benchRig(b, func(c *Config) { c.plain = link.plain })
				arg := make([]byte, 256)
				room := make(chan struct{}, window.tasks)
				before := cpuNanos(b)
				b.ResetTimer()
				go func() {
					for range b.N {
						room <- struct{}{}
						if _, err := d.Submit(context.Background(), Task{Function: "noop", Argument: arg}); err != nil {
							return
						}
					}
				}()
				for range b.N {
					<-d.Results()
					<-room
				}
				b.StopTimer()
				b.ReportMetric(float64(cpuNanos(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func cpuNanos(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
