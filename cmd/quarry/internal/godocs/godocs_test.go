package godocs

import (
	"errors"
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseAPI(t *testing.T) {
	for line, want := range map[string][2]string{
		"pkg net/http, method (*Client) Do(*Request) (*Response, error) #1": {"net/http", "Client.Do"},
		"pkg net/http, method (Header) Get(string) string":                  {"net/http", "Header.Get"},
		"pkg syscall (linux-amd64), const AF_ALG = 38":                      {"syscall", "AF_ALG"},
		"pkg cmp, func Compare[$0 Ordered]($0, $0) int #59488":              {"cmp", "Compare"},
		"pkg io, type Reader interface { Read }":                            {"io", "Reader"},
		"pkg io, type Reader interface, Read([]uint8) (int, error)":         {"io", "Reader"},
		"pkg net/http, type Server struct, ErrorLog *log.Logger":            {"net/http", ""},
		"pkg net/http, type Server struct":                                  {"net/http", "Server"},
		"pkg atomic, method (*Pointer[$0]) Load() *$0":                      {"atomic", "Pointer.Load"},
		"pkg io, var EOF error":                                             {"io", "EOF"},
		"# comment":                                                         {"", ""},
		"":                                                                  {"", ""},
		"pkg x":                                                             {"", ""},
	} {
		if pkg, symbol := parseAPI(line); pkg != want[0] || symbol != want[1] {
			t.Errorf("%s: %q %q, want %q", line, pkg, symbol, want)
		}
	}
}

// write makes a GOROOT of its own.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSymbols(t *testing.T) {
	root := write(t, map[string]string{
		"VERSION":        "go1.99.1\ntime 2026-01-01T00:00:00Z\n",
		"api/go1.txt":    "pkg p, func Old() int\npkg p, type T struct\n",
		"api/go1.9.txt":  "pkg p, method (*T) M(int)\npkg p, func Old() int\n",
		"api/except.txt": "pkg p, func New()\n",
		"src/p/p.go": `// Package p does it.
package p

// Limits.
const (
	A = 1 // the first
	B = 2
	c = 3
)

// Old is old.
func Old() int { return 1 }

// New is new.
func New[K comparable](k K) {}

func hidden() {}

// T is a type.
type T struct {
	X int
	y int
}

// NewT makes one.
func NewT() *T { return nil }

// M does.
func (t *T) M(n int) {}
`,
		"src/p/internal/q/q.go": "package q\n\nfunc Q() {}\n",
		"src/p/testdata/x.go":   "not Go",
		"src/cmd/x/x.go":        "package main\n",
		"src/empty/README":      "",
	})
	if v, err := Version(root); v != "go1.99.1" || err != nil {
		t.Error(v, err)
	}
	var got []string
	for s, err := range Symbols(root) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.ID+"|"+s.Kind+"|"+s.Since()+"|"+strings.Join(strings.Fields(s.Signature), " ")+"|"+s.Doc)
	}
	want := []string{
		"p|package|1.0|package p|Package p does it.",
		"p.A|const||A = 1|the first",
		"p.B|const||B = 2|Limits.",
		"p.New|func||func New[K comparable](k K)|New is new.",
		"p.Old|func|1.0|func Old() int|Old is old.",
		"p.T|type|1.0|type T struct { X int // contains filtered or unexported fields }|T is a type.",
		"p.NewT|func||func NewT() *T|NewT makes one.",
		"p.T.M|method|1.9|func (t *T) M(n int)|M does.",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func TestSymbolsErrors(t *testing.T) {
	root := write(t, map[string]string{"src/p/p.go": "package p\n\nfunc {\n"})
	failed := false
	for _, err := range Symbols(root) {
		failed = err != nil && strings.Contains(err.Error(), "package p")
	}
	if !failed {
		t.Error("a file that does not parse went by")
	}
	if _, err := Version(root); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestGOROOT reads the real thing.
func TestGOROOT(t *testing.T) {
	if testing.Short() {
		t.Skip("reads all of GOROOT")
	}
	root := build.Default.GOROOT
	if _, err := os.Stat(filepath.Join(root, "src", "fmt")); err != nil {
		t.Skip("no GOROOT with sources")
	}
	seen := map[string]Symbol{}
	for s, err := range Symbols(root) {
		if err != nil {
			t.Fatal(err)
		}
		if old, twice := seen[s.ID]; twice {
			t.Errorf("%s twice: %s and %s", s.ID, old.Kind, s.Kind)
		}
		seen[s.ID] = s
	}
	if len(seen) < 5000 {
		t.Errorf("only %d symbols", len(seen))
	}
	for id, kind := range map[string]string{"io": Package, "io.ReadAll": Func, "net/http.Client.Do": Method, "strings.Builder": Type, "io.EOF": Var, "math.Pi": Const, "builtin.append": Func} {
		if s := seen[id]; s.Kind != kind || s.Doc == "" {
			t.Errorf("%s: kind %q, %d bytes of documentation", id, s.Kind, len(s.Doc))
		}
	}
	if _, err := os.Stat(filepath.Join(root, "api", "go1.txt")); err == nil && seen["io.ReadAll"].Since() != "1.16" {
		t.Errorf("io.ReadAll since %q", seen["io.ReadAll"].Since())
	}
}
