//go:build linux

package keeper

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// oldLogSuffix names the one older file of the keeper's own log.
const oldLogSuffix = ".1"

// boundLog replaces the file at path by an empty one when it has reached limit
// bytes, keeping it under oldLogSuffix in place of an earlier one. Those of the
// descriptors that are the file become the new one, so that a crash of the
// process is written there too. Nothing is lost: whatever fails leaves the
// descriptors on a file that exists.
func boundLog(path string, limit int64, fds ...int) error {
	var old unix.Stat_t
	if err := unix.Stat(path, &old); err != nil || old.Size < limit {
		return nil // no log at that path: the process was started by hand
	}
	fresh, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	defer func() { _ = fresh.Close() }()
	if err := os.Rename(path, path+oldLogSuffix); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	for _, fd := range fds {
		var now unix.Stat_t
		if unix.Fstat(fd, &now) != nil || now.Dev != old.Dev || now.Ino != old.Ino {
			continue
		}
		if err := unix.Dup3(int(fresh.Fd()), fd, 0); err != nil {
			return fmt.Errorf("rotate log: take descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// boundOwnLog bounds the log that Launch has made the output of this process.
func (s *Server) boundOwnLog() {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if err := boundLog(logPath(s.cfg.StateDir), s.cfg.LogBytes, unix.Stdout, unix.Stderr); err != nil {
		s.log.Warn("the log grows on", "err", err)
	}
}
