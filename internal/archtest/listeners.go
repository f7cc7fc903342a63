package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// Listener is something of Hearth that accepts bytes from outside, with the
// fuzz targets that throw hostile ones at it.
type Listener struct {
	Name string
	// Opens is the package whose code opens it.
	Opens string
	// Fuzz lists "package.FuzzTarget".
	Fuzz []string
}

// Listeners are all of Hearth's. A package that opens one and is not here, or
// a target that does not exist, fails the check.
func Listeners() []Listener {
	return []Listener{
		{"gRPC of a master", "masterd", []string{"rpc.FuzzClusterListener", "rpc.FuzzWorkerSessionsListener", "rpc.FuzzDriverSessionsListener", "rpc.FuzzPeerListener"}},
		{"Raft of a master", "masterd", []string{"raftnode.FuzzListener", "raftnode.FuzzHello"}},
		{"HTTP of a master", "masterd", []string{"masterd.FuzzHTTP"}},
		{"gossip of masters and workers", "gossip", []string{"gossip.FuzzHostileFrames", "gossip.FuzzTags"}},
		{"gRPC of a worker", "workerd", []string{"rpc.FuzzWorkerListener"}},
		{"HTTP of a worker", "workerd", []string{"workerd.FuzzHTTP"}},
		{"control socket of a worker", "workerd", []string{"workerd.FuzzControl"}},
		{"socket of a keeper", "workerd/keeper", []string{"workerd/keeper.FuzzServerConnection", "workerd/keeper.FuzzFrame"}},
		{"gRPC of a driver", "driver", []string{"rpc.FuzzExecutorsListener", "rpc.FuzzExecutorFrames", "rpc.FuzzContentListener", "driver.FuzzListener"}},
	}
}

// CheckListeners parses the module below root and returns a line for each
// package that opens a listener without an entry, and for each entry whose
// package opens none or whose fuzz target is missing.
func CheckListeners(root string, listeners []Listener, exempt []string) ([]string, error) {
	opens, targets, err := scanListeners(root)
	if err != nil {
		return nil, err
	}
	var out []string
	named := make(map[string]bool)
	for _, l := range listeners {
		named[l.Opens] = true
		if len(opens[l.Opens]) == 0 {
			out = append(out, fmt.Sprintf("%s: package %s opens no listener any more: mend Listeners()", l.Name, l.Opens))
		}
		if len(l.Fuzz) == 0 {
			out = append(out, l.Name+": no fuzz target: every listener needs one")
		}
		for _, f := range l.Fuzz {
			if !targets[f] {
				out = append(out, fmt.Sprintf("%s: fuzz target %s does not exist", l.Name, f))
			}
		}
	}
	for pkg, where := range opens {
		if !named[pkg] && !slices.Contains(exempt, pkg) {
			out = append(out, fmt.Sprintf("%s: package %s opens a listener that is not in Listeners(): add it with a fuzz target", where[0], pkg))
		}
	}
	slices.Sort(out)
	return out, nil
}

// scanListeners finds, for each package, the calls that open a listener
// (net.Listen…, or Listen of something from package net), and all fuzz targets.
func scanListeners(root string) (opens map[string][]string, targets map[string]bool, err error) {
	opens, targets = make(map[string][]string), make(map[string]bool)
	fset := token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		scanFile(fset, filepath.ToSlash(rel), file, strings.HasSuffix(path, "_test.go"), opens, targets)
		return nil
	})
	return opens, targets, err
}

func scanFile(fset *token.FileSet, pkg string, file *ast.File, test bool, opens map[string][]string, targets map[string]bool) {
	usesNet := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"net"` })
	ast.Inspect(file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			if test && x.Recv == nil && strings.HasPrefix(x.Name.Name, "Fuzz") {
				targets[pkg+"."+x.Name.Name] = true
			}
		case *ast.CallExpr:
			sel, ok := x.Fun.(*ast.SelectorExpr)
			if ok && !test && usesNet && strings.HasPrefix(sel.Sel.Name, "Listen") && sel.Sel.Name != "Listener" {
				opens[pkg] = append(opens[pkg], fset.Position(x.Pos()).String())
			}
		}
		return true
	})
}
