package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Package is what the check knows of one package of the module.
type Package struct {
	// Name is the path below the module, such as "internal/lifecycle".
	Name string
	// Imports are the full import paths of code that is not a test.
	Imports []string
	// Files are all its Go files, tests included.
	Files []File
}

// File is what the check knows of one file.
type File struct {
	Name       string // base name
	Lines      int
	Generated  bool
	Test       bool
	Command    bool   // package main
	PackageDoc string // the package comment, "" for none
	GoLine     int    // line of the first go statement, 0 for none
	SleepLine  int    // line of the first time.Sleep, 0 for none
	// Bubbles are the functions that start a testing/synctest bubble.
	Bubbles []string
	// Calls are the names of the functions called without a qualifier.
	Calls []string
	// CalledBy are the same with the functions that call them.
	CalledBy []Call
}

// Call is one function that calls another one of its package.
type Call struct{ From, To string }

// Check returns every violation of the rules, one line each with its reason, in
// the order of the packages given.
func Check(rules Rules, packages []Package) []string {
	c := checker{rules: rules, byName: make(map[string]Package)}
	for _, p := range packages {
		c.byName[p.Name] = p
	}
	for _, p := range packages {
		c.layer(p)
		c.bans(p)
		c.exclusives(p)
		c.documentation(p)
		c.files(p)
	}
	return c.found
}

type checker struct {
	rules  Rules
	byName map[string]Package
	found  []string
}

func (c *checker) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// short returns the name of a package of the module, or the path of another.
func (c *checker) short(path string) string {
	if path == c.rules.Module {
		return "."
	}
	return strings.TrimPrefix(path, c.rules.Module+"/")
}

// layer checks that p is in the table and imports from lower layers only.
func (c *checker) layer(p Package) {
	own, ok := c.rules.Layers[p.Name]
	if !ok {
		c.report("%s: is in no layer: add it to layers() in internal/archtest/table.go, with what it is for", p.Name)
		return
	}
	for _, path := range p.Imports {
		name := c.short(path)
		other, ours := c.rules.Layers[name]
		switch {
		case !ours, other.Number < own.Number:
		case slices.ContainsFunc(c.rules.Pairs, func(pair Pair) bool { return pair.From == p.Name && pair.To == name }):
		default:
			c.report("%s (layer %d: %s) must not import %s (layer %d: %s): imports go to lower layers only",
				p.Name, own.Number, own.Why, name, other.Number, other.Why)
		}
	}
}

// bans checks the forbidden imports of p, itself and through the module.
func (c *checker) bans(p Package) {
	for _, ban := range c.rules.Bans {
		if ban.From != p.Name {
			continue
		}
		for _, target := range ban.Targets {
			if path := c.path(p, target, ban.Direct); path != nil {
				c.report("%s must not import %s: %s", strings.Join(path[:len(path)-1], " -> "), path[len(path)-1], ban.Why)
			}
		}
	}
}

// path returns the shortest chain of imports from p to target, nil if there is
// none. The chain goes through packages of the module, unless direct.
func (c *checker) path(p Package, target string, direct bool) []string {
	queue := [][]string{{p.Name}}
	seen := map[string]bool{p.Name: true}
	for len(queue) > 0 {
		chain := queue[0]
		queue = queue[1:]
		for _, path := range c.byName[chain[len(chain)-1]].Imports {
			name := c.short(path)
			next := append(slices.Clone(chain), name)
			if matches(target, name) {
				return next
			}
			if _, ours := c.byName[name]; ours && !seen[name] && !direct {
				seen[name] = true
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// matches reports whether an import is the target, or below it when the target
// ends in "/...". A major version, as in "raft-boltdb/v2", is below.
func matches(target, name string) bool {
	if root, ok := strings.CutSuffix(target, "/..."); ok {
		return name == root || strings.HasPrefix(name, root+"/")
	}
	return name == target
}

func (c *checker) exclusives(p Package) {
	for _, e := range c.rules.Exclusives {
		if slices.Contains(e.Only, p.Name) {
			continue
		}
		for _, path := range p.Imports {
			if name := c.short(path); matches(e.Target, name) {
				who := "no package"
				if len(e.Only) > 0 {
					who = "only " + strings.Join(e.Only, ", ")
				}
				c.report("%s must not import %s: %s may: %s", p.Name, name, who, e.Why)
			}
		}
	}
}

// documentation checks that doc.go has a package comment that begins as godoc
// wants it. A command has it in main.go. Generated packages are documented in
// what they are generated from.
func (c *checker) documentation(p Package) {
	code := slices.DeleteFunc(slices.Clone(p.Files), func(f File) bool { return f.Generated })
	if len(code) == 0 {
		return
	}
	name, begin := "doc.go", "Package "
	if slices.ContainsFunc(code, func(f File) bool { return f.Command }) {
		name, begin = "main.go", "Command "
	}
	i := slices.IndexFunc(code, func(f File) bool { return f.Name == name })
	if i < 0 || !strings.HasPrefix(code[i].PackageDoc, begin) {
		c.report("%s: needs %s with a comment that begins with %q: what it owns, what it does not, who may import it", p.Name, name, begin)
	}
}

func (c *checker) files(p Package) {
	bubbles := bubblesOf(p)
	for _, f := range p.Files {
		if f.Generated {
			continue
		}
		if f.Lines > c.rules.MaxLines {
			c.report("%s/%s: has %d lines, the limit is %d: split it by entity", p.Name, f.Name, f.Lines, c.rules.MaxLines)
		}
		if f.Test && f.SleepLine > 0 && !inBubble(f, bubbles) {
			c.report("%s/%s:%d: must not sleep outside a testing/synctest bubble: wait for the thing itself, with a deadline", p.Name, f.Name, f.SleepLine)
		}
		for _, r := range c.rules.NoGoroutines {
			if r.Package == p.Name && f.GoLine > 0 && !f.Test {
				c.report("%s/%s:%d: must not start a goroutine: %s", p.Name, f.Name, f.GoLine, r.Why)
			}
		}
	}
}

// bubblesOf lists the functions of a package that start bubbles, themselves or
// through others of them.
func bubblesOf(p Package) []string {
	var bubbles []string
	for _, f := range p.Files {
		bubbles = append(bubbles, f.Bubbles...)
	}
	for known := -1; known != len(bubbles); {
		known = len(bubbles)
		for _, f := range p.Files {
			for _, c := range f.CalledBy {
				if slices.Contains(bubbles, c.To) && !slices.Contains(bubbles, c.From) {
					bubbles = append(bubbles, c.From)
				}
			}
		}
	}
	return bubbles
}

// inBubble reports whether a file starts bubbles itself or through a function of
// its package. Which of its lines run in one is for the reader to see.
func inBubble(f File, bubbles []string) bool {
	return len(f.Bubbles) > 0 || slices.ContainsFunc(f.Calls, func(name string) bool { return slices.Contains(bubbles, name) })
}
