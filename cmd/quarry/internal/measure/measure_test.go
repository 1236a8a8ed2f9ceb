package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bench"
	"github.com/quarrysearch/quarry/cmd/quarry/internal/console"
)

// lines runs a command and reads the JSON lines it prints.
func lines(t *testing.T, run func(context.Context, *console.Console) error) (out []map[string]any) {
	t.Helper()
	var b bytes.Buffer
	if err := run(t.Context(), &console.Console{Stdout: &b, Stderr: &b}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if m["kind"] == "" || m["engine"] != "quarry" {
			t.Errorf("%s: want kind and engine", line)
		}
		out = append(out, m)
	}
	return out
}

// staged writes random vectors and queries, and the flags that name them.
func staged(t *testing.T, rows int) vectorSet {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	random := func(n int) bench.Matrix[float32] {
		m := bench.Matrix[float32]{Dim: 8, Data: make([]float32, n*8)}
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		return m
	}
	dir := filepath.Join(t.TempDir(), "noise")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	v := vectorSet{Base: filepath.Join(dir, "base.fvecs"), Query: filepath.Join(dir, "q.fvecs"), Metric: "cos", M: 16, Construct: 100, K: 10, JSON: true}
	base, queries := random(rows), random(20)
	truth, err := bench.Truth(t.Context(), base, queries, bench.Cosine, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{bench.WriteFvecs(v.Base, base), bench.WriteFvecs(v.Query, queries), bench.WriteIvecs(filepath.Join(dir, "gt.ivecs"), truth)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestFiltered(t *testing.T) {
	c := &filteredCmd{vectorSet: staged(t, 1000), Shares: []float64{20, 0.5}, Anchors: 2, PerCell: 4, Passes: 1, Recall: 0.95}
	out := lines(t, c.Run)
	if len(out) != 6 {
		t.Fatalf("%d lines", len(out))
	}
	for i, l := range out {
		if l["set"] != "noise" || l["recall"].(float64) < 0.95 || l["short"] != 0.0 || l["matches"] != []float64{200, 5}[i/3] || l["best"] == "" || l["exact_us"].(float64) <= 0 ||
			len(l["ways"].(map[string]any)) != 5 || l["chosen"].(map[string]any)["flat"] != 4.0 || l["to_best"].(float64) <= 0 {
			t.Errorf("%v", l)
		}
	}
}

func TestChurn(t *testing.T) {
	c := &churnCmd{vectorSet: staged(t, 600), Rounds: 2, Batch: 100, Queries: 5, Recall: 0.95}
	out := lines(t, c.Run)
	if len(out) != 5 {
		t.Fatalf("%d lines", len(out))
	}
	for _, l := range out {
		if l["live"] != 300.0 || l["recall"] != 1.0 || l["bytes"].(float64) < 300*8 {
			t.Errorf("%v", l)
		}
	}
	if out[3]["state"] != "merged" || out[3]["deleted"] != 0.0 || out[3]["segments"] != 1.0 || out[4]["state"] != "fresh" {
		t.Errorf("%v", out[3:])
	}
}

// An index is built, opened and searched, and asked again when it is cold.
func TestVectorsOpenCold(t *testing.T) {
	v := staged(t, 800)
	dir := filepath.Join(t.TempDir(), "idx")
	c := &vectorsCmd{vectorSet: v, Truth: filepath.Join(filepath.Dir(v.Base), "gt.ivecs"), Ef: []int{20, 100}, Passes: 1, Parallel: []int{1, 2}, Dir: dir}
	out := lines(t, c.Run)
	var kinds []string
	for _, l := range out {
		kinds = append(kinds, l["kind"].(string))
	}
	if got := strings.Join(kinds, " "); got != "build open curve curve parallel parallel" {
		t.Fatal(got)
	}
	if l := out[3]; l["recall"].(float64) < 0.99 || l["distances"].(float64) < 10 || l["p99_us"].(float64) <= 0 || l["m"] != 16.0 {
		t.Errorf("%v", l)
	}
	open := &openCmd{Query: v.Query, Recall: 0.95, JSON: true}
	open.Dir = dir
	out = lines(t, open.Run)
	if len(out) != 2 || out[1]["vectors"] != 800.0 || runtime.GOOS == "linux" && (out[1]["raw_bytes"].(float64) < 800*8*4 || out[1]["resident_bytes"].(float64) < out[1]["raw_bytes"].(float64)) {
		t.Errorf("%v", out)
	}
	if runtime.GOOS != "linux" {
		return
	}
	cold := &coldCmd{Query: v.Query, First: 10, Passes: 2, K: 5, Recall: 0.95, JSON: true}
	cold.Dir = dir
	if out = lines(t, cold.Run); len(out) != 2 || out[0]["queries"] != 10.0 || out[0]["open_ms"].(float64) <= 0 {
		t.Errorf("%v", out)
	}
}

func TestHybrid(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "joined")
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	words := []string{"granite", "basalt", "marble", "slate"}
	rng := rand.New(rand.NewPCG(3, 3))
	m := bench.Matrix[float32]{Dim: 4}
	var rows, corpus strings.Builder
	for i := range 44 {
		for range 4 {
			m.Data = append(m.Data, float32(rng.NormFloat64()))
		}
		fmt.Fprintf(&rows, `{"set":%q,"id":"d%d","start":%d}`+"\n", []string{"stones", "stones", "jaquad"}[i%3], i, i%2)
		fmt.Fprintf(&corpus, `{"id":"d%d","title":"Über %s","text":"stone number %d"}`+"\n", i, words[i%4], i)
	}
	write("joined/rows.jsonl", rows.String())
	write("stones/corpus.jsonl", corpus.String())
	write("jaquad/docs.jsonl", corpus.String())
	base := bench.Matrix[float32]{Dim: 4, Data: m.Data[4*4:]}
	truth, err := bench.Truth(t.Context(), base, m.Head(4), bench.Cosine, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{bench.WriteFvecs(filepath.Join(folder, "base.fvecs"), base), bench.WriteFvecs(filepath.Join(folder, "query.fvecs"), m.Head(4)),
		bench.WriteIvecs(filepath.Join(folder, "gt.ivecs"), truth)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	joined, err := readJoined(folder, root)
	if err != nil {
		t.Fatal(err)
	}
	// From the first character on, with the title; from the second; without it.
	for i, want := range map[int]string{0: "Über granite\nstone number 0", 1: "ber basalt\nstone number 1", 2: "stone number 2"} {
		if joined[i].text != want {
			t.Errorf("row %d: %q, want %q", i, joined[i].text, want)
		}
	}
	c := &hybridCmd{Folder: folder, Metric: "cos", Analyzer: "standard", Mode: []string{"hybrid", "vector"}, Words: 2, Recall: 0.95, Depth: 20, Passes: 1, Threads: 1, K: 10, JSON: true}
	out := lines(t, c.Run)
	if len(out) != 4 {
		t.Fatalf("%v", out)
	}
	if l := out[2]; l["mode"] != "vector" || l["recall"] != 1.0 || l["set"] != "joined" || l["hits"] != 40.0 {
		t.Errorf("%v", l)
	}
	if l := out[1]; l["filter"] != `set = "stones"` || l["hits"].(float64) < 4 {
		t.Errorf("%v", l)
	}
	write("joined/rows.jsonl", rows.String()+"{}\n")
	if err := c.Run(t.Context(), &console.Console{}); err == nil || !strings.Contains(err.Error(), "none of") {
		t.Errorf("a line that names nothing: %v", err)
	}
}

func TestFirstWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"# one, two\n> three":           "one two three",
		"don't stop at 3.14 or a_b now": "don't stop at 3.14 or",
		"1928年昭和3年に":                    "1928 年 昭 和 3",
		"コンピュータの歴史":                     "コンピュータ の 歴 史",
		"end. Of: a sentence":           "end Of a sentence",
		"two  spaces":                   "two spaces",
	} {
		if got := firstWords(text, 5); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
