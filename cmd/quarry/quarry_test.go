package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
)

// result is what a command line did.
type result struct {
	out, err string
	code     int
}

// command runs a command line.
func command(ctx context.Context, stdin io.Reader, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, &console.Console{Stdin: stdin, Stdout: &out, Stderr: &errs}, args)
	return result{out.String(), errs.String(), code}
}

// ok runs a command line that must succeed and returns what it printed.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t.Context(), strings.NewReader(""), args...)
	if r.code != console.ExitOK {
		t.Fatalf("quarry %s: exit code %d, %s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// fails runs a command line that must fail with one line about it.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	r := command(t.Context(), strings.NewReader(""), args...)
	if r.code != code || !strings.Contains(r.err, want) {
		t.Errorf("quarry %s: exit code %d, %q; want %d, %q", strings.Join(args, " "), r.code, r.err, code, want)
	}
	if lines := strings.Count(r.err, "\n"); lines > 2 || strings.Contains(r.err, "quarry: quarry:") {
		t.Errorf("quarry %s: not one clear line: %q", strings.Join(args, " "), r.err)
	}
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// decodeLines reads JSON lines.
func decodeLines(t *testing.T, text string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(text) {
		out = append(out, decode[map[string]any](t, line))
	}
	return out
}

// search runs a search and forgets how long it took.
func search(t *testing.T, args ...string) index.Results {
	t.Helper()
	r := decode[index.Results](t, ok(t, append([]string{"search", "--json"}, args...)...))
	r.Elapsed = 0
	return r
}

func ids(r index.Results) string {
	var out []string
	for _, h := range r.Hits {
		out = append(out, h.ID)
	}
	return strings.Join(out, " ")
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	data := []byte(content)
	if strings.HasSuffix(name, ".gz") {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// corpus generates n lines of documents with text, metadata and 4 dimensions.
func corpus(n int) string {
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}
	var b strings.Builder
	for i := range n {
		var text []string
		for range 5 + rng.IntN(10) {
			text = append(text, words[min(rng.IntN(6), rng.IntN(6))])
		}
		fmt.Fprintf(&b, `{"id":"d%04d","title":"Document %d","text":%q,"v":[%.3f,%.3f,%.3f,1],"tags_json":"[\"t%d\",\"all\"]","metadata":{"n":%d,"lang":"%s","created":"20%02d-01-02"}}`+"\n",
			i, i, strings.Join(text, " "), rng.Float64(), rng.Float64(), rng.Float64(), i%7, i, []string{"de", "en"}[i%2], i%20)
	}
	return b.String()
}

// imported makes an index of the generated corpus.
func imported(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "idx")
	ok(t, "import", dir, writeFile(t, "c.jsonl.gz", corpus(n)), "--vector", "v:4", "--meta", "*,created:time", "--json-field", "tags=tags_json", "--batch", "100")
	return dir
}

func vectorFile(t *testing.T, rows ...float32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q.fvecs")
	if err := bench.WriteFvecs(path, bench.Matrix[float32]{Dim: 4, Data: rows}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportAndSearch(t *testing.T) {
	dir := imported(t, 500)
	q := vectorFile(t, 1, 0, 0, 1, 0, 1, 0, 1)
	hybrid := []string{dir, "zeta", "--vector-file", q, "--row", "1", "--filter", `lang = "de" and tags contains any ["t1", "t2"] and created >= 2005-01-01`,
		"--facet", "tags:3", "--fields", "n,created"}
	r := search(t, hybrid...)
	if len(r.Hits) != 10 || r.Hits[0].Kind != index.ScoreRRF || r.Total < 10 || len(r.Facets["tags"]) != 3 {
		t.Fatalf("%d hits of %d, facets %v", len(r.Hits), r.Total, r.Facets)
	}
	if again := search(t, hybrid...); cmp.Diff(r, again) != "" {
		t.Error("another answer after opening again", cmp.Diff(r, again))
	}
	for _, h := range r.Hits {
		n := int(h.Fields["n"].(float64))
		if n%2 != 0 || n%7 != 1 && n%7 != 2 || n%20 < 5 {
			t.Errorf("%s does not pass the filter", h.ID)
		}
	}
	if r := search(t, dir, "--filter", "n < 3"); ids(r) != "d0000 d0001 d0002" || r.Total != 3 {
		t.Errorf("by filter: %s of %d", ids(r), r.Total)
	}
	first := search(t, dir, "alpha", "-k", "3")
	rest := search(t, dir, "alpha", "-k", "3", "--after", first.Next)
	both := search(t, dir, "alpha", "-k", "6")
	if ids(first)+" "+ids(rest) != ids(both) {
		t.Errorf("pages %s and %s are not %s", ids(first), ids(rest), ids(both))
	}
	if r := search(t, dir, "alpha beta", "--mode", "keyword", "--phrase", "--vector-file", q); len(r.Hits) == 0 || r.Hits[0].Kind != index.ScoreKeyword {
		t.Error("no phrase found")
	}
	if r := search(t, dir, "--vector-file", q); len(r.Hits) != 10 || r.Hits[0].Kind != index.ScoreCosine {
		t.Error("no vectors found")
	} else {
		least := fmt.Sprint(r.Hits[3].Vector.Raw)
		if in := search(t, dir, "--vector-file", q, "--within", least, "--exact"); ids(in) != ids(index.Results{Hits: r.Hits[:4]}) {
			t.Errorf("within %s: %s", least, ids(in))
		}
		if in := search(t, dir, "alpha", "--vector-file", q, "--mode", "vector", "--within", "1.5"); len(in.Hits) != 0 {
			t.Errorf("within 1.5: %s", ids(in))
		}
		fails(t, console.ExitUsage, "--within", "search", dir, "alpha", "--within", "0.5")
	}
	if r := search(t, dir, "gam", "--prefix", "--no-count"); len(r.Hits) == 0 || r.Total != -1 {
		t.Error("prefix")
	}
}

func TestSearchForReading(t *testing.T) {
	dir := imported(t, 200)
	out := ok(t, "search", dir, "epsilon", "-k", "2", "--facet", "lang", "--fields", "*", "--explain", "--why", "d0001")
	for _, want := range []string{"  1  0.", "Document ", "epsilon", "lang\n", "  de", "2 of ", "next page: --after ", "plan: 200 of 200", "idf", "d0001: ", "     n: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("an escape without a terminal")
	}
	var colored bytes.Buffer
	if code := run(t.Context(), &console.Console{Stdout: &colored, Stderr: io.Discard, Color: true}, []string{"search", dir, "epsilon"}); code != 0 || !strings.Contains(colored.String(), "\x1b[1mepsilon\x1b[0m") {
		t.Errorf("no match in bold: %q", colored.String())
	}
}

func TestGetAndDelete(t *testing.T) {
	dir := imported(t, 100)
	d := decode[index.Document](t, ok(t, "get", dir, "d0003", "--json", "--vectors"))
	if d.ID != "d0003" || d.Text["title"] != "Document 3" || len(d.Vectors["v"]) != 4 || d.Meta["created"] != "2003-01-02T00:00:00Z" {
		t.Errorf("%+v", d)
	}
	fails(t, console.ExitFailed, `document "nope"`, "get", dir, "nope")
	if out := ok(t, "delete", dir, "--where", `lang = "de"`, "--dry-run"); out != "50 documents would be deleted\n" {
		t.Error(out)
	}
	if out := ok(t, "delete", dir, "--where", `lang = "de"`); out != "50 documents deleted\n" {
		t.Error(out)
	}
	if out := ok(t, "delete", dir, "d0001", "d0001", "d0000", "nope", "--json"); out != "{\"deleted\":1,\"dry_run\":false}\n" {
		t.Error(out)
	}
	if r := search(t, dir, "--filter", "n >= 0", "-k", "100"); r.Total != 49 {
		t.Errorf("%d left", r.Total)
	}
	if out := ok(t, "delete", dir, "d0001,d0003"); out != "0 documents deleted\n" {
		t.Error("an id with a comma was taken apart", out)
	}
	fails(t, console.ExitUsage, "either ids or --where", "delete", dir)
}

func TestInspectCheckBackupMerge(t *testing.T) {
	dir := imported(t, 300)
	copied := filepath.Join(t.TempDir(), "copy")
	ok(t, "backup", dir, copied)
	fails(t, console.ExitFailed, "not empty", "backup", dir, copied)
	if a, b := search(t, dir, "zeta"), search(t, copied, "zeta"); cmp.Diff(a.Hits, b.Hits) != "" {
		t.Error("the backup answers otherwise")
	}
	ok(t, "delete", dir, "d0007")
	if out := ok(t, "merge", dir); !strings.Contains(out, "segments: 1") || !strings.Contains(out, "299 documents") {
		t.Error(out)
	}
	in := decode[map[string]any](t, ok(t, "inspect", dir, "--json"))
	files := in["files"].([]any)
	if len(files) != 1 || len(files[0].(map[string]any)["sections"].([]any)) < 5 {
		t.Errorf("%v", in)
	}
	out := ok(t, "inspect", dir, "--sections")
	for _, want := range []string{"299 documents", "title", "cosine 4", "text/text/dict", "terms", "no graph"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := ok(t, "check", dir); !strings.Contains(out, "full check: 299 documents, no damage found") {
		t.Error(out)
	}
	segment := filepath.Join(dir, files[0].(map[string]any)["name"].(string))
	data, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x10
	if err := os.WriteFile(segment, data, 0o666); err != nil {
		t.Fatal(err)
	}
	fails(t, console.ExitFailed, "is damaged, problems: 1", "check", dir)
	ok(t, "check", dir, "--quick")
	if r := command(t.Context(), nil, "check", dir, "--json"); len(decode[index.CheckReport](t, r.out).Problems) != 1 {
		t.Error(r.out)
	}
}

// TestMergeUpgrade: what an older build wrote is written anew, once.
func TestMergeUpgrade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "old")
	z, err := zip.OpenReader(filepath.Join("..", "..", "index", "testdata", "format-1.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	before := ok(t, "inspect", dir)
	if out := ok(t, "merge", dir, "--upgrade", "--json"); strings.Contains(out, `"upgraded":0`) {
		t.Error(out)
	}
	if out := ok(t, "merge", dir, "--upgrade", "--json"); !strings.Contains(out, `"upgraded":0`) {
		t.Error(out)
	}
	documents := regexp.MustCompile(`[0-9,]+ documents`)
	if a, b := documents.FindString(before), documents.FindString(ok(t, "check", dir)); a == "" || a != b {
		t.Errorf("%q before, %q after", a, b)
	}
}

func TestReadsBesideAWriter(t *testing.T) {
	dir := imported(t, 50)
	ix, err := index.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	if r := search(t, dir, "alpha"); len(r.Hits) == 0 {
		t.Error("nothing found beside a writer")
	}
	ok(t, "inspect", dir)
	ok(t, "check", dir)
	fails(t, console.ExitFailed, "locked by another writer", "merge", dir)
}

func TestImportBadLines(t *testing.T) {
	lines := `{"id":"a","text":"one","v":[1,2]}
not JSON
{"id":"b","text":"two","v":[1,2,3]}

{"id":"c","text":"three","v":[0,0]}
{"id":"","text":"four"}
{"id":"e","text":"five","v":[1,2],"metadata":{"n":1}}
{"id":"f","text":"six","metadata":{"n":"one"}}
{"id":"g","text":"seven"}`
	file := writeFile(t, "bad.jsonl", lines)
	dir := filepath.Join(t.TempDir(), "idx")
	fails(t, console.ExitFailed, file+":2: not a JSON object", "import", dir, file, "--vector", "v:2")
	r := command(t.Context(), nil, "import", dir, file, "--vector", "v:2", "--skip-bad", "--json")
	sum := decode[importSummary](t, r.out)
	if r.code != 0 || sum.Documents != 3 || sum.Bad != 5 || sum.Lines != 9 {
		t.Errorf("%+v, %s", sum, r.err)
	}
	for _, line := range []string{":2: ", ":3: ", ":5: ", ":6: ", ":8: "} {
		if !strings.Contains(r.err, "skipped "+file+line) {
			t.Errorf("line %s is not reported in\n%s", line, r.err)
		}
	}
	if r := search(t, dir, "--filter", "n = 1 or not exists n"); ids(r) != "a e g" {
		t.Errorf("in the index are %s", ids(r))
	}
}

// cutReader gives its text and then interrupts.
type cutReader struct {
	io.Reader
	cut context.CancelFunc
}

func (c *cutReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		c.cut()
		time.Sleep(10 * time.Millisecond)
	}
	return n, err
}

func TestImportResumes(t *testing.T) {
	text := corpus(1000)
	for _, sync := range []string{"always", "never", "50ms"} {
		dir := filepath.Join(t.TempDir(), "idx")
		ctx, cancel := context.WithCancel(t.Context())
		in := &cutReader{strings.NewReader(text[:len(text)*2/3]), cancel}
		r := command(ctx, in, "import", dir, "-", "--batch", "50", "--sync", sync)
		if r.code != console.ExitFailed || !strings.Contains(r.err, "--resume") {
			t.Fatalf("%s: exit code %d, %s", sync, r.code, r.err)
		}
		if _, err := os.Stat(dir + ".import.json"); err != nil {
			t.Fatal(err)
		}
		r = command(t.Context(), strings.NewReader(text), "import", dir, "-", "--resume", "--json", "--sync", sync)
		sum := decode[importSummary](t, r.out)
		if r.code != 0 || sum.ResumedFrom < 50 || sum.ResumedFrom+sum.Documents != 1000 {
			t.Errorf("%s: %+v, %s", sync, sum, r.err)
		}
		if r := search(t, dir, "--filter", "n >= 0"); r.Total != 1000 {
			t.Errorf("%s: %d documents", sync, r.Total)
		}
		if _, err := os.Stat(dir + ".import.json"); err == nil {
			t.Error("a finished import left its checkpoint")
		}
	}
}

// TestInterrupt ends other commands with one line.
func TestInterrupt(t *testing.T) {
	dir := imported(t, 20)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := command(ctx, nil, "search", dir, "alpha"); r.code != console.ExitFailed || r.err != "quarry: interrupted\n" {
		t.Errorf("%+v", r)
	}
}

func TestImportKeepsSchema(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "idx")
	file := writeFile(t, "c.jsonl", `{"id":"a","body":"running dogs","extra":"x"}`)
	ok(t, "import", dir, file, "--text", "body:english^2")
	ok(t, "import", dir, file) // by the stored schema
	if r := search(t, dir, "run"); ids(r) != "a" {
		t.Error("not found by the stored analyzer")
	}
	ok(t, "import", dir, file, "--text", "body,extra")
	if r := search(t, dir, "x"); ids(r) != "a" {
		t.Error("the added field is not searched")
	}
	fails(t, console.ExitFailed, "stored analyzer", "import", dir, file, "--text", "body:german")
	fails(t, console.ExitUsage, `no analyzer "klingon"`, "import", dir, file, "--text", "body:klingon")
	fails(t, console.ExitUsage, "needs --lang", "import", dir, file, "--analyzer", "auto")
	ok(t, "import", filepath.Join(t.TempDir(), "x"), file, "--lang", "de", "--text", "body")
}

func TestImportVectorFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "idx")
	file := writeFile(t, "c.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n")
	v := vectorFile(t, 1, 0, 0, 0, 0, 1, 0, 0)
	ok(t, "import", dir, file, "--vector-file", "e="+v)
	if r := search(t, dir, "--vector-file", v, "--row", "1"); ids(r) != "b a" {
		t.Error(ids(r))
	}
	fails(t, console.ExitFailed, "has 2 rows, this is line 3", "import", dir, file, file, "--vector-file", "e="+v)
}

func TestSparse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "idx")
	lines := `{"id":"a","text":"river bank","sparse":{"s":{"7":0.5,"12":1}}}
{"id":"b","text":"old bank","sparse":{"s":{"indices":[12,7],"values":[0.25,2]}}}
{"id":"c","text":"bank"}
`
	ok(t, "import", dir, writeFile(t, "c.jsonl", lines), "--sparse", "s")
	if r := search(t, dir, "--sparse", `{"7":1,"12":1}`); ids(r) != "b a" || r.Hits[0].Kind != index.ScoreSparse || r.Hits[0].Sparse.Raw != 2.25 || r.Total != 2 {
		t.Errorf("%s %+v", ids(r), r.Hits)
	}
	if r := search(t, dir, "river", "--sparse", `{"indices":[7],"values":[1]}`, "--weights", "1,3"); ids(r) != "b a" && ids(r) != "a b" || r.Hits[0].Kind != index.ScoreRRF {
		t.Errorf("%s %+v", ids(r), r.Hits)
	}
	if out := ok(t, "get", dir, "b", "--json"); !strings.Contains(out, `"sparse":{"s":{"7":2,"12":0.25}}`) {
		t.Error(out)
	}
	ok(t, "merge", dir)
	if out := ok(t, "inspect", dir); !strings.Contains(out, "sparse s: 2 documents, 2 terms, 4 postings") {
		t.Error(out)
	}
	ok(t, "import", dir, writeFile(t, "d.jsonl", `{"id":"d","sparse":{"s":{"7":9}}}`)) // the field is known by now
	if r := search(t, dir, "--sparse", `{"7":1}`, "--sparse-field", "s"); ids(r) != "d b a" {
		t.Error(ids(r))
	}
	fails(t, console.ExitFailed, "weight -1 of term 7", "search", dir, "--sparse", `{"7":-1}`)
	fails(t, console.ExitFailed, `no sparse field "x"`, "search", dir, "--sparse", `{"7":1}`, "--sparse-field", "x")
	fails(t, console.ExitFailed, `sparse field "s"`, "import", dir, writeFile(t, "e.jsonl", `{"id":"e","sparse":{"s":[1]}}`))
}

