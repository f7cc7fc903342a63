package main

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/hearthd/hearth/cmd/internal/cli"
)

// manual writes everything into a directory and returns its files, pages
// unpacked.
func manual(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	at := time.Unix(1700000000, 0).UTC()
	if err := writeManual(dir, "1.2.3", filepath.Join("..", "..", "..", "docs", "configuration.md"), at); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		var r io.Reader = f
		if strings.HasSuffix(path, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				return err
			}
		}
		text, err := io.ReadAll(r)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryCommandHasAPageAndNoHiddenOneHas(t *testing.T) {
	files := manual(t)
	pages := 0
	var walk func(cmd *cobra.Command, hidden bool)
	walk = func(cmd *cobra.Command, hidden bool) {
		hidden = hidden || cmd.Hidden
		name := "man/man1/" + dashed(cmd) + ".1.gz"
		page, there := files[name]
		switch {
		case hidden && there:
			t.Errorf("%s is about a hidden command", name)
		case !hidden && cmd.Name() != "help":
			pages++
			if !strings.Contains(page, `.TH "`+strings.ToUpper(dashed(cmd))+`" "1"`) || !strings.Contains(page, "hearth 1.2.3") {
				t.Errorf("%s lacks its title or version:\n%.300s", name, page)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub, hidden)
		}
	}
	walk(cli.Tree(), false)
	if pages < 20 {
		t.Errorf("%d pages: the walk has missed most commands", pages)
	}
}

func TestThePageOfTheConfigurationNamesItsSettings(t *testing.T) {
	page := manual(t)["man/man5/hearth.hcl.5.gz"]
	for _, want := range []string{".TH \"HEARTH.HCL\" \"5\"", "hearth.hcl \\- settings", "network.bind", "HEARTH_MASTERS"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%.500s", want, page)
		}
	}
}

func TestCompletionsAreScriptsOfTheirShells(t *testing.T) {
	files := manual(t)
	for shell, name := range map[string]string{"bash": "hearth.bash", "zsh": "_hearth", "fish": "hearth.fish"} {
		script := files["completions/"+name]
		if !strings.Contains(script, "hearth") || !strings.Contains(script, "__complete") {
			t.Errorf("%s asks nothing of the binary", name)
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

func TestTheManualIsTheSameEachTime(t *testing.T) {
	if diff := cmp.Diff(manual(t), manual(t)); diff != "" {
		t.Errorf("two manuals differ:\n%s", diff)
	}
}

func TestDigestsAreThoseOfTheFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b": "", "a": "abc"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // its own file does not count
		if err := run([]string{"sums", dir}, os.Getenv, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, sumsFile))
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestNoPackageHasTheVersionOfABinaryWithoutACommit(t *testing.T) {
	for _, v := range []string{"(devel)", "", "v1.2.0"} {
		err := run([]string{"manual", "-version", v, t.TempDir()}, func(string) string { return "0" }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "which no package can have") {
			t.Errorf("version %q: %v", v, err)
		}
	}
}
