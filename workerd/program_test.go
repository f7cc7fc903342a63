//go:build linux

package workerd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearthd/hearth/model"
)

// programOf describes a program and is its driver.
func programOf(text string) (*model.LaunchOrder, []byte) {
	data := []byte(text)
	sum := sha256.Sum256(data)
	return &model.LaunchOrder{
		Ref:  ref(1),
		Spec: model.AppSpec{Kind: model.AppKindDriver, DriverAddr: "d:1", Program: model.Program{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}},
	}, data
}

// hands is a driver that hands out data in pieces of 1,000 bytes.
func hands(data []byte) programSource {
	return func(_ context.Context, _ *model.LaunchOrder, offset int64, take func([]byte) error) error {
		for at := int(offset); at < len(data); at += 1000 {
			if err := take(data[at:min(at+1000, len(data))]); err != nil {
				return err
			}
		}
		return nil
	}
}

func testCache(t *testing.T, budget int64, read programSource) *programCache {
	t.Helper()
	c, err := openProgramCache(filepath.Join(t.TempDir(), programsDir), budget, testLogger(t), read)
	if err != nil {
		t.Fatal(err)
	}
	c.inUse = func(fs.FileInfo) (bool, error) { return false, nil }
	t.Cleanup(c.close)
	return c
}

// files lists the names in a cache.
func (c *programCache) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func get(t *testing.T, c *programCache, o *model.LaunchOrder) (string, error) {
	t.Helper()
	path, release, err := c.get(t.Context(), o, func() {})
	if err == nil {
		release()
	}
	return path, err
}

