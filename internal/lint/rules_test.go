package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of style.
const (
	maxFileLines     = 600
	maxFunctionLines = 70
	maxPackageFiles  = 16 // without tests and generated files
)

// arrows names, for a folder and those below it that have no entry, the folders
// of ours it may import; an entry covers what lies below it likewise. A folder
// may import what lies under its own entry. What is not listed is forbidden, and
// a folder under no entry does not belong in the tree.
var arrows = map[string][]string{
	"internal/invariants": {},
	"internal/simd":       {},
	"internal/hugepage":   {},
	"internal/writeback":  {},
	"internal/bitpack":    {},
	"internal/lint":       {},
	"fusion":              {},
	"storage":             {"internal/writeback", "internal/invariants"},
	"bm25/analysis":       {"storage", "internal/invariants"},
	"bm25/pattern":        {"storage"},
	"bm25/score":          {},
	"bm25/sparse":         {"storage", "internal/bitpack", "internal/invariants"},
	"bm25":                {"bm25/pattern", "bm25/score", "storage", "internal/simd", "internal/bitpack", "internal/invariants"},
	"hnsw/quant":          {"storage", "internal/simd", "internal/bitpack", "internal/invariants"},
	"hnsw":                {"hnsw/quant", "storage", "internal/simd", "internal/hugepage", "internal/bitpack", "internal/invariants"},
	"index/filter":        {"storage", "internal/invariants"},
	"index/keyword":       {"bm25", "bm25/analysis", "bm25/pattern", "storage"},
	"index/querystring":   {"index/keyword", "bm25"},
	"index":               {"index/filter", "index/keyword", "index/querystring", "bm25", "bm25/pattern", "bm25/analysis", "bm25/sparse", "hnsw", "hnsw/quant", "fusion", "storage", "internal/invariants"},
	"knowledge/parse":     {"storage", "internal/invariants"},
	"knowledge/chunk":     {"storage", "bm25/analysis", "internal/invariants"},
	"knowledge/embed":     {"storage", "internal/simd", "internal/invariants"},
	"knowledge/rerank":    {"knowledge/embed", "storage", "internal/simd", "internal/invariants"},
	"knowledge/aisearch":  {"knowledge/chunk", "knowledge/embed", "knowledge/rerank", "fusion", "storage", "internal/simd", "internal/invariants"},
	"knowledge/catalog":   {"storage", "internal/invariants"},
	"knowledge/chat":      {"knowledge/embed", "storage", "internal/invariants"},
	"knowledge/research":  {"knowledge/chat", "bm25/analysis", "fusion", "storage", "internal/invariants"},
	"knowledge/space":     {"knowledge", "knowledge/catalog", "knowledge/research", "knowledge/embed", "knowledge/rerank", "index", "index/filter", "fusion", "storage", "internal/invariants"},
	"knowledge/workflow":  {"knowledge", "knowledge/aisearch", "knowledge/catalog", "knowledge/chat", "knowledge/chunk", "knowledge/embed", "knowledge/rerank", "knowledge/space", "index", "index/filter", "storage", "internal/invariants"},
	"knowledge":           {"knowledge/parse", "knowledge/chunk", "knowledge/embed", "knowledge/rerank", "collection", "index", "index/filter", "bm25/analysis", "fusion", "storage", "internal/invariants"},
	"collection":          {"index", "index/filter", "index/keyword", "bm25/analysis", "bm25/sparse", "hnsw/quant", "storage"},
	"cluster/testcluster": {},
	"cluster":             {"collection", "index", "index/filter", "index/keyword", "index/querystring", "bm25", "bm25/analysis", "bm25/sparse", "hnsw/quant", "fusion", "storage"},
	"bench":               {"knowledge", "knowledge/aisearch", "knowledge/space", "index", "index/filter", "bm25", "bm25/analysis", "hnsw", "hnsw/quant", "fusion", "storage"},
	"cmd":                 {"bench", "cluster", "collection", "knowledge", "knowledge/aisearch", "knowledge/catalog", "knowledge/chat", "knowledge/research", "knowledge/space", "knowledge/workflow", "knowledge/parse", "knowledge/chunk", "knowledge/embed", "knowledge/rerank", "index", "index/filter", "index/keyword", "bm25/analysis", "bm25/sparse", "fusion", "storage", "internal/simd"},
}

// testArrows are what tests may import besides.
var testArrows = map[string][]string{
	"bm25":               {"bm25/analysis"},                                // real tokens
	"cluster":            {"cluster/testcluster"},                          // nodes
	"knowledge/workflow": {"cluster", "cluster/testcluster", "collection"}, // the seed's workflow on a cluster
	"cmd":                {"cluster/testcluster"},                          // nodes
	"index/querystring":  {"bm25/analysis"},                                // what is parsed can be built
	"knowledge/space":    {"knowledge/chunk", "knowledge/chat"},            // chunks of one line, models that count
}

