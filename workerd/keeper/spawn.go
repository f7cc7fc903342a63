//go:build linux

package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// spawnSpec is what the spawner thread needs to make one process.
type spawnSpec struct {
	path     string
	argv     []string
	env      []string
	dir      string
	stdin    uintptr
	stdout   uintptr
	stderr   uintptr
	user     *User
	cgroupFD int // -1 for none
}

// spawner makes processes from one OS thread. The parent-death signal is tied to the thread that
// forked, not to the process, so a thread of the Go runtime's pool, which may end at any time,
// would take healthy children with it.
type spawner struct {
	calls chan spawnCall
}

type spawnCall struct {
	spec  spawnSpec
	reply chan<- spawnResult
}

type spawnResult struct {
	pid int
	err error
}

func newSpawner() *spawner { return &spawner{calls: make(chan spawnCall)} }

// run serves spawn until stop is closed, which must not happen while a child lives: returning
// without unlocking ends the thread.
func (sp *spawner) run(stop <-chan struct{}) {
	runtime.LockOSThread()
	for {
		select {
		case call := <-sp.calls:
			pid, err := fork(call.spec)
			call.reply <- spawnResult{pid, err}
		case <-stop:
			return
		}
	}
}

// spawn starts a process and returns its id. run must be running.
func (sp *spawner) spawn(spec spawnSpec) (int, error) {
	reply := make(chan spawnResult, 1)
	sp.calls <- spawnCall{spec, reply}
	r := <-reply
	return r.pid, r.err
}

// fork uses the syscall package rather than os/exec: those wait for the process themselves, and
// here one loop reaps everything.
func fork(spec spawnSpec) (int, error) {
	attr := &syscall.ProcAttr{
		Dir:   spec.dir,
		Env:   spec.env,
		Files: []uintptr{spec.stdin, spec.stdout, spec.stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if u := spec.user; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if spec.cgroupFD >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, spec.cgroupFD
	}
	return syscall.ForkExec(spec.path, spec.argv, attr)
}

// lookPath finds the program a process with this environment and directory would find. Unlike the
// standard library's it uses the PATH of the process, not of the keeper.
func lookPath(word string, env []string, dir string) (string, error) {
	if strings.Contains(word, "/") {
		path := word
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(path)
	}
	var found error
	for _, in := range filepath.SplitList(pathOf(env)) {
		if !filepath.IsAbs(in) {
			in = filepath.Join(dir, in) // an empty element is the current directory
		}
		path := filepath.Join(in, word)
		err := checkProgram(path)
		if err == nil {
			return path, nil
		}
		if found == nil && ReasonOf(err) != ReasonCommandNotFound {
			found = err
		}
	}
	if found != nil {
		return "", found
	}
	return "", &Error{ReasonCommandNotFound, fmt.Sprintf("%q is not in the PATH of the process", word)}
}

func pathOf(env []string) string {
	path := ""
	for _, kv := range env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	return path
}

func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return &Error{ReasonCommandNotFound, path + " does not exist"}
	case err != nil:
		return &Error{ReasonNotExecutable, err.Error()}
	case !info.Mode().IsRegular():
		return &Error{ReasonNotExecutable, path + " is not a regular file"}
	case info.Mode().Perm()&0o111 == 0:
		return &Error{ReasonNotExecutable, path + " has no execute permission"}
	}
	return nil
}

// spawnError explains what the kernel said to a program that exists.
func spawnError(spec spawnSpec, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &Error{ReasonCommandNotFound, spec.path + ": its interpreter does not exist"}
	case errors.Is(err, unix.ENOEXEC):
		return &Error{ReasonNotExecutable, spec.path + ": no program of this machine, and no #! line"}
	case errors.Is(err, unix.EACCES):
		return &Error{ReasonNotExecutable, spec.path + ": permission denied (program or directory)"}
	case errors.Is(err, unix.E2BIG):
		return &Error{ReasonSpawnFailed, spec.path + ": command line and environment are too long"}
	case errors.Is(err, unix.EPERM) && spec.user != nil:
		return &Error{ReasonSpawnFailed, fmt.Sprintf("%s: the keeper may not run programs as user %d", spec.path, spec.user.UID)}
	}
	return &Error{ReasonSpawnFailed, fmt.Sprintf("%s: %v", spec.path, err)}
}
