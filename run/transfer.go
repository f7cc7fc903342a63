package run

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hearthd/hearth/driver"
	"github.com/hearthd/hearth/model"
)

// transfer brings files into the directories of tasks.
type transfer struct {
	shared []model.File // the same for every task; read once
	each   []Template   // differ from task to task
}

// newTransfer reads the files that are the same for every task.
func newTransfer(names []string) (transfer, error) {
	var t transfer
	var errs []error
	for _, name := range names {
		tmpl := parsePlaces(name)
		if tmpl.hasPlaces() {
			t.each = append(t.each, tmpl)
			continue
		}
		f, err := readFile(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.shared = append(t.shared, f)
	}
	if n := fileBytes(t.shared); n > driver.MaxTaskFileBytes {
		errs = append(errs, fmt.Errorf("transfer: %w: %d bytes for each task, the limit is %d", model.ErrInvalid, n, driver.MaxTaskFileBytes))
	}
	return t, errors.Join(errs...)
}

// files are those of one task.
func (t *transfer) files(inputs []string, seq int) ([]model.File, error) {
	if len(t.each) == 0 {
		return t.shared, nil
	}
	out := append([]model.File(nil), t.shared...)
	for _, tmpl := range t.each {
		f, err := readFile(tmpl.Plain(inputs, seq))
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// ownBytes is what a task's files take beside the shared ones.
func (t *transfer) ownBytes(files []model.File) int { return fileBytes(files[len(t.shared):]) }

func fileBytes(files []model.File) int {
	n := 0
	for i := range files {
		n += len(files[i].Data)
	}
	return n
}

// readFile reads one file; errors wrap model.ErrInvalid.
func readFile(name string) (model.File, error) {
	fail := func(err error) (model.File, error) {
		return model.File{}, fmt.Errorf("transfer %q: %w: %w", name, model.ErrInvalid, err)
	}
	f, err := os.Open(name)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if !st.Mode().IsRegular() {
		return fail(errors.New("it is not a regular file"))
	}
	data, err := io.ReadAll(io.LimitReader(f, model.MaxTransferBytes+1))
	if err != nil {
		return fail(err)
	}
	if len(data) > model.MaxTransferBytes {
		return fail(fmt.Errorf("it has more than %d bytes", model.MaxTransferBytes))
	}
	into := filepath.Clean(name)
	if !filepath.IsLocal(into) {
		into = filepath.Base(into)
	}
	return model.File{Name: into, Mode: uint32(st.Mode().Perm()), Data: data}, nil
}
