package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hearthd/hearth/model"
)

// defaultPath is the PATH of tasks if the executor itself has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// secretWords mark variables that are not passed on.
var secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "KEY"} //nolint:gochecknoglobals // a constant list

// baseEnv picks from the executor's environment what every task gets.
func baseEnv(env []string) []string {
	var out []string
	hasPath := false
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok {
			continue
		}
		switch {
		case name == "PATH":
			hasPath = true
		case name == "HOME", name == "LANG", name == "TMPDIR":
		case strings.HasPrefix(name, "HEARTH_") && !isSecret(name):
		default:
			continue
		}
		out = append(out, kv)
	}
	if !hasPath {
		out = append(out, "PATH="+defaultPath)
	}
	return out
}

func isSecret(name string) bool {
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// taskEnv is the environment of one task. What ties a process to its task
// comes last, because the last entry of a name counts.
func taskEnv(base []string, t *model.ExecTask, dir string, marks []string) []string {
	out := make([]string, 0, len(base)+len(t.Env)+1+len(marks))
	out = append(out, base...)
	out = append(out, "PWD="+dir)
	out = append(out, t.Env...)
	return append(out, marks...)
}

// taskMarks name the task in the environment of its processes.
func (c *Config) taskMarks(t *model.ExecTask) []string {
	return []string{
		"HEARTH_APP_ID=" + string(c.App),
		"HEARTH_EXECUTOR_ID=" + strconv.Itoa(int(c.Executor)),
		"HEARTH_TASK_ID=" + strconv.FormatUint(uint64(t.ID), 10),
		"HEARTH_TASK_ATTEMPT=" + strconv.Itoa(t.Attempt),
	}
}

// lookPath finds a program along the task's own PATH. A name with a slash is
// relative to the task's directory.
func lookPath(program string, env []string, dir string) (string, error) {
	if program == "" {
		return "", fmt.Errorf("%w: the program's name is empty", model.ErrInvalid)
	}
	if strings.Contains(program, "/") {
		return program, nil // execve says what is wrong with it
	}
	path := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		file := filepath.Join(d, program)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("program %q: %w in PATH %q", program, model.ErrNotFound, path)
}
