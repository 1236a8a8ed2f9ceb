package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

func TestS1_6_ItemShape(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 32)})
	mustCreate(t, s, "kb", nil)
	if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "anything"}); mustJSON(t, res.Items) != "[]" || mustJSON(t, res.Flags) != "[]" {
		t.Errorf("empty: %s", mustJSON(t, res))
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("plain.md", "# Title\n\n## Part\n\nsome content")}})
	res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "some content"})
	var item struct {
		Content  string
		Score    float64
		Metadata map[string]any
	}
	if err := json.Unmarshal([]byte(mustJSON(t, res.Items[0])), &item); err != nil {
		t.Fatal(err)
	}
	m := item.Metadata
	if _, ok := m["page"]; ok || m["source"] != "plain.md" || m["knowledge_base_id"] != "kb" || m["chunk_index"] == nil || m["document_version"] != 1.0 {
		t.Errorf("%v", m)
	}
	if !strings.Contains(item.Content, "some content") || strings.Contains(item.Content, ">") {
		t.Errorf("%q", item.Content)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "some", Filter: filter.Eq(FieldDocument, "none")}); mustJSON(t, res.Items) != "[]" {
		t.Errorf("%s", mustJSON(t, res.Items))
	}
}

// G09: pages are those of the document, a chunk across pages has a range.
func TestG09_Pages(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 32)})
	size := 12
	mustCreate(t, s, "kb", &BaseOptions{Chunk: wordChunks(size, 0)})
	page := func(n int, words ...string) string { return strings.Join(words, " ") + fmt.Sprintf(" page%d", n) }
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{
		text("one.txt", page(1, "lonely words")+"\f"),
		text("two.txt", page(1, "first side")+"\f"+page(2, "second side")),
		text("three.txt", page(1, "a b c d e f g h i j k")+"\f"+page(2, "l m n o p q r s t u v")+"\f"+page(3, "w x y z")),
		text("none.txt", "no pages at all")}})
	pages := map[string]int{"one.txt": 1, "two.txt": 2, "three.txt": 3}
	crossing := false
	for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "page1 page2 page3 words", TopK: 100}).Items {
		m := it.Metadata
		n := pages[m.Source]
		if n == 0 && (m.Page != 0 || m.PageEnd != 0) || n > 0 && (m.Page < 1 || m.Page > n || m.PageEnd != 0 && (m.PageEnd <= m.Page || m.PageEnd > n)) {
			t.Errorf("%s: pages %d-%d of %d", m.Source, m.Page, m.PageEnd, n)
		}
		crossing = crossing || m.PageEnd > 0
	}
	if !crossing {
		t.Error("no chunk crosses a page: the test tests nothing")
	}
	mustCheck(t, s, "kb")
}

