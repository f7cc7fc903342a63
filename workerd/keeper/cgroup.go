//go:build linux

package keeper

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SupervisorCgroup is the child cgroup worker and keeper live in, beside those of the processes:
// a cgroup that hands out a controller may hold no processes itself, and what supervises must not
// be charged to what is supervised. A systemd unit names it in DelegateSubgroup=.
const SupervisorCgroup = "hearth-supervisor"

const (
	cgroupMount      = "/sys/fs/cgroup"
	cgroupProcs      = "cgroup.procs"
	cgroupSubtree    = "cgroup.subtree_control"
	cgroupController = "memory"
)

// CgroupSupport reports whether memory limits of processes can be enforced here, and why or why
// not in words for a start-up line. It changes nothing. Worker and keeper get the same answer as
// long as they share a cgroup.
func CgroupSupport() (bool, string) {
	var fsInfo unix.Statfs_t
	if err := unix.Statfs(cgroupMount, &fsInfo); err != nil {
		return false, fmt.Sprintf("%s cannot be read: %v", cgroupMount, err)
	}
	if fsInfo.Type != unix.CGROUP2_SUPER_MAGIC {
		return false, cgroupMount + " is not a unified cgroup v2 hierarchy (version 1 or hybrid)"
	}
	own, err := ownCgroup("/proc/self/cgroup")
	if err != nil {
		return false, err.Error()
	}
	base := delegatedBase(filepath.Join(cgroupMount, own))
	if err := checkDelegation(base); err != nil {
		return false, err.Error()
	}
	if _, err := movable(base); err != nil {
		return false, err.Error()
	}
	return true, "cgroup v2 with the memory controller at " + base
}

// ownCgroup returns the path in the unified hierarchy from a file in the format of
// /proc/PID/cgroup.
func ownCgroup(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read own cgroup: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if own, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return own, nil
		}
	}
	return "", errors.New("this process is in no cgroup v2")
}

// delegatedBase is the cgroup under which those of the processes go.
func delegatedBase(own string) string {
	if filepath.Base(own) == SupervisorCgroup {
		return filepath.Dir(own)
	}
	return own
}

