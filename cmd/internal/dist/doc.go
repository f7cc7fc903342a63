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