func TestS1_7_Rerank(t *testing.T) {
	s := shop(t, Options{})
	r := Request{Bases: []string{"products", "faq"}, Query: "refund within thirty days", Mode: Hybrid, TopK: 3}
	plain := mustSearch(t, s, r)
	r.Rerank = funcReranker(byLength)
	res := mustSearch(t, s, r)
	if len(res.Items) != 3 || len(res.Flags) != 0 {
		t.Fatalf("%+v", res)
	}
	for i, it := range res.Items {
		if it.Kind != ScoreRerank || it.RetrievalScore == nil || it.RetrievalKind != index.ScoreRRF || i > 0 && len(it.Content) < len(res.Items[i-1].Content) {
			t.Errorf("%+v", it)
		}
	}
	if res.Items[0].Content != "iron it warm" {
		t.Errorf("the pool is not deeper than top_k: %v", contents(res.Items))
	}
	bad := map[string]funcReranker{
		"fails":   func(context.Context, string, []string) ([]rerank.Scored, error) { return nil, errFake },
		"repeats": func(context.Context, string, []string) ([]rerank.Scored, error) { return []rerank.Scored{{}, {}}, nil },
		"out of range": func(context.Context, string, []string) ([]rerank.Scored, error) {
			return []rerank.Scored{{Index: 99}}, nil
		},
		"NaN": func(context.Context, string, []string) ([]rerank.Scored, error) {
			return []rerank.Scored{{Score: math.NaN()}}, nil
		},
		"late": func(ctx context.Context, _ string, _ []string) ([]rerank.Scored, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	for name, rr := range bad {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		r.Rerank, r.RerankKeep, r.OnError = rr, false, Fail
		if _, err := s.Search(ctx, r); err == nil {
			t.Errorf("%s: no error", name)
		}
		cancel()
		for _, partial := range []bool{false, true} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			r.RerankKeep, r.OnError = !partial, Fail
			if partial {
				r.OnError = Partial
			}
			res, err := s.Search(ctx, r)
			if err != nil || !slices.Equal(res.Flags, []string{FlagRerank}) || mustJSON(t, res.Items) != mustJSON(t, plain.Items) {
				t.Errorf("%s: the first order is not kept: %+v %v", name, res, err)
			}
			cancel()
		}
	}
}

// G03: a reranker that scores some puts them first; the rest keeps its order.
func TestG03_PartialRerank(t *testing.T) {
	s := shop(t, Options{})
	r := Request{Bases: []string{"products", "faq"}, Query: "refund within thirty days", TopK: 20}
	plain := mustSearch(t, s, r).Items
	r.Rerank = funcReranker(func(_ context.Context, _ string, p []string) ([]rerank.Scored, error) {
		return []rerank.Scored{{Index: len(p) - 1, Score: 0.9}, {Index: 2, Score: 0.9}}, nil
	})
	got := mustSearch(t, s, r).Items
	if len(got) != len(plain) || got[0].Content != plain[2].Content || got[1].Content != plain[len(plain)-1].Content {
		t.Fatalf("%v", contents(got))
	}
	rest := append(append([]Item{}, plain[:2]...), plain[3:len(plain)-1]...)
	for i, it := range got[2:] {
		if it.Content != rest[i].Content || !it.Unscored || it.Score != 0 || *it.RetrievalScore != rest[i].Score {
			t.Errorf("%+v", it)
		}
	}
	r.Rerank = funcReranker(func(context.Context, string, []string) ([]rerank.Scored, error) { return nil, nil })
	if res := mustSearch(t, s, r); mustJSON(t, res.Items) != mustJSON(t, plain) || !slices.Equal(res.Flags, []string{FlagRerank}) {
		t.Errorf("none scored: %+v", res)
	}
}

func TestS1_8_DepthIsItsOwnOption(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines()})
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "word number %d\n", i)
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", b.String())}})
	for _, c := range []struct{ topK, depth, want int }{{0, 0, 50}, {5, 0, 50}, {20, 0, 80}, {5, 7, 7}, {9, 3, 9}} {
		res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "word", TopK: c.topK, Depth: c.depth})
		if got := res.Bases[0].Candidates; got != c.want {
			t.Errorf("top_k %d, depth %d: %d candidates, want %d", c.topK, c.depth, got, c.want)
		}
	}
}

// Languages of one base are searched each with its own analyzer.
func TestAnalyzerByDocument(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{
		text("en.md", "The cats are running through the house and they are happy with it."),
		text("de.md", "Die Häuser sind größer als die Gärten und sie haben auch einen Keller für das Fahrrad."),
		text("zh.md", "退款政策允许在购买后三十天内退货。")}})
	for q, want := range map[string]string{"cat run": "en.md", "Haus Garten": "de.md", "退款": "zh.md"} {
		res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: q, Mode: Keyword})
		if len(res.Items) == 0 || res.Items[0].Metadata.Source != want {
			t.Errorf("%q: %v", q, contents(res.Items))
		}
	}
	if d, err := s.Document(t.Context(), "kb", "de.md"); err != nil || d.Language != "de" {
		t.Errorf("%+v %v", d, err)
	}
	if _, err := s.Rebuild(t.Context(), "kb", &BaseOptions{Analyzer: "standard"}, nil); err != nil {
		t.Fatal(err)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "run", Mode: Keyword}); len(res.Items) != 0 {
		t.Errorf("standard does not stem: %v", contents(res.Items))
	}
}

