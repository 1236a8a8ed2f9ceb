package godocs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of a Symbol.
const (
	Package = "package"
	Func    = "func"
	Type    = "type"
	Method  = "method"
	Const   = "const"
	Var     = "var"
)

// A Symbol is one documented thing.
type Symbol struct {
	ID        string // "net/http", "net/http.Client", "net/http.Client.Do"
	Name      string // "http", "Client", "Client.Do"
	Package   string // import path
	Kind      string
	Signature string // source of the declaration, without its body
	Doc       string // plain text
	Minor     int    // it came with Go 1.Minor; -1 when not known
}

// Since is "1.21", or "" when not known.
func (s Symbol) Since() string {
	if s.Minor < 0 {
		return ""
	}
	return "1." + strconv.Itoa(s.Minor)
}

// Version is what GOROOT calls itself, such as "go1.26.1".
func Version(goroot string) (string, error) {
	b, err := os.ReadFile(filepath.Join(goroot, "VERSION"))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("%s: empty", filepath.Join(goroot, "VERSION"))
	}
	return line, nil
}

// Symbols gives the documentation in GOROOT/src, package by package in the order
// of their paths. The first error ends it.
func Symbols(goroot string) iter.Seq2[Symbol, error] {
	return func(yield func(Symbol, error) bool) {
		r, dirs, err := open(goroot)
		if err != nil {
			yield(Symbol{}, err)
			return
		}
		for _, dir := range dirs {
			symbols, err := r.read(dir)
			if err != nil {
				yield(Symbol{}, fmt.Errorf("package %s: %w", dir, err))
				return
			}
			for _, s := range symbols {
				if !yield(s, nil) {
					return
				}
			}
		}
	}
}

type reader struct {
	src   string
	build build.Context
	since since
}

func open(goroot string) (*reader, []string, error) {
	r := &reader{src: filepath.Join(goroot, "src"), build: build.Default}
	r.build.GOROOT = goroot
	// Documentation is the same with cgo and without, but some packages show
	// all they have only with it.
	r.build.CgoEnabled = true
	var err error
	if r.since, err = readSince(goroot); err != nil {
		return nil, nil, err
	}
	var dirs []string
	err = filepath.WalkDir(r.src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.src, path)
		if err != nil {
			return err
		}
		if skipDir(rel) {
			return filepath.SkipDir
		}
		dirs = append(dirs, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(dirs)
	return r, dirs, nil
}

func skipDir(rel string) bool {
	switch filepath.Base(rel) {
	case "internal", "testdata", "vendor":
		return true
	}
	return rel == "cmd" || strings.HasPrefix(filepath.Base(rel), "_")
}

// read reads one package; a folder without one gives nothing.
func (r *reader) read(path string) ([]Symbol, error) {
	dir := filepath.Join(r.src, filepath.FromSlash(path))
	found, err := r.build.ImportDir(dir, 0)
	var none *build.NoGoError
	switch {
	case errors.As(err, &none), path == ".":
		return nil, nil
	case err != nil:
		return nil, err
	case found.Name == "main":
		return nil, nil
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(slices.Values(slices.Concat(found.GoFiles, found.CgoFiles))) {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	mode := doc.Mode(0)
	if path == "builtin" {
		mode = doc.AllDecls // its names are lower case
	}
	p, err := doc.NewFromFiles(fset, files, path, mode)
	if err != nil {
		return nil, err
	}
	c := &collector{reader: r, p: p, fset: fset}
	c.all()
	return c.out, nil
}

// collector gathers the symbols of one package.
type collector struct {
	*reader
	p    *doc.Package
	fset *token.FileSet
	out  []Symbol
}

func (c *collector) all() {
	if c.p.Doc != "" || len(c.p.Funcs)+len(c.p.Types)+len(c.p.Consts)+len(c.p.Vars) > 0 {
		c.add("", Package, nil, c.p.Doc)
	}
	c.values(Const, c.p.Consts)
	c.values(Var, c.p.Vars)
	c.funcs("", Func, c.p.Funcs)
	for _, t := range c.p.Types {
		c.add(t.Name, Type, t.Decl, t.Doc)
		c.values(Const, t.Consts)
		c.values(Var, t.Vars)
		c.funcs("", Func, t.Funcs)
		c.funcs(t.Name+".", Method, t.Methods)
	}
}

func (c *collector) funcs(prefix, kind string, list []*doc.Func) {
	for _, f := range list {
		if f.Level > 0 {
			continue // promoted from an embedded type: documented there
		}
		c.add(prefix+f.Name, kind, f.Decl, f.Doc)
	}
}

// values adds one symbol a name; the names of a group share its comment where
// they have none of their own.
func (c *collector) values(kind string, list []*doc.Value) {
	for _, v := range list {
		for _, spec := range v.Decl.Specs {
			spec, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			text := strings.TrimSpace(spec.Doc.Text() + spec.Comment.Text())
			if text == "" {
				text = v.Doc
			}
			for _, name := range spec.Names {
				if name.IsExported() || c.p.ImportPath == "builtin" {
					c.add(name.Name, kind, spec, text)
				}
			}
		}
	}
}

func (c *collector) add(name, kind string, decl ast.Node, comment string) {
	s := Symbol{ID: c.p.ImportPath, Name: c.p.Name, Package: c.p.ImportPath, Kind: kind, Minor: -1}
	if name != "" {
		s.ID, s.Name = c.p.ImportPath+"."+name, name
	}
	s.Doc = strings.TrimSpace(string(c.p.Text(comment)))
	s.Signature = c.source(decl)
	if minor, ok := c.since[s.ID]; ok {
		s.Minor = minor
	}
	c.out = append(c.out, s)
}

// source is a declaration without body and comment.
func (c *collector) source(decl ast.Node) string {
	switch d := decl.(type) {
	case nil:
		return "package " + c.p.Name
	case *ast.FuncDecl:
		f := *d
		f.Body, f.Doc = nil, nil
		decl = &f
	case *ast.GenDecl:
		g := *d
		g.Doc = nil
		decl = &g
	case *ast.ValueSpec:
		v := *d
		v.Doc, v.Comment = nil, nil
		decl = &v
	}
	var b strings.Builder
	if err := printer.Fprint(&b, c.fset, decl); err != nil {
		return "" // a declaration that cannot be printed is found by its name
	}
	return b.String()
}
