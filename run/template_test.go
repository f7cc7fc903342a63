package run

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/hearthd/hearth/model"
)

func TestTemplatesAreFilledInAsGNUParallelDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		template string
		inputs   []string
		want     string
	}{
		"the input":                             {"wc -l {}", []string{"a/b.txt"}, "wc -l a/b.txt"},
		"appended without a place":              {"wc -l", []string{"f"}, "wc -l f"},
		"without extension":                     {"{.}", []string{"a/b.tar.gz"}, "a/b.tar"},
		"a dot in the directory is none":        {"{.}", []string{"a.b/c"}, "a.b/c"},
		"last component":                        {"{/}", []string{"a/b.txt"}, "b.txt"},
		"last component of a plain name":        {"{/}", []string{"b.txt"}, "b.txt"},
		"directory":                             {"{//}", []string{"a/b/c"}, "a/b"},
		"directory of a plain name":             {"{//}", []string{"c"}, "."},
		"directory below the root":              {"{//}", []string{"/c"}, "/"},
		"last component without extension":      {"{/.}", []string{"a/b.txt"}, "b"},
		"the number":                            {"echo {#} {}", []string{"x"}, "echo 7 x"},
		"the number alone is a place":           {"echo {#}", []string{"x"}, "echo 7"},
		"several inputs side by side":           {"echo {}", []string{"a b", "c"}, "echo 'a b' c"},
		"several inputs, each cut":              {"echo {/}", []string{"x/a", "y/b"}, "echo a b"},
		"one input by the number of its source": {"echo {2}-{1}", []string{"a", "b"}, "echo b-a"},
		"twice":                                 {"{}{}", []string{"a"}, "aa"},
		"values are not templates":              {"echo {}", []string{"{#}"}, "echo '{#}'"},
		"other braces are text":                 {"awk '{print $1}' {} {x} {", []string{"f"}, "awk '{print $1}' f {x} {"},
		"braces in braces":                      {"${{}}", []string{"f"}, "${f}"},
		"quoted":                                {"echo {}", []string{"it's $HOME; `x` \"y\" *\n"}, "echo 'it'\\''s $HOME; `x` \"y\" *\n'"},
		"an empty input":                        {"echo {}", []string{""}, "echo ''"},
		"a home directory stays a word":         {"ls {}", []string{"~root"}, "ls '~root'"},
		"an assignment stays a word":            {"{}", []string{"A=b"}, "'A=b'"},
		"not ASCII":                             {"ls {}", []string{"naïve"}, "ls 'naïve'"},
	} {
		tmpl, err := ParseTemplate(c.template)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tmpl.Expand(c.inputs, 7); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestCommandsThatCannotBeRunAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "  \n", "a\x00b"} {
		if _, err := ParseTemplate(s); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
}

func TestTheShellReadsBackWhatWasQuoted(t *testing.T) {
	t.Parallel()
	var all []byte
	for b := 1; b < 256; b++ {
		all = append(all, byte(b))
	}
	for _, s := range []string{string(all), "", "'", "''", `\`, "a b", "-n", "$(false)", "!x", "#"} {
		out, err := exec.CommandContext(t.Context(), shell, "-c", "printf %s "+Quote(s)).Output()
		if err != nil || string(out) != s {
			t.Errorf("%q came back as %q (%v)", s, out, err)
		}
	}
}

// FuzzTemplate: any template and input give one command in which the input,
// where it is quoted, does not end its word.
func FuzzTemplate(f *testing.F) {
	f.Add("echo {} {.} {/} {//} {/.} {#} {1}", "a/b.c")
	f.Add("{", "'")
	f.Add("{{}}", "'; rm -rf x; '")
	f.Fuzz(func(t *testing.T, template, input string) {
		tmpl, err := ParseTemplate(template)
		if err != nil {
			return
		}
		got := tmpl.Expand([]string{input}, 1)
		if strings.Contains(template, "{}") && !strings.Contains(got, Quote(input)) {
			t.Errorf("%q of %q gives %q without its quoted input", template, input, got)
		}
		if q := Quote(input); strings.Count(strings.ReplaceAll(q, `'\''`, ""), "'")%2 != 0 {
			t.Errorf("quotes of %q do not match", q)
		}
	})
}