func TestExpand(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines(), NoHeadings: true})
	data := "# Top\nintro\n\n## Part\none é\ntwo 😀\nthree\n\n## Last\nend\n"
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", data)}})
	two := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "two", Mode: Keyword}).Items[0]
	for _, c := range []struct {
		o    ExpandOptions
		want string
	}{
		{ExpandOptions{}, "two 😀"},
		{ExpandOptions{Before: 1}, "one é\ntwo 😀"},
		{ExpandOptions{Before: 1, After: 1}, "one é\ntwo 😀\nthree"},
		{ExpandOptions{Section: true}, "## Part\none é\ntwo 😀\nthree\n\n"},
		{ExpandOptions{Before: 100, After: 100}, strings.TrimSuffix(data, "\n")},
		{ExpandOptions{Before: 1, After: 1, MaxBytes: 13}, "\ntwo 😀\nth"},
		{ExpandOptions{Before: 1, MaxBytes: 10}, "\ntwo 😀"},
		{ExpandOptions{Section: true, MaxBytes: 1}, "two 😀"},
	} {
		p, err := s.Expand(t.Context(), "kb", two.Metadata.ChunkID, c.o)
		if err != nil || p.Text != c.want || data[p.Start:p.End] != p.Text || p.Metadata.ChunkID != two.Metadata.ChunkID {
			t.Errorf("%+v: %q %v, want %q", c.o, p.Text, err, c.want)
		}
	}
	for _, id := range []string{"", "a.md", "a.md#1", "a.md#0000000x", "a.md#99999999999"} {
		if _, err := s.Expand(t.Context(), "kb", id, ExpandOptions{}); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := s.Expand(t.Context(), "kb", "a.md#00000099", ExpandOptions{}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := s.Expand(t.Context(), "kb", two.Metadata.ChunkID, ExpandOptions{Before: -1}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

func TestCheckFindsDamage(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", "# A\n\none"), text("b.md", "# B\n\ntwo")}})
	d, err := s.Document(t.Context(), "kb", "a.md")
	if err != nil {
		t.Fatal(err)
	}
	file := blobPath("kb/bases/kb", d.ArtifactHash)
	blob, err := fs.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range blob {
		bad := slices.Clone(blob)
		bad[i] ^= 0x10
		if err := fs.WriteFile(file, bad); err != nil {
			t.Fatal(err)
		}
		data, err := s.SourceBytes(t.Context(), "kb", d.ArtifactHash)
		if err == nil && string(data) == "# A\n\none" {
			continue // a bit that means nothing
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if rep, err := s.Check(t.Context(), "kb"); !errors.Is(err, storage.ErrCorrupt) || len(rep.Problems) == 0 {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	if err := fs.WriteFile(file, blob); err != nil {
		t.Fatal(err)
	}
	// The index is checked, too: that of a generation, which is all in a file.
	mustFreeze(t, s, "kb")
	mustCheck(t, s, "kb@1")
	names, err := fs.List("kb/bases/kb/gen-1/index-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "seg-") {
			continue
		}
		name = "kb/bases/kb/gen-1/index-1/" + name
		data, err := fs.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)/3] ^= 0x20
		if err := fs.WriteFile(name, data); err != nil {
			t.Fatal(err)
		}
		rep, err := s.Check(t.Context(), "kb@1")
		if !errors.Is(err, storage.ErrCorrupt) || !strings.HasPrefix(rep.Problems[0], "index: ") {
			t.Errorf("%s: %+v %v", name, rep, err)
		}
	}
	mustCheck(t, s, "kb")
}

// F07: a code fence that is never closed swallows nothing.
func TestF07_UnclosedFence(t *testing.T) {
	for _, fence := range []string{"```", "~~~", "````"} {
		s := openMem(t, storage.NewMemFS(), Options{})
		mustCreate(t, s, "kb", nil)
		data := "# T\nintro\n\n" + fence + "py\nx = 1\n\n## Key part\nvital text\n"
		mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.md", data)}})
		res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "vital text", Mode: Keyword})
		if len(res.Items) != 1 || !strings.Contains(res.Items[0].Content, "vital text") {
			t.Errorf("%s: %v", fence, contents(res.Items))
		}
		mustCheck(t, s, "kb")
	}
}
