// Command dist makes what packages of Hearth hold beside the binary: manual
// pages and shell completions, generated from the commands themselves, and OCI
// images. The same input gives the same bytes: times come from the caller.
//
// It owns no package format; deb and rpm are written by nfpm from
// deploy/package. Its tests, behind the build tag packages, install what "make
// package" has made.
//
// Importers: none. The Makefile runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// epochVariable is the time that everything is stamped with, in seconds since
// 1970 (reproducible-builds.org/specs/source-date-epoch).
const epochVariable = "SOURCE_DATE_EPOCH"

func main() {
	if err := run(os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: dist manual -version V -configuration FILE DIR | dist image -version V -arch A -binary FILE DIR | dist sums DIR")

// run executes one subcommand.
func run(args []string, getenv func(string) string, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	fs := flag.NewFlagSet("dist "+args[0], flag.ContinueOnError)
	fs.SetOutput(stderr)
	version := fs.String("version", "", "version to stamp")
	arch := fs.String("arch", "", "architecture of the binary, as Go calls it")
	binary := fs.String("binary", "", "the binary of the image")
	configuration := fs.String("configuration", "", "the page about the configuration, in Markdown")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return errUsage
	}
	dir := fs.Arg(0)
	if args[0] == "sums" {
		return writeSums(dir)
	}
	seconds, err := strconv.ParseInt(getenv(epochVariable), 10, 64)
	if err != nil {
		return fmt.Errorf("read %s: %w", epochVariable, err)
	}
	at := time.Unix(seconds, 0).UTC()
	if err := checkVersion(*version); err != nil {
		return err
	}
	switch args[0] {
	case "manual":
		return writeManual(dir, *version, *configuration, at)
	case "image":
		return writeImage(dir, image{version: *version, arch: *arch, binary: *binary, at: at})
	}
	return errUsage
}

// checkVersion refuses what the binary says when Go could not find the commit, such
// as "(devel)": it would be the version of packages that dpkg refuses to install.
func checkVersion(v string) error {
	if v == "" || v[0] < '0' || v[0] > '9' {
		return fmt.Errorf("the binary says %q of its version, which no package can have: build in a clone (in a linked worktree or an archive Go finds no commit)", v)
	}
	return nil
}