// banned imports and why.
var banned = map[string]string{
	"C":                           "no cgo",
	"log":                         "the library does not log (an optional *slog.Logger may be given)",
	"math/rand":                   "use math/rand/v2",
	"io/ioutil":                   "use io and os",
	"github.com/stretchr/testify": "use testing and go-cmp",
}

// unsafeIn are the folders that may import unsafe: kernels, and views of mapped
// arrays whose length and alignment were checked.
// Package analysis and index/segment view strings as bytes, to pass text on
// without a copy.
var unsafeIn = map[string]bool{
	"internal/simd": true, "internal/bitpack": true, "bm25": true, "bm25/analysis": true, "hnsw": true, "hnsw/quant": true,
	"storage": true, "index/filter": true, "index/segment": true,
}

// panicsIn are the functions, as file:function, that may panic, and why. Input
// never makes the library panic.
var panicsIn = map[string]string{
	"storage/errors.go:*":       "passes on a panic that is no fault of a mapped file",
	"storage/segment.go:Retain": "use after release would read unmapped memory",
	"storage/docs_writer.go:*":  "options that are constants of the package",
}

// fileRules look at one file.
var fileRules = []struct {
	name   string
	goOnly bool
	check  func(*source) []string
}{
	{"arrows", true, checkArrows},
	{"banned imports", true, checkBanned},
	{"file length", false, checkFileLength},
	{"function length", true, checkFunctionLength},
	{"init", true, checkInit},
	{"panic", true, checkPanic},
	{"skips have a reason", true, checkSkip},
	{"exported names have comments", true, checkExported},
	{"text", false, checkText},
	{"machine paths", false, checkPaths},
	{"unfinished work", false, checkUnfinished},
}

// treeRules look at all files together.
var treeRules = []struct {
	name  string
	check func([]*source) []string
}{
	{"package size", checkPackageSize},
	{"package comment", checkPackageComment},
}

// entry is the longest key of m that is dir or a folder above it.
func entry(m map[string][]string, dir string) (string, bool) {
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := m[d]; ok {
			return d, true
		}
	}
	return "", false
}

func importPath(s *ast.ImportSpec) string {
	p, err := strconv.Unquote(s.Path.Value)
	if err != nil {
		return s.Path.Value
	}
	return p
}

func checkArrows(s *source) (out []string) {
	from, ok := entry(arrows, s.dir())
	if !ok {
		return []string{s.at(1, "folder %s is not in the layout (arrows in internal/lint)", s.dir())}
	}
	for _, spec := range s.ast.Imports {
		target, ours := strings.CutPrefix(importPath(spec), module+"/")
		if !ours {
			continue
		}
		to, ok := entry(arrows, target)
		allowed := ok && (to == from || slices.Contains(arrows[from], to) || s.isTest() && slices.Contains(testArrows[from], to))
		if !allowed {
			out = append(out, s.at(s.line(spec.Pos()), "%s may not import %s (it may import: %s)", from, target, strings.Join(arrows[from], ", ")))
		}
	}
	return out
}

func checkBanned(s *source) (out []string) {
	for _, spec := range s.ast.Imports {
		p := importPath(spec)
		for _, name := range slices.Sorted(maps.Keys(banned)) {
			if p == name || strings.HasPrefix(p, name+"/") && strings.Contains(name, ".") {
				out = append(out, s.at(s.line(spec.Pos()), "import of %s: %s", p, banned[name]))
			}
		}
		if p == "unsafe" && !unsafeIn[s.dir()] {
			out = append(out, s.at(s.line(spec.Pos()), "import of unsafe outside %s", strings.Join(slices.Sorted(maps.Keys(unsafeIn)), ", ")))
		}
	}
	return out
}

func checkFileLength(s *source) []string {
	if !s.isGo() || s.generated() || s.foreign {
		return nil
	}
	n := strings.Count(string(s.data), "\n")
	if n > maxFileLines {
		return []string{s.at(n, "%d lines, at most %d: one idea a file", n, maxFileLines)}
	}
	return nil
}

func checkFunctionLength(s *source) (out []string) {
	if s.isTest() || s.generated() {
		return nil
	}
	for _, d := range s.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.line(fn.End()) - s.line(fn.Pos()) + 1; n > maxFunctionLines {
			out = append(out, s.at(s.line(fn.Pos()), "function %s has %d lines, at most %d", fn.Name.Name, n, maxFunctionLines))
		}
	}
	return out
}

func checkInit(s *source) (out []string) {
	for _, d := range s.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
			out = append(out, s.at(s.line(fn.Pos()), "func init: no work before main and no registry"))
		}
	}
	return out
}

