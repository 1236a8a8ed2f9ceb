package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func documents(t *testing.T, c *Collection) []Document {
	t.Helper()
	var out []Document
	for d, err := range c.Documents() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func TestCollectionLayouts(t *testing.T) {
	want := &Collection{
		Queries: []Query{{ID: "q1", Text: "one"}, {ID: "q2", Text: "two"}},
		Qrels:   Qrels{"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 1}},
	}
	docs := []Document{
		{ID: "d1", Title: "First", Text: "alpha", Metadata: map[string]any{"year": int64(9007199254740993), "x": 1.5, "tags": []any{"a", int64(2), nil}}},
		{ID: "d2", Text: "beta"},
	}
	meta := `{"year":9007199254740993,"x":1.5,"tags":["a",2,null]}`
	beir := map[string]string{
		"corpus.jsonl":   `{"_id":"d1","title":"First","text":"alpha","metadata":` + meta + "}\n" + `{"_id":"d2","text":"beta"}` + "\n",
		"queries.jsonl":  `{"_id":"q1","text":"one"}` + "\r\n\r\n" + `{"_id":"q2","text":"two"}`,
		"qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n",
	}
	staged := map[string]string{
		"corpus.jsonl.gz":  `{"id":"d1","title":"First","text":"alpha","metadata":` + meta + "}\n" + `{"id":"d2","text":"beta"}` + "\n",
		"queries.jsonl.gz": `{"id":"q1","text":"one"}` + "\n" + `{"id":"q2","text":"two"}` + "\n",
		"qrels.tsv.gz":     "q1\td1\t2\nq1\td2\t0\nq2\td2\t1\n",
	}
	shared := map[string]string{"corpus.jsonl.gz": staged["corpus.jsonl.gz"], "queries.jsonl": staged["queries.jsonl.gz"], "../qrels.tsv": staged["qrels.tsv.gz"]}
	for name, files := range map[string]map[string]string{"beir": beir, "staged": staged, "shared": shared} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "set")
			for file, content := range files {
				write(t, dir, file, content)
			}
			c, err := OpenCollection(dir)
			if err != nil {
				t.Fatal(err)
			}
			if c.Name != "set" {
				t.Errorf("name %q", c.Name)
			}
			if diff := cmp.Diff(want.Queries, c.Queries); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want.Qrels, c.Qrels); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(docs, documents(t, c)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCollectionBadInput(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenCollection(dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "corpus.jsonl") {
		t.Errorf("empty folder: got %v, want ErrNotExist that names corpus.jsonl", err)
	}
	long := `{"id":"a","text":"` + strings.Repeat("x", maxLineBytes) + `"}`
	for _, c := range []struct{ name, content, want string }{
		{"q.jsonl", "{\"id\":\"a\"}\n{\"id\":\"a\"}\n", ":2: query id \"a\" twice"},
		{"q.jsonl", "{\"id\":\"a\"}\n\n{\"text\":\"b\"}\n", ":3: no \"id\" or \"_id\""},
		{"q.jsonl", "{\"id\":\"a\"", ":1: "},
		{"q.jsonl", "{\"id\":7}", ":1: "},
		{"q.jsonl", "{\"id\":\"a\"} {\"id\":\"b\"}", ":1: more after the object"},
		{"q.jsonl", long, ":1: bufio.Scanner: token too long"},
		{"q.tsv", "q\td\n", ":1: want query TAB document TAB grade"},
		{"q.tsv", "q d 1\n", ":1: want query TAB"},
		{"q.tsv", "q\td\t1\nq\te\thigh\n", ":2: grade \"high\""},
		{"q.tsv", "q\td\t1\nq\td\t2\n", ":2: query \"q\" and document \"d\" have grades 1 and 2"},
	} {
		path := write(t, dir, c.name, c.content)
		var err error
		if strings.HasSuffix(c.name, "tsv") {
			_, err = ReadQrels(path)
		} else {
			_, err = ReadQueries(path)
		}
		if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), path+c.want) {
			t.Errorf("%.40q: got %v, want ErrInput with %q", c.content, err, c.want)
		}
	}
	cut := write(t, dir, "z.jsonl.gz", strings.Repeat("{\"id\":\"a\"}\n", 1000))
	whole, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, whole[:len(whole)-9], 0o666); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range ReadDocuments(cut) {
		last = err
	}
	if !errors.Is(last, ErrInput) {
		t.Errorf("cut .gz: got %v, want ErrInput", last)
	}
	if _, err := ReadQrels(write(t, dir, "no.tsv.gz", "") + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v, want ErrNotExist", err)
	}
	notZip := write(t, dir, "plain", "q\td\t1\n")
	if err := os.Rename(notZip, notZip+".gz"); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadQrels(notZip + ".gz"); !errors.Is(err, ErrInput) {
		t.Errorf("not a .gz: got %v, want ErrInput", err)
	}
}

// The counts of the staged collections, from their README.
func TestStagedCollections(t *testing.T) {
	dir := dataDir(t)
	for _, c := range []struct {
		name                 string
		docs, queries, qrels int
	}{
		{"scifact", 5183, 300, 339}, {"nfcorpus", 3395, 323, 12334}, {"cranfield", 1400, 225, 1837},
		{"xquad/ar", 240, 1190, 1190}, {"piaf", 761, 3835, 3835}, {"jaquad", 11144, 3939, 3939},
	} {
		col, err := OpenCollection(filepath.Join(dir, filepath.FromSlash(c.name)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		qrels := 0
		for _, j := range col.Qrels {
			qrels += len(j)
		}
		if n := len(documents(t, col)); n != c.docs || len(col.Queries) != c.queries || qrels != c.qrels {
			t.Errorf("%s: %d docs, %d queries, %d qrels, want %d, %d, %d", c.name, n, len(col.Queries), qrels, c.docs, c.queries, c.qrels)
		}
	}
}

func FuzzReadQrels(f *testing.F) {
	f.Add("q\td\t1\n")
	f.Add("query-id\tcorpus-id\tscore\nq\td\t-1\r\n")
	f.Fuzz(func(t *testing.T, content string) {
		qrels, err := ReadQrels(write(t, t.TempDir(), "q.tsv", content))
		if err != nil && !errors.Is(err, ErrInput) {
			t.Fatalf("got %v, want ErrInput", err)
		}
		if err != nil && qrels != nil {
			t.Fatal("judgements beside an error")
		}
	})
}
