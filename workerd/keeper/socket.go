//go:build linux

package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what fits into a socket address; longer paths go through a descriptor of the
// directory, because state directories may lie deep.
const maxSocketPath = 100

// withSocketAddress calls f with an address of the socket at path that fits into the system call.
func withSocketAddress(path string, f func(address string) error) error {
	if len(path) <= maxSocketPath {
		return f(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open socket directory: %w", err)
	}
	defer func() { _ = dir.Close() }()
	return f("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path))
}

// listen replaces a stale socket; the lock on the directory says that it is stale.
func listen(stateDir string) (net.Listener, error) {
	path := SocketPath(stateDir)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale keeper socket: %w", err)
	}
	var l *net.UnixListener
	err := withSocketAddress(path, func(address string) error {
		var err error
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on keeper socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // the address may be one that only held during the call
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("protect keeper socket: %w", err)
	}
	return l, nil
}

func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	var conn net.Conn
	err := withSocketAddress(path, func(address string) error {
		var (
			d   net.Dialer
			err error
		)
		conn, err = d.DialContext(ctx, "unix", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("dial keeper socket %s: %w", path, err)
	}
	return conn.(*net.UnixConn), nil
}

// peer returns who is at the other end of c.
func peer(c *net.UnixConn) (*unix.Ucred, error) {
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

// lockDir takes the state directory for this process; the kernel gives it back when the process
// ends, however it ends. A predecessor may still be killing its children: that takes a bounded
// time, and is waited for.
func lockDir(ctx context.Context, stateDir string) (*os.File, error) {
	path := filepath.Join(stateDir, "keeper.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open keeper lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: another keeper holds it: %w", path, ctx.Err())
		}
	}
}
