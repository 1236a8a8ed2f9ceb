package kb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/quarrysearch/quarry/knowledge/embed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wordsEmbedder hashes words into vectors: texts that share words are near.
type wordsEmbedder struct{ name string }

const wordsDim = 64

func (e *wordsEmbedder) Identity() embed.Identity {
	return embed.Identity{Name: e.name, Revision: "1", Dim: wordsDim, Metric: "cosine"}
}

func (e *wordsEmbedder) Embed(ctx context.Context, _ embed.Kind, texts []string) (embed.Result, error) {
	var r embed.Result
	for _, text := range texts {
		v := make([]float32, wordsDim)
		for w := range words(text) {
			v[slot(w)]++
		}
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		for i := range v {
			v[i] = float32(float64(v[i]) / max(1e-9, math.Sqrt(sum)))
		}
		r.Vectors = append(r.Vectors, v...)
	}
	return r, ctx.Err()
}

// Tokens gives each word the vector of its slot.
func (e *wordsEmbedder) Tokens(ctx context.Context, _ embed.Kind, texts []string) ([]embed.TokenVectors, error) {
	var out []embed.TokenVectors
	for _, text := range texts {
		t := embed.TokenVectors{Dim: wordsDim}
		for w := range words(text) {
			v := make([]float32, wordsDim)
			v[slot(w)] = 1
			t.Vectors = append(t.Vectors, v...)
			t.Spans = append(t.Spans, embed.Span{})
		}
		out = append(out, t)
	}
	return out, ctx.Err()
}

func words(text string) func(func(string) bool) {
	return strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func slot(word string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(word))
	return h.Sum64() % wordsDim
}

var errNoModel = errors.New("no model here")

// fake opens a wordsEmbedder of any name but "broken".
func fake(_ context.Context, name, _ string) (embed.Embedder, func() error, error) {
	if strings.Contains(name, "broken") {
		return nil, nil, errNoModel
	}
	return &wordsEmbedder{name}, nil, nil
}

// none fails to open anything.
func none(context.Context, string, string) (embed.Embedder, func() error, error) {
	return nil, nil, errNoModel
}

// result is what a command line did.
type result struct {
	out, err string
	code     int
}

