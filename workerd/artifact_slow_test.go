//go:build linux

package workerd

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/internal/simnet"
	"github.com/hearthd/hearth/model"
)

// slowCache is a cache in virtual time, and the URL of a real web server that it reaches. The server sends pieces of an
// artifact with pauses and hangs after the last one.
func slowCache(t *testing.T, pieces [][]byte, size int, pause time.Duration) (c *programCache, url string) {
	t.Helper()
	network := simnet.New(rand.New(rand.NewSource(1)))
	l, err := network.Host("files").Listen(":80")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for _, p := range pieces {
			select {
			case <-time.After(pause):
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write(p)
			_ = http.NewResponseController(w).Flush()
		}
		if len(bytes.Join(pieces, nil)) < size {
			<-r.Context().Done()
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	c = testCache(t, 64<<20, nil)
	c.reachBy(network.Host("worker").Dial)
	return c, "http://files/job"
}

// slowly fetches an artifact and says how long that took.
func slowly(t *testing.T, c *programCache, url string, data []byte) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*artifactWait)
	defer cancel()
	_, release, err := c.artifact(ctx, artifactAt(url, data), func() {})
	if err == nil {
		release()
	} else if left := c.files(t); len(left) != 0 {
		t.Errorf("after %v it left %q", err, left)
	}
	return time.Since(began), err
}

func TestAnArtifactThatComesForTenMinutesIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := make([][]byte, 100)
		for i := range pieces {
			pieces[i] = bytes.Repeat([]byte{byte(i)}, 1000)
		}
		c, url := slowCache(t, pieces, 100_000, programPatience*6/10)
		if took, err := slowly(t, c, url, bytes.Join(pieces, nil)); err != nil || took < 10*time.Minute || took > 10*time.Minute+time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestAnArtifactOfWhichNothingComesIsGivenUpWithThatReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, pieces := range map[string][][]byte{"nothing": nil, "one piece": {[]byte("one piece")}} {
			c, url := slowCache(t, pieces, 100_000, 0)
			took, err := slowly(t, c, url, make([]byte, 100_000))
			if took < programPatience || took > 3*programPatience {
				t.Errorf("%s: given up after %s", name, took)
			}
			if !errors.Is(err, errStalled) || outage(err) || !strings.HasSuffix(err.Error(), "fetch it from http://files/job: unavailable: nothing has come for 10s") {
				t.Errorf("%s: the reason is %v", name, err)
			}
		}
	})
}

func TestAnArtifactThatComesTooSlowlyIsGivenUpAfterAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pieces := make([][]byte, 1000)
		for i := range pieces {
			pieces[i] = []byte("x")
		}
		c, url := slowCache(t, pieces, 1000, programPatience*9/10)
		took, err := slowly(t, c, url, bytes.Join(pieces, nil))
		if took < artifactWait || took > artifactWait+time.Second {
			t.Errorf("given up after %s, want %s", took, artifactWait)
		}
		if !errors.Is(err, model.ErrUnavailable) || outage(err) || !strings.HasSuffix(err.Error(), "not everything has come within 1h0m0s") {
			t.Errorf("the reason is %v", err)
		}
	})
}
