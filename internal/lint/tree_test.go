package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// module is the path every import of ours starts with.
const module = "github.com/quarrysearch/quarry"

// A source is one text file of the tree.
type source struct {
	name    string // slash-separated, from the module's root
	data    []byte
	foreign bool // testdata, an underscore folder or another module: text rules only

	fset *token.FileSet
	ast  *ast.File // nil unless a Go file that is not foreign
}

func (s *source) dir() string     { return path.Dir(s.name) }
func (s *source) isTest() bool    { return strings.HasSuffix(s.name, "_test.go") }
func (s *source) isGo() bool      { return strings.HasSuffix(s.name, ".go") }
func (s *source) generated() bool { return s.ast != nil && ast.IsGenerated(s.ast) }

// at is where a finding points.
func (s *source) at(line int, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.name, line, fmt.Sprintf(format, args...))
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// newSource parses a Go file; a file that does not parse is one finding.
func newSource(name string, data []byte, foreign bool) (*source, error) {
	s := &source{name: name, data: data, foreign: foreign, fset: token.NewFileSet()}
	if foreign || !s.isGo() {
		return s, nil
	}
	var err error
	s.ast, err = parser.ParseFile(s.fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// moduleRoot is the nearest folder upward with a go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the working folder")
		}
		dir = up
	}
}

// textFile tells the files held to text rules; the rest (data, built programs)
// is not read.
func textFile(name string) bool {
	switch path.Ext(name) {
	case ".go", ".s", ".h", ".md", ".mod", ".yml", ".yaml", ".sh", ".txt", ".json", ".java", ".py", ".sql":
		return true
	}
	switch path.Base(name) {
	case "LICENSE", ".gitignore", ".gitattributes", "run":
		return true
	}
	return false
}

// readTree reads every text file of the module.
func readTree(t *testing.T) []*source {
	t.Helper()
	root := moduleRoot(t)
	var out []*source
	foreignDirs := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if d.Name() == ".git" || name == "data" {
				return filepath.SkipDir
			}
			_, notModule := os.Stat(filepath.Join(p, "go.mod"))
			foreignDirs[name] = name != "." && (foreignDirs[path.Dir(name)] || notModule == nil ||
				d.Name() == "testdata" || strings.HasPrefix(d.Name(), "_"))
			return nil
		}
		if !d.Type().IsRegular() || !textFile(name) {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		s, err := newSource(name, data, foreignDirs[path.Dir(name)])
		if err != nil {
			t.Errorf("%v", err)
		}
		if err == nil {
			out = append(out, s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d files below %s: not the tree", len(out), root)
	}
	return out
}

// TestTree holds every rule on the whole tree.
func TestTree(t *testing.T) {
	tree := readTree(t)
	for _, r := range fileRules {
		t.Run(r.name, func(t *testing.T) {
			for _, s := range tree {
				if r.goOnly && s.ast == nil {
					continue
				}
				for _, finding := range r.check(s) {
					t.Error(finding)
				}
			}
		})
	}
	for _, r := range treeRules {
		t.Run(r.name, func(t *testing.T) {
			for _, finding := range r.check(tree) {
				t.Error(finding)
			}
		})
	}
}

// lines yields the lines of a file with their numbers, from 1.
func (s *source) lines(yield func(int, []byte) bool) {
	n := 0
	for line := range bytes.Lines(s.data) {
		n++
		if !yield(n, bytes.TrimSuffix(line, []byte("\n"))) {
			return
		}
	}
}

func (s *source) valid() bool { return utf8.Valid(s.data) }
