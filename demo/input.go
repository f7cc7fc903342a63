package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// maxFilesPerTask is how many files a task counts, at most.
	maxFilesPerTask = 16
	// minTasks is how many tasks there are at least, so that two kills land in
	// the middle; few files are counted several times over.
	minTasks = 200

	goEnvTimeout = 10 * time.Second
	checkers     = 4
)

// input is what there is to count.
type input struct {
	what  string // for people
	files []string
	// tasks are lists of indexes into files; each file is in exactly passes of
	// them.
	tasks  [][]int
	passes int
}

// findInput lists the files of dir, or those of the Go distribution that env
// and the machine offer. Errors are ErrUsage.
func findInput(ctx context.Context, dir string, env []string) (*input, error) {
	in := &input{what: "files of " + dir}
	suffix := ""
	if dir == "" {
		root := goRoot(ctx, env)
		if root == "" {
			return nil, usagef("no Go distribution is installed here whose files could be counted: name another tree with --input DIR")
		}
		dir, suffix, in.what = root, ".go", ".go files of "+root
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, usagef("--input: %w", err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() && strings.HasSuffix(path, suffix) {
			in.files = append(in.files, path)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, usagef("list the input: %w", err)
	case len(in.files) == 0:
		return nil, usagef("there are no files in %s: name another tree with --input DIR", dir)
	}
	in.tasks, in.passes = split(len(in.files))
	return in, nil
}

// goRoot returns "" if there is no Go distribution.
func goRoot(ctx context.Context, env []string) string {
	var candidates []string
	for _, kv := range env {
		if root, ok := strings.CutPrefix(kv, "GOROOT="); ok {
			candidates = append(candidates, root)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, goEnvTimeout)
	defer cancel()
	if path := lookPath("go", env); path != "" {
		cmd := exec.CommandContext(ctx, path, "env", "GOROOT")
		cmd.Env = env
		if out, err := cmd.Output(); err == nil {
			candidates = append(candidates, strings.TrimSpace(string(out)))
		}
	}
	for _, root := range candidates {
		if st, err := os.Stat(filepath.Join(root, "src")); root != "" && err == nil && st.IsDir() {
			// Distributions of Debian are made of links.
			if path, err := filepath.EvalSymlinks(root); err == nil {
				return path
			}
		}
	}
	return ""
}

// lookPath is exec.LookPath with the PATH of env.
func lookPath(name string, env []string) string {
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return ""
}

// split makes tasks of n files, at least minTasks.
func split(n int) (tasks [][]int, passes int) {
	perTask := min(maxFilesPerTask, (n+minTasks-1)/minTasks)
	for len(tasks) < minTasks {
		passes++
		for at := 0; at < n; at += perTask {
			var t []int
			for f := at; f < min(at+perTask, n); f++ {
				t = append(t, f)
			}
			tasks = append(tasks, t)
		}
	}
	return tasks, passes
}

func (in *input) paths(task int) []string {
	out := make([]string, len(in.tasks[task]))
	for n, f := range in.tasks[task] {
		out[n] = in.files[f]
	}
	return out
}

// expected counts every file in this process.
func (in *input) expected(ctx context.Context) ([]Counts, error) {
	counts := make([]Counts, len(in.files))
	errs := make([]error, checkers)
	var joined sync.WaitGroup
	for k := range checkers {
		joined.Go(func() {
			for f := k; f < len(in.files) && ctx.Err() == nil; f += checkers {
				data, err := os.ReadFile(in.files[f])
				if err != nil {
					errs[k] = fmt.Errorf("compare: %w", err)
					return
				}
				counts[f] = expectedCounts(data)
			}
		})
	}
	joined.Wait()
	return counts, errors.Join(ctx.Err(), errors.Join(errs...))
}
