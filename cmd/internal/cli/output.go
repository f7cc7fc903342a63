package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Output formats of -o.
const (
	formatTable = "table"
	formatJSON  = "json"
)

// output is the -o flag of a command.
type output struct{ format string }

func (o *output) bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "output", "o", formatTable, "output format: table or json")
}

func (o *output) check() error {
	if o.format != formatTable && o.format != formatJSON {
		return usage("output format %q: must be %s or %s", o.format, formatTable, formatJSON)
	}
	return nil
}

// print writes v as JSON, or calls table.
func (o *output) print(w io.Writer, v any, table func(w io.Writer) error) error {
	if o.format == formatJSON {
		return printJSON(w, v)
	}
	return table(w)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// tableWriter aligns columns; rows are joined by tabs.
type tableWriter struct{ tw *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *tableWriter {
	t := &tableWriter{tw: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.row(toAny(head)...)
	return t
}

func toAny(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}

func (t *tableWriter) row(cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
		if text[i] == "" {
			text[i] = "-"
		}
	}
	_, _ = fmt.Fprintln(t.tw, strings.Join(text, "\t")) // tabwriter reports on Flush
}

func (t *tableWriter) flush() error {
	if err := t.tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}
