//go:build linux

package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxPath is what fits into a socket address (108 bytes with a NUL); longer paths go through a
// descriptor of the directory, because state directories may lie deep.
const maxPath = 100

// ErrStranger is in the error of CheckPeer for a connection of another user.
var ErrStranger = errors.New("connection of another user refused")

// withAddress calls f with an address of the socket at path that fits into the system call.
func withAddress(path string, f func(address string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open socket directory: %w", err)
	}
	defer func() { _ = dir.Close() }()
	return f("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path))
}

// Listen listens at path with mode 0600. What an earlier process has left there is replaced: the
// caller must hold a lock that says that nobody listens any more. Closing the listener leaves the
// file; remove it before, so that whoever finds none may listen in turn. The directory of path must
// be closed to others, or they could connect before the mode is set.
func Listen(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	var l *net.UnixListener
	err := withAddress(path, func(address string) error {
		var err error
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the address may be one that only held during the call
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("protect socket: %w", err)
	}
	return l, nil
}

// Dial connects to the socket at path. Without one the error wraps fs.ErrNotExist, with one that
// nobody listens on syscall.ECONNREFUSED.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	var conn net.Conn
	err := withAddress(path, func(address string) error {
		var (
			d   net.Dialer
			err error
		)
		conn, err = d.DialContext(ctx, "unix", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial socket %s: %w", path, err)
	}
	return conn.(*net.UnixConn), nil
}

// Peer returns who is at the other end of c.
func Peer(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("read peer of socket: %w", err)
	}
	var (
		cred    *unix.Ucred
		credErr error
	)
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return nil, fmt.Errorf("read peer of socket: %w", err)
	}
	return cred, nil
}

// CheckPeer admits the own user and root. The mode of the socket says the same; this holds even if
// somebody loosens it. What is no Unix connection is a pipe of a test and admitted.
func CheckPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	cred, err := Peer(u)
	if err != nil {
		return err
	}
	if cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: user %d", ErrStranger, cred.Uid)
	}
	return nil
}
