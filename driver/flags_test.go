package driver

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// A standard flag that comes later must not break the programs that there are.
func TestAProgramsOwnFlagTakesThePlaceOfAStandardOne(t *testing.T) {
	var least int
	var name string
	p, std, err := newProgram(func(p *Program) {
		p.Flags().IntVar(&least, "min-executors", 7, "least number of machines")
		p.Flags().StringVarP(&name, "title", "q", "", "title of the report")
		p.Run(func(context.Context, *App) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Flags().Parse([]string{"--min-executors", "3", "-q", "x", "--executors", "5", "rest"}); err != nil {
		t.Fatal(err)
	}
	if err := std.apply(p); err != nil {
		t.Fatal(err)
	}
	if least != 3 || name != "x" || p.Executors != 5 || p.Placing.MinExecutors != 0 || p.Flags().Arg(0) != "rest" {
		t.Errorf("least %d, name %q, %d executors, placing %+v, arguments %q", least, name, p.Executors, p.Placing, p.Flags().Args())
	}
}

func TestHelpNamesAFlagOnce(t *testing.T) {
	var out bytes.Buffer
	code := Run(t.Context(), func(p *Program) {
		p.Flags().Int("memory", 1, "how much it remembers")
		p.Run(func(context.Context, *App) error { return nil })
	}, Invocation{Args: []string{"program", "--help"}, Stderr: &out})
	if code != CodeOK || strings.Count(out.String(), "--memory ") != 1 || !strings.Contains(out.String(), "how much it remembers") {
		t.Errorf("code %d:\n%s", code, out.String())
	}
}
