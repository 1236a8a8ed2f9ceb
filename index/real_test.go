package index

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// stagedDocs returns the lines of a staged collection, or skips.
func stagedDocs(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set: no staged data")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("staged data: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var tldrSchema = Schema{
	Text: []TextField{{Name: "title", Boost: 3}, {Name: "text"}},
	Meta: map[string]filter.Type{"created": filter.Time, "updated": filter.Time},
}

// importTLDR parses and applies the pages in batches of 1,000 and returns the
// number of pages and the bytes of their text.
func importTLDR(t testing.TB, ix *Index, lines []byte) (pages, text int) {
	t.Helper()
	sc := bufio.NewScanner(bytes.NewReader(lines))
	sc.Buffer(nil, 1<<24)
	b := NewBatch()
	apply := func() {
		if err := ix.Apply(bg, b); err != nil {
			t.Fatal(err)
		}
		b.Reset()
	}
	for sc.Scan() {
		var p struct {
			ID, Title, Text string
			Metadata        map[string]any
		}
		if err := json.Unmarshal(sc.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		text += len(p.Title) + len(p.Text)
		pages++
		b.Put(Document{ID: p.ID, Text: map[string]string{"title": p.Title, "text": p.Text}, Meta: p.Metadata})
		if b.Len() == 1000 {
			apply()
		}
	}
	apply()
	return pages, text
}

func TestTLDR(t *testing.T) {
	lines := stagedDocs(t, "tldr/docs.jsonl.gz")
	if testing.Short() {
		lines = lines[:bytes.LastIndexByte(lines[:1<<22], '\n')+1]
	}
	fs := storage.NewMemFS()
	ix, err := Open("/tldr", &Options{FS: fs, Schema: &tldrSchema, MutableBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := importTLDR(t, ix, lines)
	count := func(f filter.Filter) int {
		n, err := ix.Count(bg, f)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	counts := func() string {
		return fmt.Sprint(count(filter.Filter{}), count(filter.Eq("lang", "de")), count(filter.Eq("platform", "linux")),
			count(filter.Gte("created", "2024-01-01")), count(filter.And(filter.Eq("lang", "fr"), filter.Gt("examples", 4))))
	}
	want := counts()
	if n := count(filter.Filter{}); n != pages {
		t.Fatalf("%d of %d pages", n, pages)
	}
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	if ix, err = Open("/tldr", &Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	if got := counts(); got != want {
		t.Errorf("after reopening %s, before %s", got, want)
	}
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	if got := counts(); got != want {
		t.Errorf("after the merge %s, before %s", got, want)
	}
	if rep, err := Check(bg, "/tldr", fs, true); err != nil || rep.Documents != pages {
		t.Errorf("%+v %v", rep, err)
	}
}

// BenchmarkImportTLDR parses the pages from JSON and applies them in batches
// of 1,000, each synced.
func BenchmarkImportTLDR(b *testing.B) {
	lines := stagedDocs(b, "tldr/docs.jsonl.gz")
	var cpu float64
	text := 0
	for b.Loop() {
		start := cpuSeconds()
		ix, err := Open(b.TempDir(), &Options{Schema: &tldrSchema})
		if err != nil {
			b.Fatal(err)
		}
		_, text = importTLDR(b, ix, lines)
		if err := ix.Flush(bg); err != nil {
			b.Fatal(err)
		}
		if err := ix.Close(); err != nil {
			b.Fatal(err)
		}
		cpu += cpuSeconds() - start
	}
	b.SetBytes(int64(text))
	b.ReportMetric(float64(text)*float64(b.N)/cpu/1e6, "MB/core-s")
}
