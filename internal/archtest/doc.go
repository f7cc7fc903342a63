// Package archtest holds the architecture of the module as data, with a reason
// for each rule, and checks the source tree against it: layers, forbidden and
// exclusive imports, package documentation, file lengths and go.mod.
//
// It owns the rules that a compiler does not know and a linter cannot explain.
// It does not own formatting or style; see .golangci.yml.
//
// Nothing imports it; its own test runs the check.
package archtest
