package archtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is what is used of the output of go list -json.
type listed struct {
	ImportPath     string
	Dir            string
	Name           string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string
	TestGoFiles    []string
	XTestGoFiles   []string
	Imports        []string
	Error          *struct{ Err string }
}

// Load reads the packages of the module at dir with the go command, the tests
// behind the build tag e2e included. A package that does not build is loaded as
// far as it goes; one that cannot be read at all is an error.
func Load(ctx context.Context, dir, module string) ([]Package, error) {
	out, err := run(ctx, dir, "list", "-e", "-tags", "e2e",
		"-json=ImportPath,Dir,Name,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Imports,Error", "./...")
	if err != nil {
		return nil, err
	}
	var packages []Package
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read output of go list: %w", err)
		}
		names := slices.Concat(l.GoFiles, l.CgoFiles, l.IgnoredGoFiles, l.TestGoFiles, l.XTestGoFiles)
		if len(names) == 0 {
			if l.Error != nil {
				return nil, fmt.Errorf("load %s: %s", l.ImportPath, l.Error.Err)
			}
			continue
		}
		p := Package{Name: strings.TrimPrefix(l.ImportPath, module+"/"), Imports: l.Imports}
		for _, name := range names {
			f, err := ReadFile(filepath.Join(l.Dir, name))
			if err != nil {
				return nil, err
			}
			p.Files = append(p.Files, f)
		}
		packages = append(packages, p)
	}
}

// ReadFile reads what the check knows of one Go file.
func ReadFile(path string) (File, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("read source: %w", err)
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return File{}, fmt.Errorf("parse source: %w", err)
	}
	f := File{
		Name:       filepath.Base(path),
		Lines:      bytes.Count(src, []byte{'\n'}),
		Generated:  ast.IsGenerated(tree),
		Test:       strings.HasSuffix(path, "_test.go"),
		Command:    tree.Name.Name == "main",
		PackageDoc: tree.Doc.Text(),
	}
	for _, decl := range tree.Decls {
		scan(&f, set, decl)
	}
	slices.Sort(f.Calls)
	f.Calls = slices.Compact(f.Calls)
	return f, nil
}

// scan notes what one declaration does.
func scan(f *File, set *token.FileSet, decl ast.Decl) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if f.GoLine == 0 {
				f.GoLine = set.Position(n.Pos()).Line
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok {
				f.Calls = append(f.Calls, name.Name)
				fn, ok := decl.(*ast.FuncDecl)
				if ok && !slices.Contains(f.CalledBy, Call{From: fn.Name.Name, To: name.Name}) {
					f.CalledBy = append(f.CalledBy, Call{From: fn.Name.Name, To: name.Name})
				}
			}
		case *ast.SelectorExpr:
			if f.SleepLine == 0 && isName(n, "time", "Sleep") {
				f.SleepLine = set.Position(n.Pos()).Line
			}
			if fn, ok := decl.(*ast.FuncDecl); ok && startsBubble(n) {
				f.Bubbles = append(f.Bubbles, fn.Name.Name)
			}
		}
		return true
	})
}

// startsBubble reports whether what is named starts a bubble.
func startsBubble(n *ast.SelectorExpr) bool {
	return isName(n, "synctest", "Test") || isName(n, "testcluster", "Run") || isName(n, "testcluster", "RunSeed")
}

// isName goes by the names alone: nobody imports those packages as another.
func isName(n *ast.SelectorExpr, pkg, name string) bool {
	id, ok := n.X.(*ast.Ident)
	return ok && id.Name == pkg && n.Sel.Name == name
}

// Replacements returns the replace directives of the go.mod in dir.
func Replacements(ctx context.Context, dir string) ([]string, error) {
	out, err := run(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("read output of go mod edit: %w", err)
	}
	var found []string
	for _, r := range mod.Replace {
		found = append(found, r.Old.Path+" => "+r.New.Path)
	}
	return found, nil
}

// run executes the go command in dir and returns its standard output.
func run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run go %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}
