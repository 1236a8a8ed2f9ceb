package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"go/build"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
	"github.com/quarrysearch/quarry/index"
)

// evalReport is what eval --json prints.
type evalReport struct {
	bench.EvalReport
	Analyzer, Model, Fusion, Rerank string
	Truncated                       int
}

func TestBenchVectors(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	random := func(rows int) bench.Matrix[float32] {
		m := bench.Matrix[float32]{Dim: 8, Data: make([]float32, rows*8)}
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	base, queries := random(1500), random(20)
	for _, metric := range []bench.Metric{bench.Cosine, bench.Dot, bench.L2} {
		truth, err := bench.Truth(t.Context(), base, queries.Head(15), metric, 10)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		b, q, gt := filepath.Join(dir, "b.fvecs"), filepath.Join(dir, "q.fvecs"), filepath.Join(dir, "t.ivecs")
		for _, err := range []error{bench.WriteFvecs(b, base), bench.WriteFvecs(q, queries), bench.WriteIvecs(gt, truth)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		args := []string{"bench", "vectors", "--base", b, "--query", q, "--truth", gt, "--metric", metric.String(), "--ef", "10,400", "--passes", "1",
			"--build-threads", "1", "--dir", filepath.Join(dir, "idx"), "--json"}
		for range 2 { // built, then found there
			lines := decodeLines(t, ok(t, args...))
			if len(lines) != 4 || lines[0]["vectors"] != 1500.0 || lines[0]["threads"] != 1.0 || lines[0]["bytes"].(float64) < 1500*8 {
				t.Fatalf("%v: %v", metric, lines)
			}
			if _, ok := lines[1]["open_ms"]; !ok {
				t.Errorf("%v: %v", metric, lines[1])
			}
			last := lines[3]
			if last["engine"] != "quarry" || last["ef"] != 400.0 || last["recall"].(float64) < 0.99 || last["distances"].(float64) < 100 || last["qps"].(float64) < 1 {
				t.Errorf("%v: %v", metric, last)
			}
		}
		if line := decode[map[string]any](t, ok(t, "bench", "open", filepath.Join(dir, "idx"), "--json")); line["open_ms"].(float64) <= 0 {
			t.Errorf("%+v", line)
		}
	}
	fails(t, console.ExitUsage, "missing flags", "bench", "vectors", "--base", "x")
}

func TestBenchText(t *testing.T) {
	var docs strings.Builder
	for i := range 300 {
		fmt.Fprintf(&docs, "the number %d stands here\n", i)
	}
	d, q := writeFile(t, "d.txt.gz", docs.String()), writeFile(t, "q.txt", "number 7\n\nstands here\n")
	for mode, hits := range map[string]float64{"union": 10, "and": 6, "phrase": 6} {
		lines := decodeLines(t, ok(t, "bench", "text", "--docs", d, "--queries", q, "--mode", mode, "--k", "5", "--passes", "1", "--json"))
		if len(lines) != 2 || lines[0]["docs"] != 300.0 || lines[1]["segments"] != 1.0 || lines[1]["hits"] != hits || lines[1]["queries"] != 2.0 {
			t.Errorf("%s: %v", mode, lines)
		}
	}
	line := decodeLines(t, ok(t, "bench", "text", "--docs", d, "--queries", q, "--count", "--passes", "1", "--json"))[1]
	if line["count"] != true || line["k"] != 0.0 || line["hits"] != 600.0 {
		t.Errorf("count: %v", line)
	}
	fails(t, console.ExitUsage, "no analyzer", "bench", "text", "--docs", d, "--queries", q, "--analyzer", "none")
}

// collection writes a small collection in BEIR's layout.
func collectionDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"corpus.jsonl":   "{\"_id\":\"d1\",\"title\":\"Cats\",\"text\":\"The cats of the house\"}\n{\"_id\":\"d2\",\"title\":\"\",\"text\":\"The dogs were running in the garden\"}\n",
		"queries.jsonl":  "{\"_id\":\"q1\",\"text\":\"cat\"}\n{\"_id\":\"q2\",\"text\":\"a dog runs\"}\n{\"_id\":\"q3\",\"text\":\"nothing\"}\n",
		"qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEval(t *testing.T) {
	dir := collectionDir(t)
	run := filepath.Join(t.TempDir(), "out.run")
	r := decode[evalReport](t, ok(t, "eval", "--data", dir, "--run", run, "--json"))
	if r.Analyzer != "english" || r.Docs != 2 || r.EvalReport.Queries != 2 || r.Skipped != 1 || r.NDCG10 != 1 || r.MRR10 != 1 {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(run); err != nil || !strings.HasPrefix(string(b), "q1 Q0 d1 1 ") {
		t.Errorf("%q, %v", b, err)
	}
	v := vectorFile(t, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0) // of both documents, and of three queries
	for _, mode := range []string{"vector", "hybrid"} {
		r := decode[evalReport](t, ok(t, "eval", "--data", dir, "--mode", mode, "--vectors", v, "--query-vectors", v, "--lang", "en", "--json"))
		if r.Mode != mode || r.Recall100 != 1 {
			t.Errorf("%+v", r)
		}
	}
	// All modes on one index, a line each.
	lines := decodeLines(t, ok(t, "eval", "--data", dir, "--mode", "all", "--vectors", v, "--query-vectors", v, "--lang", "en", "--json"))
	if len(lines) != 4 || lines[0]["mode"] != "keyword" || lines[1]["mode"] != "vector" || lines[2]["fusion"] != "rrf" || lines[3]["fusion"] != "weighted" {
		t.Errorf("%v", lines)
	}
	fails(t, console.ExitUsage, "one mode", "eval", "--data", dir, "--mode", "all", "--vectors", v, "--query-vectors", v, "--run", run)
	fails(t, console.ExitUsage, "needs --vectors", "eval", "--data", dir, "--mode", "vector")
	fails(t, console.ExitUsage, "--fields", "eval", "--data", dir, "--fields", "body")
	fails(t, console.ExitFailed, "corpus.jsonl", "eval", "--data", t.TempDir())
}

// One language of a corpus of several, chunks judged as their pages, and the
// queries of another language with judgements of their own.
func TestEvalSelection(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"corpus.jsonl": "{\"id\":\"never\",\"text\":\"read\"}\n",
		"chunks.jsonl": `{"id":"en/a#0","text":"a pump for water","metadata":{"lang":"en","doc":"en/a","tags":["x","y"]}}
{"id":"en/b#0","text":"water and water, a pump","metadata":{"lang":"en","doc":"en/b"}}
{"id":"en/a#1","text":"pump water, water pump","metadata":{"lang":"en","doc":"en/a"}}
{"id":"de/a#0","text":"eine pump im water","metadata":{"lang":"de","doc":"de/a"}}
`,
		"queries.jsonl":   `{"id":"en:1","text":"water pump","metadata":{"lang":"en"}}` + "\n" + `{"id":"de:1","text":"pump","metadata":{"lang":"de"}}` + "\n",
		"qrels.tsv":       "en:1\ten/a\t1\nde:1\tde/a\t1\n",
		"qrels.cross.tsv": "de:1\ten/b\t1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	base := []string{"eval", "--data", dir, "--corpus", "chunks.jsonl", "--by", "doc", "--json", "--analyzer", "standard"}
	r := decode[evalReport](t, ok(t, append(base, "--only", "lang=en")...))
	if r.Docs != 3 || r.EvalReport.Queries != 1 || r.MRR10 != 1 || r.Recall100 != 1 {
		t.Errorf("%+v", r)
	}
	if r := decode[evalReport](t, ok(t, append(base, "--only", "tags=y", "--only-query", "lang=en")...)); r.Docs != 1 || r.MRR10 != 1 {
		t.Errorf("%+v", r)
	}
	if r := decode[evalReport](t, ok(t, append(base, "--only", "lang=en", "--only-query", "lang=de", "--qrels", "qrels.cross.tsv")...)); r.EvalReport.Queries != 1 || r.MRR10 != 0.5 {
		t.Errorf("%+v: two chunks of one page count once", r)
	}
	fails(t, console.ExitFailed, "--by page", "eval", "--data", dir, "--corpus", "chunks.jsonl", "--by", "page")
	fails(t, console.ExitUsage, "KEY=VALUE", "eval", "--data", dir, "--only", "lang")
}

// partOfGOROOT copies some packages of the Go installation: all of them take
// long to embed.
func partOfGOROOT(t *testing.T) string {
	t.Helper()
	root := build.Default.GOROOT
	if _, err := os.Stat(filepath.Join(root, "src", "fmt")); err != nil {
		t.Skip("no GOROOT with sources")
	}
	part := t.TempDir()
	for _, name := range []string{"src/fmt", "src/flag", "src/io", "src/sync", "src/slices", "src/sort", "src/net/http", "api"} {
		to := filepath.Join(part, filepath.FromSlash(name))
		if err := os.MkdirAll(to, 0o777); err != nil {
			t.Fatal(err)
		}
		from := filepath.Join(root, filepath.FromSlash(name))
		entries, err := os.ReadDir(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			data, err := os.ReadFile(filepath.Join(from, e.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, e.Name()), data, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	version, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err == nil {
		err = os.WriteFile(filepath.Join(part, "VERSION"), version, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return part
}

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("embeds a part of GOROOT")
	}
	root := partOfGOROOT(t)
	dir := t.TempDir()
	out := ok(t, "demo", "--goroot", root, "--dir", dir)
	for _, want := range []string{"$ quarry demo ReadAll", "io.ReadAll  (func, since Go 1.16)", "slices.Sort", "flag.Parse", "sync.Once", "kind: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for query, want := range map[string]string{"ReadAll": "io.ReadAll", "readall": "io.ReadAll", "http client do": "net/http.Client.Do", "max bytes reader": "net/http.MaxBytesReader"} {
		r := decode[index.Results](t, ok(t, "demo", query, "--mode", "keyword", "--goroot", root, "--dir", dir, "--json", "-k", "3"))
		if !strings.Contains(ids(r), want) {
			t.Errorf("%s: %s, want %s", query, ids(r), want)
		}
	}
	// By meaning: no word of the question stands in the answer.
	for query, want := range map[string]string{"eine Funktion nur einmal ausführen": "sync.Once", "run something only once": "sync.Once", "parse command line arguments": "flag.Parse"} {
		r := decode[index.Results](t, ok(t, "demo", query, "--goroot", root, "--dir", dir, "--json", "-k", "3"))
		if !strings.Contains(ids(r), want) {
			t.Errorf("%s: %s, want %s", query, ids(r), want)
		}
	}
	r := command(t.Context(), nil, "demo", "x", "--goroot", root, "--dir", dir)
	if r.err != "" {
		t.Errorf("made anew: %s", r.err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	fails(t, console.ExitFailed, "no Go installation", "demo", "x", "--goroot", dir)
	demoServes(t, root, dir)
}

// demoServes asks the page and the API of a demo, and interrupts it.
func demoServes(t *testing.T, root, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, out := io.Pipe()
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		done <- run(ctx, &console.Console{Stdin: strings.NewReader(""), Stdout: out, Stderr: &errs}, []string{"demo", "run once", "--serve", "--goroot", root, "--dir", dir})
	}()
	address := ""
	for lines := bufio.NewScanner(in); address == "" && lines.Scan(); {
		_, address, _ = strings.Cut(lines.Text(), "The page is at ")
	}
	base, query, _ := strings.Cut(address, "?")
	if query != "q=run+once" {
		t.Fatalf("address %q", address)
	}
	page, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Body.Close()
	if b, err := io.ReadAll(page.Body); err != nil || page.StatusCode != http.StatusOK || !strings.Contains(string(b), "<html") {
		t.Errorf("page: %s, %v", page.Status, err)
	}
	r, err := http.Post(base+"v1/collections/go/search", "application/json", strings.NewReader(`{"query": "run something only once", "k": 3}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(b), "sync.Once") {
		t.Errorf("search: %s, %v", b, err)
	}
	cancel()
	if code := <-done; code != console.ExitOK {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// dataDir is the folder of staged data.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	return dir
}

func TestStagedFiori(t *testing.T) {
	data := filepath.Join(dataDir(t), "fiori-docs")
	dir := filepath.Join(t.TempDir(), "idx")
	vectors := filepath.Join(data, "embeddings.f32")
	args := []string{"import", dir, filepath.Join(data, "records.jsonl.gz"), "--text", "title:english^2,content:english", "--vector-file", "minilm=" + vectors,
		"--dim", "384", "--meta", "category,lastModified:time,wordCount", "--json-field", "tags=tags_json", "--json"}
	if sum := decode[importSummary](t, ok(t, args...)); sum.Documents != 778 {
		t.Fatalf("%+v", sum)
	}
	filter := `category = "Btp Fiori Tools" and tags contains any ["CLI", "deployment"] and lastModified >= 2026-01-01`
	query := []string{dir, "deploy to cloud foundry", "--vector-file", vectors, "--row", "3", "--filter", filter, "--facet", "tags", "--fields", "category,tags,lastModified"}
	r := search(t, query...)
	if len(r.Hits) == 0 || r.Hits[0].Kind != index.ScoreRRF || r.Hits[0].Keyword == nil || r.Hits[0].Vector == nil {
		t.Fatalf("%+v", r)
	}
	for _, h := range r.Hits {
		if h.Fields["category"] != "Btp Fiori Tools" || h.Fields["lastModified"].(string) < "2026" {
			t.Errorf("%s does not pass the filter: %v", h.ID, h.Fields)
		}
	}
	ok(t, args...) // again: nothing changes
	ok(t, "merge", dir)
	if again := search(t, query...); cmp.Diff(r, again) != "" {
		t.Error("another answer after a second import and a merge", cmp.Diff(r, again))
	}
	if r := search(t, dir, "--vector-file", vectors, "--row", "5", "-k", "1"); r.Hits[0].Score < 0.9999 {
		t.Errorf("a document's own vector finds %+v", r.Hits[0])
	}
	ok(t, "check", dir)
}

func TestStagedTldr(t *testing.T) {
	if testing.Short() {
		t.Skip("imports 38,404 documents")
	}
	file := filepath.Join(dataDir(t), "tldr", "docs.jsonl.gz")
	dir := filepath.Join(t.TempDir(), "idx")
	sum := decode[importSummary](t, ok(t, "import", dir, file, "--meta", "*,created:time,updated:time", "--json"))
	if sum.Documents != 38404 {
		t.Fatalf("%+v", sum)
	}
	t.Logf("%.1f MB of text a second", sum.MBPerS)
	query := []string{dir, "archive", "--filter", `lang = "de" and platform in [linux, common] and created >= 2020-01-01`, "--facet", "platform", "--fields", "lang,platform"}
	r := search(t, query...)
	sum2 := 0
	for _, f := range r.Facets["platform"] {
		sum2 += f.Count
	}
	if len(r.Hits) == 0 || sum2 != r.Total {
		t.Fatalf("%d hits, facets add up to %d of %d", len(r.Hits), sum2, r.Total)
	}
	for _, h := range r.Hits {
		if p := h.Fields["platform"]; h.Fields["lang"] != "de" || p != "linux" && p != "common" {
			t.Errorf("%s: %v", h.ID, h.Fields)
		}
	}
	if again := search(t, query...); cmp.Diff(r, again) != "" {
		t.Error(cmp.Diff(r, again))
	}
	langs := search(t, dir, "--facet", "lang:100")
	if langs.Total != 38404 || len(langs.Facets["lang"]) != 39 {
		t.Errorf("%d languages of %d documents", len(langs.Facets["lang"]), langs.Total)
	}
}