func checkPanic(s *source) (out []string) {
	if s.isTest() {
		return nil
	}
	for _, d := range s.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		name := "*"
		if ok {
			name = fn.Name.Name
		}
		if panicsIn[s.name+":"+name] != "" || panicsIn[s.name+":*"] != "" {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
					out = append(out, s.at(s.line(call.Pos()), "panic in %s: return an error, or list it with its reason (panicsIn in internal/lint)", name))
				}
			}
			return true
		})
	}
	return out
}

func checkSkip(s *source) (out []string) {
	if !s.isTest() {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if ok && (sel.Sel.Name == "SkipNow" || sel.Sel.Name == "Skip") && len(call.Args) == 0 {
			out = append(out, s.at(s.line(call.Pos()), "test skipped without a reason"))
		}
		return true
	})
	return out
}

// checkExported wants a comment on each exported declaration of a package that
// can be imported; one comment may serve a whole const or var group.
func checkExported(s *source) (out []string) {
	if s.isTest() || s.ast.Name.Name == "main" || s.generated() {
		return nil
	}
	missing := func(pos token.Pos, name string) {
		out = append(out, s.at(s.line(pos), "exported %s has no comment", name))
	}
	for _, d := range s.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) && !standardMethod[d.Name.Name] {
				missing(d.Pos(), d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						missing(spec.Pos(), spec.Name.Name)
					}
				case *ast.ValueSpec:
					if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
						missing(spec.Pos(), spec.Names[0].Name)
					}
				}
			}
		}
	}
	return out
}

// standardMethod are methods whose meaning an interface of the standard library
// has already told.
var standardMethod = map[string]bool{
	"Error": true, "Unwrap": true, "Is": true, "String": true, "Len": true, "Less": true, "Swap": true, "Close": true, "Read": true, "Write": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
}

func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return true
	}
	name := ""
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return ast.IsExported(name)
}

// checkText wants UTF-8 with \n line ends, no control characters but tabs, no
// space at a line's end, and a line end at the file's end.
func checkText(s *source) (out []string) {
	if strings.Contains(s.name, "testdata/") {
		return nil // may hold anything on purpose
	}
	if !s.valid() {
		return []string{s.at(1, "not UTF-8")}
	}
	for n, line := range s.lines {
		switch {
		case slices.Contains(line, '\r'):
			out = append(out, s.at(n, "carriage return"))
		case slices.ContainsFunc(line, func(b byte) bool { return b < ' ' && b != '\t' || b == 0x7F }):
			out = append(out, s.at(n, "control character"))
		case strings.TrimRight(string(line), " \t") != string(line):
			out = append(out, s.at(n, "space at the end of the line"))
		case strings.ContainsAny(string(line), "\u200b\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"):
			out = append(out, s.at(n, "invisible or direction-changing character: write it as an escape"))
		}
	}
	if len(s.data) > 0 && s.data[len(s.data)-1] != '\n' {
		out = append(out, s.at(strings.Count(string(s.data), "\n")+1, "no line end at the end of the file"))
	}
	return out
}

// The patterns are put together so that this file does not match them.
var (
	machinePath = regexp.MustCompile(`(?:^|[^\w.*)\]}-])/(?:` + strings.Join([]string{"work", "tmp", "root", `home/\w+`, `Users/\w+`}, "|") + `)/`)
	unfinished  = regexp.MustCompile(`\b(?:` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"}, "|") + `)\b`)
)

func checkPaths(s *source) (out []string) {
	for n, line := range s.lines {
		if m := machinePath.Find(line); m != nil {
			out = append(out, s.at(n, "path of one machine: %s (use a relative path, t.TempDir or os.UserCacheDir)", m))
		}
	}
	return out
}

func checkUnfinished(s *source) (out []string) {
	if strings.Contains(s.name, "testdata/") {
		return nil
	}
	for n, line := range s.lines {
		if m := unfinished.Find(line); m != nil {
			out = append(out, s.at(n, "%s: finish it or file an issue", m))
		}
	}
	return out
}

func checkPackageSize(tree []*source) (out []string) {
	count := map[string]int{}
	for _, s := range tree {
		if s.ast != nil && !s.isTest() && !s.generated() {
			count[s.dir()]++
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(count)) {
		if count[dir] > maxPackageFiles {
			out = append(out, dir+":1: "+strconv.Itoa(count[dir])+" files without tests, at most "+strconv.Itoa(maxPackageFiles)+": split the package")
		}
	}
	return out
}

func checkPackageComment(tree []*source) (out []string) {
	has := map[string]bool{}
	for _, s := range tree {
		if s.ast != nil && !s.isTest() {
			has[s.dir()] = has[s.dir()] || s.ast.Doc != nil
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(has)) {
		if !has[dir] {
			out = append(out, dir+":1: no file has a package comment (doc.go)")
		}
	}
	return out
}