func checkDelegation(base string) error {
	controllers, err := os.ReadFile(filepath.Join(base, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("controllers of %s cannot be read: %w", base, err)
	}
	if !hasWord(controllers, cgroupController) {
		return fmt.Errorf("the memory controller is not delegated to %s", base)
	}
	for _, path := range []string{base, filepath.Join(base, cgroupProcs), filepath.Join(base, cgroupSubtree)} {
		if err := unix.Access(path, unix.W_OK); err != nil {
			return fmt.Errorf("%s is not writable: %w", path, err)
		}
	}
	return nil
}

func hasWord(text []byte, word string) bool {
	for w := range bytes.FieldsSeq(text) {
		if string(w) == word {
			return true
		}
	}
	return false
}

// movable lists the processes that must leave base before it can hand out a controller. Only
// processes of this very program may be moved: worker and keeper under a service manager. A login
// shell in the same cgroup means that it is not ours to rearrange.
func movable(base string) ([]int, error) {
	pids, err := readPIDs(filepath.Join(base, cgroupProcs))
	if err != nil {
		return nil, err
	}
	if len(pids) > maxSupervisorMoves {
		return nil, fmt.Errorf("%s holds %d processes", base, len(pids))
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("read own program: %w", err)
	}
	for _, pid := range pids {
		exe, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/exe")
		if errors.Is(err, fs.ErrNotExist) && pid != 0 {
			continue // gone meanwhile
		}
		if err != nil || !os.SameFile(self, exe) {
			return nil, fmt.Errorf("%s also holds process %d, which is not ours", base, pid)
		}
	}
	return pids, nil
}

func readPIDs(path string) ([]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read processes of cgroup: %w", err)
	}
	var pids []int
	for word := range bytes.FieldsSeq(b) {
		pid, err := strconv.Atoi(string(word))
		if err != nil {
			return nil, fmt.Errorf("read processes of cgroup %s: %w", path, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// cgroupTree is the cgroup that holds those of one worker's processes.
type cgroupTree struct {
	dir string
}

// prepareCgroups makes room for children's cgroups under base and kills what an earlier keeper of
// the same worker has left in them.
func prepareCgroups(base, workerID string) (*cgroupTree, error) {
	pids, err := movable(base)
	if err != nil {
		return nil, err
	}
	supervisor := filepath.Join(base, SupervisorCgroup)
	if len(pids) > 0 {
		if err := makeCgroup(supervisor); err != nil {
			return nil, err
		}
	}
	for _, pid := range pids {
		err := writeCgroup(supervisor, cgroupProcs, strconv.Itoa(pid))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
	}
	tree := &cgroupTree{dir: filepath.Join(base, "hearth-"+cgroupName(workerID))}
	if err := writeCgroup(base, cgroupSubtree, "+"+cgroupController); err != nil {
		return nil, err
	}
	if err := makeCgroup(tree.dir); err != nil {
		return nil, err
	}
	if err := tree.clear(); err != nil {
		return nil, err
	}
	return tree, writeCgroup(tree.dir, cgroupSubtree, "+"+cgroupController)
}

// cgroupName maps a key to a directory name; a tilde cannot occur in a key, so no two keys share one. The prefix keeps
// it apart from the kernel's own file names.
func cgroupName(key string) string { return "x-" + strings.ReplaceAll(key, "/", "~") }

func makeCgroup(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create cgroup: %w", err)
	}
	return nil
}

func writeCgroup(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write %s to cgroup: %w", value, err)
	}
	_, err = f.WriteString(value)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s to cgroup: %w", value, err)
	}
	return nil
}

// clear kills and removes all cgroups of the tree. One whose processes are not gone yet is left.
func (t *cgroupTree) clear() error {
	children, err := os.ReadDir(t.dir)
	if err != nil {
		return fmt.Errorf("read cgroups of an earlier keeper: %w", err)
	}
	for _, c := range children {
		if c.IsDir() {
			cg := &cgroup{dir: filepath.Join(t.dir, c.Name())}
			cg.kill()
			cg.remove()
		}
	}
	return nil
}

// cgroup holds one key's processes. Its methods are called by the key's own goroutine.
type cgroup struct {
	dir string
	fd  int
}

// create makes the cgroup of key with the limit and opens it for the spawn.
func (t *cgroupTree) create(key string, limitMiB int64) (*cgroup, error) {
	cg := &cgroup{dir: filepath.Join(t.dir, cgroupName(key))}
	if err := makeCgroup(cg.dir); err != nil {
		return nil, err
	}
	err := cg.limit(limitMiB)
	if err == nil {
		cg.fd, err = unix.Open(cg.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		cg.remove()
		return nil, fmt.Errorf("set up cgroup of %s: %w", key, err)
	}
	return cg, nil
}

func (c *cgroup) limit(mib int64) error {
	if mib == 0 {
		return nil
	}
	if err := writeCgroup(c.dir, "memory.max", strconv.FormatInt(mib<<20, 10)); err != nil {
		return err
	}
	// Without this the limit would only move pages to swap; absent where there is none.
	if err := writeCgroup(c.dir, "memory.swap.max", "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Half a process tree is of no use to anybody: the kernel ends all of it, or nothing.
	if err := writeCgroup(c.dir, "memory.oom.group", "1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// opened closes the descriptor create left open for the spawn.
func (c *cgroup) opened() { _ = unix.Close(c.fd) }

// pids lists the processes in the cgroup and below it.
func (c *cgroup) pids() []int { return cgroupPIDs(c.dir, maxCgroupDepth) }

func cgroupPIDs(dir string, depth int) []int {
	pids, _ := readPIDs(filepath.Join(dir, cgroupProcs)) // an error means that it is gone
	if depth == 0 {
		return pids
	}
	children, _ := os.ReadDir(dir)
	for _, child := range children {
		if child.IsDir() {
			pids = append(pids, cgroupPIDs(filepath.Join(dir, child.Name()), depth-1)...)
		}
	}
	return pids
}

// kill ends everything in the cgroup at once, races with forks included. Kernels before 5.14
// cannot; there the caller's round of single signals has to do.
func (c *cgroup) kill() {
	_ = writeCgroup(c.dir, "cgroup.kill", "1")
}

// oomKilled says whether the kernel has killed a process of the cgroup at its limit.
func (c *cgroup) oomKilled() bool {
	b, err := os.ReadFile(filepath.Join(c.dir, "memory.events"))
	if err != nil {
		return false
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		if count, ok := strings.CutPrefix(lines.Text(), "oom_kill "); ok {
			return count != "0"
		}
	}
	return false
}

// remove deletes the cgroup and those made below it, as far as they are empty.
func (c *cgroup) remove() { removeCgroups(c.dir, maxCgroupDepth) }

func removeCgroups(dir string, depth int) {
	if depth > 0 {
		children, _ := os.ReadDir(dir)
		for _, child := range children {
			if child.IsDir() {
				removeCgroups(filepath.Join(dir, child.Name()), depth-1)
			}
		}
	}
	_ = os.Remove(dir) // of a cgroup this is rmdir(2), which the kernel refuses while it is in use
}
