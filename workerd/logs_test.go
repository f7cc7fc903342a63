//go:build linux

package workerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hearthd/hearth/model"
	"github.com/hearthd/hearth/rpc"
)

// logFiles makes the directory of ref(0) with these files.
func logFiles(t *testing.T, w *workDir, files map[string]string) string {
	t.Helper()
	dir, err := w.create(ref(0))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func dead(context.Context, model.ExecutorRef) bool { return false }

func TestALogIsReadFromAnyOffsetAcrossItsRotatedParts(t *testing.T) {
	w := testWorkDir(t)
	logFiles(t, w, map[string]string{"stdout": "ghi", "stdout.1": "def", "stdout.2": "abc", "stderr": ""})
	l := newLogReader(w, dead)
	for _, c := range []struct {
		stream rpc.LogStream
		offset int64
		want   string
		first  int64
	}{
		{rpc.LogStdout, 0, "abcdefghi", 0},
		{rpc.LogStdout, 4, "efghi", 4},
		{rpc.LogStdout, 6, "ghi", 6},
		{rpc.LogStdout, 9, "", 0},
		{rpc.LogStdout, 99, "", 0},
		{rpc.LogStdout, -4, "fghi", 5},
		{rpc.LogStdout, -99, "abcdefghi", 0},
		{rpc.LogStderr, 0, "", 0},
	} {
		t.Run(fmt.Sprintf("%s from %d", c.stream, c.offset), func(t *testing.T) {
			var got strings.Builder
			next := c.first
			err := l.read(t.Context(), rpc.LogRequest{Ref: ref(0), Stream: c.stream, Offset: c.offset}, func(k rpc.LogChunk) error {
				if k.Offset != next {
					t.Errorf("piece at %d, want %d", k.Offset, next)
				}
				next += int64(len(k.Data))
				got.Write(k.Data)
				return nil
			})
			if err != nil || got.String() != c.want {
				t.Errorf("got %q, %v; want %q", got.String(), err, c.want)
			}
		})
	}
}

func TestWhatIsNoLogOfOursIsNotRead(t *testing.T) {
	w := testWorkDir(t)
	dir := logFiles(t, w, map[string]string{".hearth-secret": "s"})
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "stdout")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "stderr"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLogReader(w, dead)
	for name, req := range map[string]rpc.LogRequest{
		"another file":          {Ref: ref(0), Stream: ".hearth-secret"},
		"a path in the stream":  {Ref: ref(0), Stream: "../../x"},
		"a path in the id":      {Ref: model.ExecutorRef{App: "../.."}, Stream: rpc.LogStdout},
		"a symbolic link":       {Ref: ref(0), Stream: rpc.LogStdout},
		"a named pipe":          {Ref: ref(0), Stream: rpc.LogStderr},
		"an unknown executor":   {Ref: ref(7), Stream: rpc.LogStdout},
		"an unknown, following": {Ref: ref(7), Stream: rpc.LogStdout, Follow: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := l.read(t.Context(), req, func(k rpc.LogChunk) error { return fmt.Errorf("got %q", k.Data) })
			if err == nil || strings.Contains(err.Error(), "got ") {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}

// A writer that rotates as the keeper does, and a reader that is sometimes behind.
func TestFollowingALogMissesNothingWhenItIsRotated(t *testing.T) {
	w := testWorkDir(t)
	dir := logFiles(t, w, map[string]string{"stdout": "start\n"})
	path := filepath.Join(dir, "stdout")
	var alive atomic.Bool
	alive.Store(true)
	l := newLogReader(w, func(context.Context, model.ExecutorRef) bool { return alive.Load() })
	seen := make(chan string, 1024)
	done := make(chan error, 1)
	go func() {
		var got strings.Builder
		done <- l.read(t.Context(), rpc.LogRequest{Ref: ref(0), Stream: rpc.LogStdout, Follow: true}, func(k rpc.LogChunk) error {
			if k.Offset != int64(got.Len()) {
				return fmt.Errorf("piece at %d after %d bytes", k.Offset, got.Len())
			}
			got.Write(k.Data)
			seen <- got.String()
			return nil
		})
	}()
	want := "start\n"
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		want += text
	}
	rotate := func() {
		_ = os.Rename(path+".1", path+".2")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp := func() {
		eventually(t, "the reader has seen all of "+want, func() bool {
			select {
			case got := <-seen:
				return got == want
			default:
				return false
			}
		})
	}
	caughtUp()
	write("one\n")
	rotate()
	write("two\n")
	caughtUp()
	write("three\n")
	rotate()
	write("four\n")
	rotate()
	write("five\n")
	alive.Store(false)
	caughtUp()
	if err := <-done; err != nil {
		t.Errorf("the end of the log: %v", err)
	}
}

func TestFollowingALogEndsWithItsReader(t *testing.T) {
	w := testWorkDir(t)
	logFiles(t, w, map[string]string{"stdout": "x"})
	l := newLogReader(w, func(context.Context, model.ExecutorRef) bool { return true })
	ctx, cancel := context.WithCancel(t.Context())
	err := l.read(ctx, rpc.LogRequest{Ref: ref(0), Stream: rpc.LogStdout, Follow: true}, func(rpc.LogChunk) error {
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	gone := errors.New("reader gone")
	err = l.read(t.Context(), rpc.LogRequest{Ref: ref(0), Stream: rpc.LogStdout, Follow: true}, func(rpc.LogChunk) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("got %v, want the reader's own error", err)
	}
}

func TestTooManyReadersAreTurnedAway(t *testing.T) {
	w := testWorkDir(t)
	logFiles(t, w, map[string]string{"stdout": "x"})
	l := newLogReader(w, dead)
	for range MaxLogReaders {
		l.slots <- struct{}{}
	}
	err := l.read(t.Context(), rpc.LogRequest{Ref: ref(0), Stream: rpc.LogStdout}, func(rpc.LogChunk) error { return nil })
	if !errors.Is(err, model.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
