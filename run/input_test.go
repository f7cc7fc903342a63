package run

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hearthd/hearth/model"
)

func TestTheCommandLineIsDividedAtTripleColons(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words   []string
		command string
		lists   [][]string
	}{
		"one list":           {[]string{"echo", "{}", ":::", "a", "b"}, "echo {}", [][]string{{"a", "b"}}},
		"two lists":          {[]string{"echo {1} {2}", ":::", "a", ":::", "b", "c"}, "echo {1} {2}", [][]string{{"a"}, {"b", "c"}}},
		"none":               {[]string{"wc"}, "wc", nil},
		"an empty list":      {[]string{"wc", ":::"}, "wc", [][]string{{}}},
		"no command":         {[]string{":::", "a"}, "", [][]string{{"a"}}},
		"four colons are no": {[]string{"a", "::::"}, "a ::::", nil},
	} {
		command, lists := SplitArgs(c.words)
		if diff := cmp.Diff(c.lists, lists); diff != "" || command != c.command {
			t.Errorf("%s: command %q, lists (-want +got):\n%s", name, command, diff)
		}
	}
}

// all reads every input.
func all(t *testing.T, o Options, stdin string) ([][]string, error) {
	t.Helper()
	in, err := openInputs(&o, strings.NewReader(stdin))
	if err != nil {
		return nil, err
	}
	defer in.close()
	var out [][]string
	for {
		v, err := in.next()
		if errors.Is(err, io.EOF) {
			if in.total >= 0 && in.total != len(out) {
				t.Errorf("%d inputs, %d were promised", len(out), in.total)
			}
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
}

func TestInputsComeFromEverywhere(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("one\ntwo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		o     Options
		stdin string
		want  [][]string
	}{
		"lines of standard input": {Options{}, "a\n\n b \n", [][]string{{"a"}, {""}, {" b "}}},
		"no input":                {Options{}, "", nil},
		"separated by NUL":        {Options{NullSeparated: true}, "a\nb\x00c\x00", [][]string{{"a\nb"}, {"c"}}},
		"a file":                  {Options{ArgFiles: []string{file}}, "x", [][]string{{"one"}, {"two"}}},
		"a file named -":          {Options{ArgFiles: []string{"-"}}, "x\n", [][]string{{"x"}}},
		"a list":                  {Options{Args: [][]string{{"a", "b"}}}, "x", [][]string{{"a"}, {"b"}}},
		"each with each": {
			Options{ArgFiles: []string{file}, Args: [][]string{{"1", "2"}}},
			"",
			[][]string{{"one", "1"}, {"one", "2"}, {"two", "1"}, {"two", "2"}},
		},
		"each with nothing": {Options{Args: [][]string{{"1", "2"}, {}}}, "", nil},
	} {
		got, err := all(t, c.o, c.stdin)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestBadInputsAreRefused(t *testing.T) {
	t.Parallel()
	wide := make([]string, 4000)
	for name, c := range map[string]struct {
		o     Options
		stdin string
		want  error
	}{
		"a file that is not there": {Options{ArgFiles: []string{"/does/not/exist"}}, "", model.ErrInvalid},
		"an enormous line":         {Options{}, strings.Repeat("x", MaxInputBytes+2), model.ErrTooLarge},
		"a NUL in a line":          {Options{}, "a\x00b\n", model.ErrInvalid},
		"too many combinations":    {Options{Args: [][]string{wide, wide}}, "", model.ErrTooLarge},
	} {
		if _, err := all(t, c.o, c.stdin); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestBadOptionsAreRefusedTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	deps := Deps{Masters: []string{"127.0.0.1:7070"}}
	for name, c := range map[string]struct {
		o    Options
		text string
	}{
		"no command":                  {Options{}, "command"},
		"a relative directory":        {Options{Command: "x", Chdir: "here"}, "chdir"},
		"a directory with transfer":   {Options{Command: "x", Chdir: "/", Transfer: []string{os.Args[0]}}, "excludes chdir"},
		"a variable that is not set":  {Options{Command: "x", Env: []string{"NOPE"}}, "NOPE"},
		"a nameless variable":         {Options{Command: "x", Env: []string{"=1"}}, "NAME"},
		"negative numbers":            {Options{Command: "x", Cores: -1, Jobs: -1, Retries: -1, Timeout: -1}, "retries"},
		"a transfer of nothing":       {Options{Command: "x", Transfer: []string{dir + "/none"}}, "none"},
		"a transfer of a directory":   {Options{Command: "x", Transfer: []string{dir}}, "regular"},
		"a source that is not there":  {Options{Command: "x {2}", Args: [][]string{{"a"}}}, "command: invalid: {2} is the input of source 2, and there is 1"},
		"a transfer by such a source": {Options{Command: "x", Transfer: []string{"f{3}"}, Args: [][]string{{"a"}, {"b"}}}, "transfer: invalid: {3}"},
		"results in a file":           {Options{Command: "x", ResultsDir: os.Args[0] + "/below"}, "results"},
	} {
		_, code, err := Run(t.Context(), c.o, deps)
		if code != CodeUsage || !errors.Is(err, model.ErrInvalid) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: code %d, %v; want %d and a word on %s", name, code, err, CodeUsage, c.text)
		}
	}
	if _, err := (Options{Command: "x", Bind: "192.0.2.1"}).prepare(t.Context(), &deps); err != nil {
		t.Errorf("beyond loopback, where the link is encrypted as everywhere: %v", err)
	}
}

func TestFilesToTransferKeepTheirRelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("sub/tool", []byte("#!"), 0o700); err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs("sub/tool")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := newTransfer([]string{"./sub/tool", "sub/{}"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tr.files([]string{"tool"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	tool := model.File{Name: "sub/tool", Mode: 0o700, Data: []byte("#!")}
	if diff := cmp.Diff([]model.File{tool, tool}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if n := tr.ownBytes(got); n != 2 {
		t.Errorf("own bytes %d, want 2", n)
	}
	if f, err := readFile(abs); err != nil || f.Name != "tool" {
		t.Errorf("an absolute path becomes %q (%v), want its last component", f.Name, err)
	}
}
