package executor

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestUX10AnExecutorThatCannotResolveItsDriverSaysSoWithinFiveSeconds: the driver has advertised a name that does not resolve
// where the executor runs. The executor says which, and why, once, and goes on trying until its time is up.
func TestUX10AnExecutorThatCannotResolveItsDriverSaysSoWithinFiveSeconds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer // hclog locks it
		cfg := Config{
			App: "app-20261130061500-0001", DriverAddr: "driver.invalid:4000", Secret: "secret", Cores: 1, WorkDir: dir,
			Logger: hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Info}),
			Dial: func(context.Context, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "driver.invalid", IsNotFound: true}
			},
		}
		ended := make(chan error, 1)
		go func() { ended <- Run(context.Background(), cfg) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		said := log.String()
		if !strings.Contains(said, "driver=driver.invalid:4000") || !strings.Contains(said, "no such host") {
			t.Errorf("after five seconds it has said %q", said)
		}
		err := <-ended
		if err == nil || !strings.Contains(err.Error(), "driver.invalid") {
			t.Errorf("it ended with %v, want the loss of its driver", err)
		}
		if n := strings.Count(log.String(), "was not reached"); n != 1 {
			t.Errorf("it has said so %d times:\n%s", n, log.String())
		}
	})
}
