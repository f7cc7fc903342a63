//go:build linux

package workerd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearthd/hearth/model"
)

func artifactAt(url string, data []byte) model.Artifact {
	sum := sha256.Sum256(data)
	return model.Artifact{URL: url, SHA256: hex.EncodeToString(sum[:]), Name: "bin/driver", Executable: true}
}

// serves starts a web server.
func serves(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func fetchArtifact(t *testing.T, c *programCache, a model.Artifact) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	path, release, err := c.artifact(ctx, a, func() {})
	if err != nil {
		return nil, err
	}
	defer release()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data, nil
}

func TestArtifactIsFetchedOnceForAllDriversThatNeedIt(t *testing.T) {
	data := bytes.Repeat([]byte("artifact"), 50_000)
	var asked atomic.Int32
	url := serves(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(data)
	})
	c := testCache(t, 64<<20, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := fetchArtifact(t, c, artifactAt(url, data)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if got, err := fetchArtifact(t, c, artifactAt(url+"/elsewhere", data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("from the cache: %d bytes, %v", len(got), err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once for the digest", n)
	}
}

func TestArtifactOfAnotherDigestIsRefusedAndNotKept(t *testing.T) {
	url := serves(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another")) })
	c := testCache(t, 64<<20, nil)
	_, err := fetchArtifact(t, c, artifactAt(url, []byte("wanted")))
	if !errors.Is(err, model.ErrInvalid) || !strings.Contains(err.Error(), "digest") || len(c.files(t)) != 0 {
		t.Errorf("%v; kept %v", err, c.files(t))
	}
}

func TestArtifactThatIsNotThereIsToldAtOnce(t *testing.T) {
	url := serves(t, http.NotFound)
	_, err := fetchArtifact(t, testCache(t, 64<<20, nil), artifactAt(url, nil))
	if !errors.Is(err, model.ErrNotFound) || !strings.Contains(err.Error(), url) {
		t.Errorf("got %v", err)
	}
}

func TestTransferOfAnArtifactGoesOnWhereItBroke(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	var ranges []string
	url := serves(t, func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		switch len(ranges) {
		case 1: // breaks in the middle
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(data[:400_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}
	})
	got, err := fetchArtifact(t, testCache(t, 64<<20, nil), artifactAt(url, data))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if len(ranges) != 3 || ranges[0] != "" || !strings.HasPrefix(ranges[2], "bytes=") {
		t.Errorf("asked for %q", ranges)
	}
}

func TestServerThatCannotGoOnSendsTheArtifactAgain(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	asked := 0
	url := serves(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			_, _ = w.Write(data[:200_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(data) // whatever was asked for
	})
	if got, err := fetchArtifact(t, testCache(t, 64<<20, nil), artifactAt(url, data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestArtifactThatTheCacheCannotHoldIsRefused(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 300_000)
	for name, h := range map[string]http.HandlerFunc{
		"announced": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "300000")
			_, _ = w.Write(data)
		},
		"not announced": func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(data)
		},
	} {
		c := testCache(t, 100_000, nil)
		if _, err := fetchArtifact(t, c, artifactAt(serves(t, h), data)); !errors.Is(err, model.ErrTooLarge) || len(c.files(t)) != 0 {
			t.Errorf("%s: %v; kept %v", name, err, c.files(t))
		}
	}
}

func TestArtifactOfThisMachineIsCopied(t *testing.T) {
	data := []byte("#!/bin/sh\n")
	path := filepath.Join(t.TempDir(), "driver")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := testCache(t, 64<<20, nil)
	if got, err := fetchArtifact(t, c, artifactAt("file://"+path, data)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := fetchArtifact(t, c, artifactAt("file://"+t.TempDir(), []byte("dir"))); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("a directory: %v", err)
	}
}

func TestEachDriverGetsItsOwnCopyOfAnArtifact(t *testing.T) {
	from := filepath.Join(t.TempDir(), "cached")
	if err := os.WriteFile(from, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := []model.Artifact{{Name: "bin/driver", Executable: true}, {Name: "data"}}
	if err := placeArtifacts(filepath.Join(dir, "stdout"), list, []string{from, from}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"bin/driver": 0o700, "data": 0o600} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(from); err != nil || string(got) != "program" {
		t.Errorf("the cache has %q, %v", got, err)
	}
	for _, name := range []string{"../out", "/etc/out", "stdout", "data"} {
		if err := placeArtifacts(filepath.Join(dir, "stdout"), []model.Artifact{{Name: name}}, []string{from}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestADriverIsToldWhoItIsAndDoesNotTakeItselfForAnExecutor(t *testing.T) {
	w := testWorkDir(t)
	l := &launcher{worker: "worker-20261130061500-00000000", dir: w, environ: []string{"HEARTH_DRIVER_ID=forged"}}
	id := model.DriverID("driver-20261130061500-0007")
	spec := model.DriverSpec{Name: "d", Cores: 1, MemoryMiB: 64, Command: model.Command{Argv: []string{"./driver"}}}
	req, err := l.prepare(&model.LaunchOrder{Ref: id.Ref(2), Spec: spec.Launch(), Cores: 1, MemoryMiB: 64, MasterAddr: []string{"m1:1", "m2:2", "m3:3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HEARTH_DRIVER_ID=" + string(id), "HEARTH_DRIVER_ATTEMPT=2", "HEARTH_MASTERS=m1:1,m2:2,m3:3"} {
		if !slices.Contains(req.Env, want) {
			t.Errorf("its environment lacks %s: %v", want, req.Env)
		}
	}
	for _, kv := range req.Env {
		if strings.HasPrefix(kv, "HEARTH_APP_ID=") || strings.HasPrefix(kv, "HEARTH_EXECUTOR_ID=") {
			t.Errorf("its environment has %s", kv)
		}
	}
	if want := filepath.Join(w.path, string(id), "2"); req.Dir != want || req.Key != string(id)+"/2" {
		t.Errorf("it runs in %s as %s, want %s", req.Dir, req.Key, want)
	}
}