func TestErrors(t *testing.T) {
	dir := imported(t, 20)
	empty := t.TempDir()
	q := vectorFile(t, 1, 0, 0, 1)
	fails(t, console.ExitUsage, "unexpected argument", "bogus")
	fails(t, console.ExitUsage, "unknown flag", "search", dir, "--bogus")
	fails(t, console.ExitUsage, "nothing to search for", "search", dir)
	fails(t, console.ExitUsage, "needs --vector-file", "search", dir, "x", "--mode", "hybrid")
	fails(t, console.ExitUsage, "want 2", "search", dir, "x", "--vector-file", q, "--weights", "1")
	fails(t, console.ExitUsage, "above 0", "search", dir, "x", "--vector-file", q, "--weights", "0,1")
	fails(t, console.ExitUsage, "--row 1", "search", dir, "--vector-file", q, "--row", "1")
	fails(t, console.ExitUsage, "--facet", "search", dir, "x", "--facet", "lang:many")
	fails(t, console.ExitFailed, "k 0", "search", dir, "x", "-k", "0", "--no-count")
	if out := ok(t, "search", dir, "x", "-k", "0"); !strings.Contains(out, "0 of ") {
		t.Errorf("-k 0 counts: %q", out)
	}
	fails(t, console.ExitFailed, "at byte", "search", dir, "x", "--filter", "n = ")
	fails(t, console.ExitFailed, `"nope": unknown field`, "search", dir, "x", "--filter", "nope = 1")
	fails(t, console.ExitFailed, `"nope"`, "search", dir, "x", "--fields", "nope")
	fails(t, console.ExitFailed, `no vector field "nope"`, "search", dir, "--vector-file", q, "--vector-field", "nope")
	fails(t, console.ExitFailed, "no index in", "search", empty, "x")
	fails(t, console.ExitFailed, "no index", "check", filepath.Join(empty, "none"))
	fails(t, console.ExitFailed, "no index", "merge", filepath.Join(empty, "none"))
	if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
		t.Error("a failed command wrote something", names, err)
	}
	fails(t, console.ExitFailed, "none", "import", dir, filepath.Join(empty, "none"))
	fails(t, console.ExitUsage, "--sync", "import", dir, "-", "--sync", "often")
	fails(t, console.ExitUsage, "--vector", "import", dir, "-", "--vector", "v")
	fails(t, console.ExitUsage, "is none of cosine", "import", dir, "-", "--vector", "v:4:hamming")
	fails(t, console.ExitUsage, "is none of keyword", "import", dir, "-", "--meta", "a:date")
	fails(t, console.ExitUsage, "boost", "import", dir, "-", "--text", "title^0")
	fails(t, console.ExitFailed, "schema conflict: vector field", "import", dir, "-", "--vector", "v:5")
}

