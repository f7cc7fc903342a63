package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content fails unless the directory holds exactly the files named, with these
// contents.
func content(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := want[f.Name()]; !ok || w != string(b) {
			t.Errorf("%s holds %q, want %q (expected: %v)", f.Name(), b, w, ok)
		}
		delete(want, f.Name())
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestAFileIsReplacedWithTheModeAskedFor(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, w := range []struct {
		data string
		mode fs.FileMode
	}{{"long content", 0o600}, {"new", 0o666}, {"", 0o400}, {"again", 0o600}} {
		if err := Write(path, []byte(w.data), w.mode); err != nil {
			t.Fatal(err)
		}
		content(t, dir, map[string]string{"f": w.data})
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != w.mode {
			t.Errorf("mode %o, want %o", st.Mode().Perm(), w.mode)
		}
	}
}

func TestWhatACrashLeftBesideTheFileIsReplaced(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "elsewhere")
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path+TempSuffix, []byte("torn, and longer than the next"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	content(t, dir, map[string]string{"f": "whole"})

	if err := os.Symlink(elsewhere, path+TempSuffix); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	content(t, dir, map[string]string{"f": "second"})
	if _, err := os.Lstat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link was followed: %v", err)
	}
}

func TestAFailedWriteLeavesTheOldFileAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "gone", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a missing directory: %v, want not exist", err)
	}
	// A directory in the place of the file lets the last step fail.
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d", "inside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "d"), []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	content(t, dir, map[string]string{})
	// What stands in the way and cannot be removed is not written over.
	if err := Write(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "f"+TempSuffix)
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blocked, "inside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "f"), []byte("new"), 0o600); err == nil {
		t.Error("written although the temporary file was blocked")
	}
	content(t, dir, map[string]string{"f": "old"})
}