func TestExecutorsThatStartAtOnceFetchTheirProgramOnce(t *testing.T) {
	o, data := programOf(strings.Repeat("program", 10_000))
	var reads atomic.Int32
	all := make(chan struct{})
	c := testCache(t, 1<<20, func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error {
		reads.Add(1)
		<-all
		return hands(data)(ctx, o, offset, take)
	})
	var waiting, done sync.WaitGroup
	for range 20 {
		waiting.Add(1)
		done.Go(func() {
			path, release, err := c.get(t.Context(), o, waiting.Done)
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode() != 0o700 {
				t.Errorf("%v, %v", st.Mode(), err)
			}
		})
	}
	waiting.Wait()
	close(all)
	done.Wait()
	if n := reads.Load(); n != 1 {
		t.Errorf("it was fetched %d times", n)
	}
	// A later start of the worker has it still.
	again, err := openProgramCache(c.dir, 1<<20, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if _, err := get(t, again, o); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestATransferThatBreaksGoesOnWhereItWas(t *testing.T) {
	o, data := programOf(strings.Repeat("0123456789", 1000))
	var offsets []int64
	c := testCache(t, 1<<20, func(_ context.Context, _ *model.LaunchOrder, offset int64, take func([]byte) error) error {
		offsets = append(offsets, offset)
		if err := take(data[offset:min(offset+4000, int64(len(data)))]); err != nil {
			return err
		}
		if offset+4000 < int64(len(data)) {
			return fmt.Errorf("%w: cut", model.ErrUnavailable)
		}
		return nil
	})
	path, err := get(t, c, o)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, data) || fmt.Sprint(offsets) != "[0 4000 8000]" {
		t.Errorf("%d bytes from %v", len(got), offsets)
	}
}

func TestADriverThatIsGoneIsGivenUpAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, data := programOf(strings.Repeat("0123456789", 1000))
		c := testCache(t, 1<<20, func(_ context.Context, _ *model.LaunchOrder, offset int64, take func([]byte) error) error {
			if offset == 0 {
				return errors.Join(take(data[:100]), fmt.Errorf("%w: cut", model.ErrUnavailable))
			}
			return fmt.Errorf("%w: connection refused", model.ErrUnavailable)
		})
		began := time.Now()
		_, err := get(t, c, o)
		if took := time.Since(began); took < programPatience || took > programPatience+2*backoffMax {
			t.Errorf("given up after %s, want %s", took, programPatience)
		}
		if err == nil || !strings.Contains(err.Error(), "fetch it from the driver at d:1: unavailable: connection refused") {
			t.Errorf("the reason is %v", err)
		}
		if left := c.files(t); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

func TestAProgramThatIsNotWhatWasAnnouncedLeavesNothingBehind(t *testing.T) {
	o, data := programOf(strings.Repeat("x", 5000))
	wrong := bytes.Repeat([]byte("y"), 5000)
	for name, c := range map[string]struct {
		read programSource
		want string
	}{
		"another program": {hands(wrong), "has the digest"},
		"a longer one":    {hands(append(bytes.Clone(data), 'z')), "more than the 5000 bytes"},
		"a refusal": {func(context.Context, *model.LaunchOrder, int64, func([]byte) error) error {
			return model.ErrUnauthenticated
		}, "unauthenticated"},
		"a driver's error": {func(context.Context, *model.LaunchOrder, int64, func([]byte) error) error { return model.ErrNotFound }, "fetch it from the driver at d:1: not found"},
	} {
		t.Run(name, func(t *testing.T) {
			cache := testCache(t, 1<<20, c.read)
			_, err := get(t, cache, o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "program sha256:"+o.Spec.Program.SHA256[:12]) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if left := cache.files(t); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			cache.read = hands(data)
			if _, err := get(t, cache, o); err != nil {
				t.Errorf("the next attempt: %v", err)
			}
		})
	}
}

func TestAFullDiskIsTheCauseWhenItIs(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{{syscall.ENOSPC, "no space left for it on the worker's disk"}, {syscall.EIO, "write it to the worker's disk"}} {
		if err := onDisk(&fs.PathError{Op: "write", Path: "p", Err: c.err}); !strings.Contains(err.Error(), c.want) || !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	// A device that is always full.
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	o, data := programOf("data")
	w := &programWriter{to: full, hash: sha256.New(), flight: &programFlight{bytes: o.Spec.Program.Bytes}}
	if err := w.take(data); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("writing to a full device: %v", err)
	}
}

func TestTheOldestProgramThatNothingRunsMakesRoom(t *testing.T) {
	orders := map[string]*model.LaunchOrder{}
	byDigest := map[string][]byte{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		o, data := programOf(strings.Repeat(name, 1000))
		orders[name], byDigest[o.Spec.Program.SHA256] = o, data
	}
	c := testCache(t, 3500, func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error {
		return hands(byDigest[o.Spec.Program.SHA256])(ctx, o, offset, take)
	})
	at := time.Now().Add(-time.Hour)
	use := func(name string) {
		t.Helper()
		path, err := get(t, c, orders[name])
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Minute)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	has := func(names string) {
		t.Helper()
		for name, o := range orders {
			_, err := os.Stat(filepath.Join(c.dir, o.Spec.Program.SHA256))
			if (err == nil) != strings.Contains(names, name) {
				t.Errorf("program %s: %v, want to have %s", name, err, names)
			}
		}
	}
	use("a")
	use("b")
	use("c")
	use("a") // b is the oldest now
	use("d")
	has("acd")
	// c is the oldest but runs; a is held by a launch.
	c.inUse = func(f fs.FileInfo) (bool, error) { return f.Name() == orders["c"].Spec.Program.SHA256, nil }
	held, release, err := c.get(t.Context(), orders["a"], func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(held, time.Time{}, time.Unix(1, 0)); err != nil { // it was used longest ago
		t.Fatal(err)
	}
	use("e")
	has("ace")
	c.inUse = func(fs.FileInfo) (bool, error) { return true, nil }
	if _, err := get(t, c, orders["b"]); !errors.Is(err, model.ErrTooLarge) || !strings.Contains(err.Error(), "programs that run here") {
		t.Errorf("with everything in use: %v", err)
	}
	release()
	has("ace")
	if big, _ := programOf(strings.Repeat("x", 4000)); true {
		if _, err := get(t, c, big); !errors.Is(err, model.ErrTooLarge) {
			t.Errorf("a program larger than the budget: %v", err)
		}
	}
}

func TestAProgramThatRunsIsSeenToRun(t *testing.T) {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := runsProcess(own); !runs || err != nil {
		t.Errorf("this test: %v, %v", runs, err)
	}
	other := filepath.Join(t.TempDir(), "idle")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(other)
	if err != nil {
		t.Fatal(err)
	}
	if runs, err := runsProcess(st); runs || err != nil {
		t.Errorf("an idle file: %v, %v", runs, err)
	}
}

func TestAPathWithTheRightDigestIsTakenInsteadOfTheDriver(t *testing.T) {
	o, data := programOf(strings.Repeat("here", 1000))
	path := filepath.Join(t.TempDir(), "program")
	asked := 0
	read := func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error {
		asked++
		return hands(data)(ctx, o, offset, take)
	}
	o.Spec.Program.Path = path
	for _, there := range []struct {
		what  string
		data  []byte
		asked int
	}{{"nothing", nil, 1}, {"another one", bytes.Repeat([]byte("hers"), 1000), 1}, {"a shorter one", []byte("x"), 1}, {"the program", data, 0}} {
		if there.data != nil {
			if err := os.WriteFile(path, there.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		asked = 0
		c := testCache(t, 1<<20, read)
		got, err := get(t, c, o)
		if err != nil || asked != there.asked {
			t.Errorf("%s at the path: driver asked %d times, %v", there.what, asked, err)
			continue
		}
		if whole, _ := os.ReadFile(got); !bytes.Equal(whole, data) {
			t.Errorf("%s at the path: %d bytes came", there.what, len(whole))
		}
	}
}

func TestHalfAProgramOfAnEarlierStartIsRemoved(t *testing.T) {
	dir := t.TempDir()
	part := filepath.Join(dir, strings.Repeat("a", 64)+".123"+partSuffix)
	if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := openProgramCache(dir, 1<<20, testLogger(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if left := c.files(t); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestTheWaitForAProgramEndsWithItsExecutorAndTheTransferGoesOn(t *testing.T) {
	o, data := programOf("slow")
	slow := make(chan struct{})
	c := testCache(t, 1<<20, func(ctx context.Context, o *model.LaunchOrder, offset int64, take func([]byte) error) error {
		<-slow
		return hands(data)(ctx, o, offset, take)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, _, err := c.get(ctx, o, func() { cancel(errKilledMeanwhile) })
	if !errors.Is(err, errKilledMeanwhile) || !strings.Contains(err.Error(), "0 of 4 bytes") {
		t.Errorf("the wait ended with %v", err)
	}
	close(slow)
	if _, err := get(t, c, o); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