func TestVersionAndHelp(t *testing.T) {
	v := decode[versionInfo](t, ok(t, "version", "--json"))
	if v.Go == "" || v.SIMD == "" || !strings.Contains(ok(t, "version"), "simd "+v.SIMD) {
		t.Errorf("%+v", v)
	}
	commands := [][]string{{}, {"import"}, {"search"}, {"get"}, {"delete"}, {"inspect"}, {"check"}, {"backup"}, {"merge"}, {"eval"}, {"bench", "vectors"},
		{"bench", "text"}, {"bench", "open"}, {"demo"}, {"version"}}
	t.Setenv("COLUMNS", "100")
	for _, c := range commands {
		out := ok(t, append(c, "--help")...)
		if !strings.Contains(out, "Usage: quarry") || strings.Contains(out, "${") {
			t.Errorf("help of %v:\n%s", c, out)
		}
	}
	if help, none := ok(t, "--help"), ok(t); help != none {
		t.Error("no command is not --help")
	}
}

// TestFlags compares commands, arguments and flags with testdata/flags.txt: what
// scripts use does not go away by accident. QUARRY_UPDATE=1 rewrites the file.
func TestFlags(t *testing.T) {
	var c cli
	parser, err := newParser(t.Context(), &console.Console{Stdout: io.Discard, Stderr: io.Discard}, &c, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, node := range parser.Model.Leaves(false) {
		b.WriteString(node.FullPath())
		for _, arg := range node.Positional {
			fmt.Fprintf(&b, " %s", strings.ReplaceAll(arg.Summary(), " ", ""))
		}
		var flags []string
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				flags = append(flags, "--"+f.Name)
			}
		}
		slices.Sort(flags)
		fmt.Fprintf(&b, " %s\n", strings.Join(flags, " "))
	}
	file := filepath.Join("testdata", "flags.txt")
	if os.Getenv("QUARRY_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("flags have changed (-testdata/flags.txt +now):\n%s", diff)
	}
}
