//go:build linux

package testcluster_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hearthd/hearth/internal/testcluster"
	"github.com/hearthd/hearth/model"
)

// webServer serves an artifact: size bytes in so many pieces, with a pause before each, all of them or the first ones, after
// which it hangs.
type webServer struct {
	size, pieces, sent int
	pause              time.Duration
}

func (s webServer) data() []byte { return bytes.Repeat([]byte("x"), s.size) }

// serve starts it on a machine of its own and returns what a driver has to ask for.
func (s webServer) serve(t *testing.T, c *testcluster.Cluster, host string) []model.Artifact {
	t.Helper()
	l, err := c.Net.Host(host).Listen(":80")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(s.size))
		data := s.data()
		for i := range s.sent {
			select {
			case <-time.After(s.pause):
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write(data[i*s.size/s.pieces : (i+1)*s.size/s.pieces])
			_ = http.NewResponseController(w).Flush()
		}
		if s.sent < s.pieces {
			<-r.Context().Done()
		}
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	sum := sha256.Sum256(s.data())
	return []model.Artifact{{URL: "http://" + host + "/job", SHA256: hex.EncodeToString(sum[:]), Name: "job"}}
}

// A launch waits for an artifact that comes for five minutes, and says how far it is; one that stands still is an error of
// the driver with that reason; one that is killed meanwhile ends at once.
func TestSimADriverWaitsForItsArtifactAsLongAsMoreOfItComes(t *testing.T) {
	testcluster.RunSeed(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.StartMasters(1)
		c.StartWorkers(1)
		c.Settled(20 * time.Second)
		c.AwaitWorkers(1, 10*time.Second)
		spec := driverSpec(false, "", "sleep", "forever")
		spec.Artifacts = webServer{size: 300_000, pieces: 60, sent: 60, pause: 5 * time.Second}.serve(t, c, "slow")
		slow := submitDriver(t, c, spec)
		spec.Artifacts = webServer{size: 200_000, pieces: 10, sent: 4, pause: 5 * time.Second}.serve(t, c, "stalls")
		stalls := submitDriver(t, c, spec)
		spec.Artifacts = webServer{size: 100_000, pieces: 100, sent: 100, pause: 5 * time.Second}.serve(t, c, "unwanted")
		unwanted := submitDriver(t, c, spec)

		driverIs(c, stalls, model.DriverError, 1, 90*time.Second) // it is asked once more, and sends the same again
		if d, _ := c.View().Driver(stalls); !strings.Contains(d.Reason, "nothing has come for 10s") || !strings.Contains(d.Reason, "http://stalls/job") {
			t.Errorf("the one that stalls is an error because %q", d.Reason)
		}
		time.Sleep(2 * time.Minute)
		for _, id := range []model.DriverID{slow, unwanted} {
			e, ok := c.View().AttemptAt(id.Ref(1))
			if !ok || e.State != model.ExecutorLaunching || !strings.HasPrefix(e.Reason, "fetching artifact job: ") {
				t.Errorf("after two minutes %s: %+v", id, e)
			}
		}
		killDriver(t, c, unwanted)
		if took := driverIs(c, unwanted, model.DriverKilled, 1, 5*time.Second); took > 2*time.Second {
			t.Errorf("killed only after %s", took)
		}
		driverIs(c, slow, model.DriverRunning, 1, 4*time.Minute)
		if e, _ := c.View().AttemptAt(slow.Ref(1)); e.Reason != "" {
			t.Errorf("it runs, and says %q", e.Reason)
		}
		if n := c.Starts(); n != 1 {
			t.Errorf("%d processes were started, want one", n)
		}
		killDriver(t, c, slow)
		driverIs(c, slow, model.DriverKilled, 1, 20*time.Second)
		if d, _ := c.View().Driver(slow); len(d.Finished) != 1 {
			t.Errorf("%s", fmt.Sprint(d.Finished))
		}
	})
}