// command runs a command line as the program does.
func command(t testing.TB, open Opener, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	c := struct{ Commands }{Commands{Open: open}}
	exit := -1
	parser, err := kong.New(&c, kong.Name("quarry"), kong.Writers(&out, &errs), kong.Exit(func(code int) { exit = code }),
		kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Vars{"analyzers": "standard, english"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(args)
	if exit >= 0 {
		return result{out.String(), errs.String(), exit}
	}
	if err != nil {
		return result{out.String(), errs.String() + err.Error(), 2}
	}
	if err := k.Run(); err != nil {
		return result{out.String(), errs.String() + err.Error(), 1}
	}
	return result{out.String(), errs.String(), 0}
}

// ok runs a command line that must succeed and returns what it printed.
func ok(t testing.TB, args ...string) string {
	t.Helper()
	r := command(t, fake, args...)
	if r.code != 0 {
		t.Fatalf("quarry %s: exit code %d, %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// fails runs a command line that must fail with one line about it.
func fails(t testing.TB, code int, want string, args ...string) result {
	t.Helper()
	r := command(t, fake, args...)
	if r.code != code || !strings.Contains(r.err, want) {
		t.Errorf("quarry %s: exit code %d, %q; want %d, %q", strings.Join(args, " "), r.code, r.err, code, want)
	}
	if strings.Contains(r.err, "\n") {
		t.Errorf("quarry %s: not one line: %q", strings.Join(args, " "), r.err)
	}
	return r
}

func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func decodeLines[T any](t testing.TB, text string) []T {
	t.Helper()
	var out []T
	for line := range strings.Lines(text) {
		out = append(out, decode[T](t, line))
	}
	return out
}

// library is a folder of made-up documents, by name.
var library = map[string]string{
	"refunds.md": "---\ntitle: Refund policy\ntags: [billing]\n---\n# Refund policy\n\nYou can return any purchase within 30 days and get a full refund.\n\n" +
		"## Exceptions\n\nDigital products are final sale. Gift cards cannot be returned.\n\n## How to ask\n\nWrite to billing with your order number.\n",
	"guide/shipping.html": `<html lang="en"><head><title>Shipping</title></head><body><h1>Shipping</h1><p>Delivery takes three days &amp; is free above 50 euros.</p>` +
		`<h2>Customs</h2><p>The recipient pays customs duty.</p></body></html>`,
	"manual.txt": "Press the green button to start the machine.\n\fPress the red button to stop it.\n\fClean the filter once a month – größer ist nicht besser 🙂.\n",
}

// folder writes documents into a new folder.
func folder(t testing.TB, docs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range docs {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// filled is a store with the base docs, of the library in dir.
func filled(t testing.TB) (store, dir string) {
	t.Helper()
	store, dir = filepath.Join(t.TempDir(), "store"), folder(t, library)
	ok(t, "kb", "create", store, "docs")
	ok(t, "kb", "add", store, "docs", dir)
	return store, dir
}

// shape tells the keys and types of JSON, lists by their first element.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for k, e := range v {
			parts = append(parts, k+": "+shape(e))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	case string:
		return "text"
	case float64:
		return "number"
	case bool:
		return "bool"
	}
	return "null"
}

// TestShapes compares the JSON of the commands with testdata/shapes.txt: what
// scripts read does not go away by accident. QUARRY_UPDATE=1 rewrites the file.
func TestShapes(t *testing.T) {
	store, dir := filled(t)
	write(t, filepath.Join(dir, "broken.pdf"), "no PDF at all")
	write(t, filepath.Join(dir, "logo.png"), "?")
	flow := filepath.Join(t.TempDir(), "w.json")
	write(t, flow, searchFlow)
	var b strings.Builder
	for _, c := range []struct {
		code int
		args []string
	}{
		{0, []string{"kb", "create", store, "faq", "--name", "Questions", "--json"}},
		{1, []string{"kb", "add", store, "docs", dir, "--json"}},
		{0, []string{"kb", "list", store, "--json"}},
		{0, []string{"kb", "list", store, "docs", "--json"}},
		{0, []string{"kb", "search", store, "green button", "--json", "--rerank", "late", "--context", "100"}},
		{0, []string{"kb", "get", store, "docs", "refunds.md", "--json"}},
		{0, []string{"kb", "expand", store, "docs", "refunds.md#00000000", "--after", "1", "--json"}},
		{0, []string{"kb", "disable", store, "docs", "refunds.md", "--json"}},
		{0, []string{"kb", "enable", store, "docs", "refunds.md", "--json"}},
		{0, []string{"kb", "freeze", store, "docs", "--json"}},
		{0, []string{"kb", "prune", store, "docs", "--json"}},
		{0, []string{"kb", "check", store, "docs", "--json"}},
		{0, []string{"chunk", filepath.Join(dir, "manual.txt"), "--json"}},
		{0, []string{"aisearch", "green button", filepath.Join(dir, "manual.txt"), "--json"}},
		{1, []string{"aisearch", "green button", filepath.Join(dir, "nothing.txt"), "--json"}},
		{0, []string{"run", flow, "--store", store, "--var", "user_message=refund", "--trace"}},
		{1, []string{"run", flow, "--var", "user_message=refund"}},
		{0, []string{"kb", "rebuild", store, "docs", "--json"}},
		{0, []string{"kb", "rm", store, "docs", "--json"}},
	} {
		r := command(t, fake, c.args...)
		if r.code != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, r.code, c.code, r.err)
			continue
		}
		line, _, _ := strings.Cut(r.out, "\n")
		name := c.args[0]
		if name == "kb" {
			name += " " + c.args[1]
		}
		fmt.Fprintf(&b, "%s, exit code %d\n    %s\n", name, r.code, shape(decode[any](t, line)))
	}
	golden(t, "shapes.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("QUARRY_UPDATE") != "" {
		write(t, file, got)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the JSON has changed (-testdata/%s +now):\n%s", name, diff)
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []string{"kb create", "kb add", "kb list", "kb search", "kb get", "kb expand", "kb disable", "kb enable", "kb freeze", "kb check",
		"kb rm", "kb prune", "kb rebuild", "chunk", "aisearch", "run"} {
		r := command(t, fake, append(strings.Fields(c), "--help")...)
		if r.code != 0 || strings.Contains(r.out, "${") || !strings.Contains(strings.Join(strings.Fields(r.out), " "), "    quarry "+c) && !strings.Contains(r.out, "quarry "+c+" ") {
			t.Errorf("help of %s, exit code %d:\n%s", c, r.code, r.out)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	store, dir := filepath.Join(t.TempDir(), "s"), folder(t, library)
	for _, c := range []struct {
		want string
		args string
	}{
		{"given both", "kb create S docs --lang de --analyzer english"},
		{"klingon", "kb create S docs --analyzer klingon"},
		{"overlap", "kb create S docs --size 10 --overlap 10"},
		{"size", "chunk F --size 0"},
		{"nothing behind the colon", "kb create S docs --embed openai:"},
		{"no service", "kb create S docs --embed-url http://localhost"},
		{"takes no URL", "kb create S docs --embed none --embed-url http://localhost"},
		{"-k 0", "kb search S x -k 0"},
		{"--min-score 2", "kb search S x --min-score 2"},
		{"--filter", "kb search S x --filter language=="},
		{"--rerank", "kb search S x --rerank cohere"},
		{"--rerank", "kb search S x --rerank magic:1"},
		{"--mode", "kb search S x --mode fuzzy"},
		{"--context", "kb search S x --context=-1"},
		{"-k 0", "aisearch x F -k 0"},
		{"compares vectors", "aisearch x F --embed none"},
		{"--var", "run F --var user_message"},
		{"--reset", "kb rebuild S docs --size 10"},
		{"expected", "kb add S docs"},
		{"format", "kb create S docs --format poem"},
		{"charset", "kb create S docs --charset klingon"},
		{"MaxPages", "kb create S docs --max-pages=-1"},
		{"--version", "kb get S docs x --version 2"},
		{"--before", "kb expand S docs x --before=-1"},
		{"--drop", "kb freeze S docs --drop 1 --list"},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			switch a {
			case "S":
				args[i] = store
			case "F":
				args[i] = filepath.Join(dir, "manual.txt")
			}
		}
		fails(t, 2, c.want, args...)
	}
	fails(t, 2, "nothing to search for", "aisearch", "  ", filepath.Join(dir, "manual.txt"))
	fails(t, 2, "nothing to search for", "kb", "search", store, " ")
	if _, err := os.Stat(store); !errors.Is(err, os.ErrNotExist) {
		t.Error("a wrong command line made a store")
	}
}
