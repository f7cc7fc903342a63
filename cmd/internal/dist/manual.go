package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/hearthd/hearth/cmd/internal/cli"
)

// writeManual writes below dir
//
//	man/man1/hearth*.1.gz    a page for each command
//	man/man5/hearth.hcl.5.gz the page about the configuration
//	completions/hearth.bash, _hearth, hearth.fish
func writeManual(dir, version, configuration string, at time.Time) error {
	root := cli.Tree()
	root.DisableAutoGenTag = true // at the root it holds for all
	pages, err := commandPages(root, version, at)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Clean(configuration))
	if err != nil {
		return fmt.Errorf("write the manual: %w", err)
	}
	pages["man5/hearth.hcl.5"] = configurationPage(text, version, at)
	for name, page := range pages {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression) // without a name and a time
		if err != nil {
			return err
		}
		if _, err := z.Write(page); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, "man", name+".gz"), packed.Bytes()); err != nil {
			return err
		}
	}
	return writeCompletions(filepath.Join(dir, "completions"), root)
}

// commandPages returns a page for each command that is not hidden, by name.
func commandPages(root *cobra.Command, version string, at time.Time) (map[string][]byte, error) {
	pages := map[string][]byte{}
	var walk func(cmd *cobra.Command) error
	walk = func(cmd *cobra.Command) error {
		var page bytes.Buffer
		header := doc.GenManHeader{Section: "1", Date: &at, Source: "hearth " + version, Manual: "Hearth"}
		if err := doc.GenMan(cmd, &header, &page); err != nil {
			return fmt.Errorf("write the page of %s: %w", cmd.CommandPath(), err)
		}
		name := "hearth"
		if cmd.HasParent() {
			name = dashed(cmd)
		}
		pages["man1/"+name+".1"] = page.Bytes()
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
				continue
			}
			if err := walk(sub); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, walk(root)
}

// dashed is the name of a page: hearth-operator-raft-list.
func dashed(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Name()
	}
	return dashed(cmd.Parent()) + "-" + cmd.Name()
}

// configurationPage turns the generated page about settings into hearth.hcl(5).
func configurationPage(markdown []byte, version string, at time.Time) []byte {
	title := fmt.Sprintf("%% \"HEARTH.HCL\" \"5\" %q %q %q\n\n# NAME\n\nhearth.hcl - settings of Hearth's masters, workers and clients\n\n",
		at.Format("Jan 2006"), "hearth "+version, "Hearth")
	return md2man.Render(append([]byte(title), markdown...))
}

// writeCompletions writes what the shells' own directories take.
func writeCompletions(dir string, root *cobra.Command) error {
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"hearth.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_hearth":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"hearth.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var script bytes.Buffer
		if err := generate(&script); err != nil {
			return fmt.Errorf("write completion %s: %w", name, err)
		}
		if err := writeFile(filepath.Join(dir, name), script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that everybody may read, and the directories above.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // package contents are public
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // package contents are public
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
