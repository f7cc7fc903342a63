//go:build linux

package unixsocket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, path string) (*net.UnixConn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return Dial(ctx, path)
}

func TestASocketAtAPathOfAnyLengthIsForItsUserOnly(t *testing.T) {
	for name, dir := range map[string]string{
		"short": t.TempDir(),
		"long":  filepath.Join(t.TempDir(), strings.Repeat("deep/", 60)),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "s")
			if _, err := dial(t, path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("dial without a socket: %v, want fs.ErrNotExist", err)
			}
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(path)
			if err != nil || st.Mode().Perm() != 0o600 || st.Mode().Type() != fs.ModeSocket {
				t.Errorf("mode %v, %v; want a socket with 0600", st.Mode(), err)
			}
			said := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					err = errors.Join(CheckPeer(c), c.Close())
				}
				said <- err
			}()
			c, err := dial(t, path)
			if err != nil {
				t.Fatal(err)
			}
			cred, err := Peer(c)
			if err != nil || int(cred.Pid) != os.Getpid() || int(cred.Uid) != os.Geteuid() {
				t.Errorf("peer %+v, %v; want this process", cred, err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("read: %v", err)
			}
			if err := errors.Join(<-said, c.Close(), l.Close()); err != nil {
				t.Error(err)
			}
			// What a dead process has left is refused, and replaced by the next one.
			if _, err := dial(t, path); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial a socket that nobody listens on: %v, want ECONNREFUSED", err)
			}
			again, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
