// Package judge measures an analyzer on a staged collection with the engine.
package judge

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bm25/analysis"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/storage"
)

// A Set is a collection below QUARRY_DATA: its folder, that of its judgments,
// and every how many queries to ask.
type Set struct {
	Folder, Judgments string
	Nth               int
}

// MRR returns the mean reciprocal rank of the first right hit among ten, 0 for
// none. It skips the test when there is no data.
func MRR(t *testing.T, a *analysis.Analyzer, set Set) float64 {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	ctx := context.Background()
	ix, err := index.Open("/judged", &index.Options{
		FS: storage.NewMemFS(), Analyzers: []*analysis.Analyzer{a},
		Schema: &index.Schema{Text: []index.TextField{{Name: "text", Analyzer: a.Name()}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	b := index.NewBatch()
	lines(t, filepath.Join(dir, set.Folder, "corpus.jsonl.gz"), func(line []byte) {
		var d struct{ ID, Title, Text string }
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatal(err)
		}
		b.Put(index.Document{ID: d.ID, Text: map[string]string{"text": d.Title + "\n" + d.Text}})
	})
	if err := ix.Apply(ctx, b); err != nil {
		t.Fatal(err)
	}
	right := map[string]bool{}
	judged := map[string]bool{}
	lines(t, filepath.Join(dir, set.Judgments, "qrels.tsv.gz"), func(line []byte) {
		f := strings.Split(string(line), "\t")
		right[f[0]+"\t"+f[1]] = f[2] != "0"
		judged[f[0]] = true
	})
	n, asked, sum := 0, 0, 0.0
	lines(t, filepath.Join(dir, set.Folder, "queries.jsonl.gz"), func(line []byte) {
		var q struct{ ID, Text string }
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		if n++; !judged[q.ID] || n%set.Nth != 0 {
			return
		}
		asked++
		r, err := ix.Search(ctx, index.Query{K: 10, Text: &index.TextQuery{Text: q.Text}})
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range r.Hits {
			if right[q.ID+"\t"+h.ID] {
				sum += 1 / float64(i+1)
				break
			}
		}
	})
	return sum / float64(max(asked, 1))
}

func lines(t *testing.T, path string, fn func(line []byte)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		fn(sc.Bytes())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}
