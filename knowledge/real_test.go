package knowledge

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/storage"
)

// dataFile reads the lines of a staged file.
func dataFile(t testing.TB, name string, line func(string)) {
	t.Helper()
	dir := os.Getenv("QUARRY_DATA")
	if dir == "" {
		t.Skip("QUARRY_DATA is not set")
	}
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
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
		line(sc.Text())
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

// difyDocs ingests the pages of the given languages, a base each.
func difyDocs(t testing.TB, e embed.Embedder, langs []string) *Store {
	t.Helper()
	pages := make(map[string][]Source)
	dataFile(t, "dify-docs/docs.jsonl.gz", func(line string) {
		var d struct{ ID, Title, Text string }
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		lang, _, _ := strings.Cut(d.ID, "/")
		pages[lang] = append(pages[lang], Source{Name: d.ID + ".md", Title: d.Title, Data: []byte(d.Text)})
	})
	s := openMem(t, storage.NewMemFS(), Options{Embedder: e})
	for _, lang := range langs {
		mustCreate(t, s, lang, nil)
		rep := mustIngest(t, s, IngestRequest{Base: lang, Sources: pages[lang]})
		t.Logf("%s: %d pages, %d chunks, %.1f s, %.1f s of them the encoder's, %d failed", lang, rep.Added, rep.Chunks, rep.Seconds, rep.EmbedSeconds, len(rep.Failed))
		if rep.Added != len(pages[lang]) {
			t.Errorf("%s: %+v", lang, rep.Failed)
		}
	}
	return s
}

// difyQuality is the mean nDCG@10 of the known-item queries of languages, over
// pages: the best chunk of a page is the page's.
func difyQuality(t testing.TB, s *Store, bases []string, r Request) float64 {
	t.Helper()
	relevant := make(map[string]map[string]bool)
	dataFile(t, "dify-docs/qrels.tsv.gz", func(line string) {
		f := strings.Split(line, "\t")
		if relevant[f[0]] == nil {
			relevant[f[0]] = make(map[string]bool)
		}
		relevant[f[0]][f[1]+".md"] = true
	})
	if r.TopK == 0 {
		r.TopK = 60
	}
	sum, n := 0.0, 0
	dataFile(t, "dify-docs/queries.jsonl.gz", func(line string) {
		var q struct{ ID, Text string }
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			t.Fatal(err)
		}
		lang, _, _ := strings.Cut(q.ID, ":")
		for _, b := range bases {
			if b == lang {
				r.Bases, r.Query, r.Depth = bases, q.Text, 200
				res := mustSearch(t, s, r)
				sum += ndcg(res.Items, relevant[q.ID])
				n++
			}
		}
	})
	return sum / float64(n)
}

func ndcg(items []Item, relevant map[string]bool) float64 {
	got, ideal := 0.0, 0.0
	for i := range min(len(relevant), 10) {
		ideal += 1 / math.Log2(float64(i)+2)
	}
	seen := make(map[string]bool)
	for _, it := range items {
		doc := it.Metadata.DocumentID
		if seen[doc] {
			continue
		}
		if len(seen) == 10 {
			break
		}
		if relevant[doc] {
			got += 1 / math.Log2(float64(len(seen))+2)
		}
		seen[doc] = true
	}
	return got / ideal
}

// Three bases of three languages, searched together by keyword.
func TestDifyDocs(t *testing.T) {
	langs := []string{"en", "ja", "zh"}
	s := difyDocs(t, nil, langs)
	for _, lang := range langs {
		mustCheck(t, s, lang)
	}
	q := difyQuality(t, s, langs, Request{Mode: Keyword})
	t.Logf("nDCG@10 by keyword: %.4f", q)
	if q < 0.70 {
		t.Errorf("nDCG@10 %.4f", q)
	}
}

// A PDF of hundreds of pages: every chunk on its page, by the per-page reference.
func TestDebianReferencePages(t *testing.T) {
	pages := make(map[int]string)
	dataFile(t, "debian-reference/en/pages.jsonl.gz", func(line string) {
		var p struct {
			Page int
			Text string
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatal(err)
		}
		pages[p.Page] = p.Text
	})
	if testing.Short() {
		t.Skip("a PDF of hundreds of pages takes seconds")
	}
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	file := filepath.Join(os.Getenv("QUARRY_DATA"), "debian-reference", "en", "debian-reference.en.pdf")
	rep := mustIngest(t, s, IngestRequest{Base: "kb", Files: []File{{Path: file}}})
	d, err := s.Document(t.Context(), "kb", "debian-reference.en.pdf")
	if err != nil {
		t.Fatal(err, rep)
	}
	t.Logf("%d pages, %d chunks, %.1f s", d.Pages, d.Chunks, rep.Seconds)
	if d.Pages != len(pages) {
		t.Errorf("%d pages, the reference has %d", d.Pages, len(pages))
	}
	mustCheck(t, s, "kb")
	words, found := 0, 0
	for _, q := range []string{"apt package management", "systemd unit", "network configuration", "encrypted disk", "locale"} {
		for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: q, Mode: Keyword, TopK: 20}).Items {
			text := ""
			for p := it.Metadata.Page; p <= max(it.Metadata.Page, it.Metadata.PageEnd); p++ {
				text += pages[p] + "\n"
			}
			for _, w := range strings.Fields(it.Content) {
				if len(w) > 4 {
					words++
					if strings.Contains(text, w) {
						found++
					}
				}
			}
		}
	}
	if words == 0 || float64(found) < 0.9*float64(words) {
		t.Errorf("%d of %d words are on the page that is cited", found, words)
	}
	t.Logf("%d of %d words are on the page that is cited", found, words)
}
