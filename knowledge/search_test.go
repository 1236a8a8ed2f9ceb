package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/knowledge/embed"
	"github.com/quarrysearch/quarry/knowledge/rerank"
	"github.com/quarrysearch/quarry/storage"
)

// shop is a store of two bases of one model.
func shop(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Embedder == nil {
		o.Embedder = newWords("w", 64)
	}
	s := openMem(t, storage.NewMemFS(), o)
	mustCreate(t, s, "products", &BaseOptions{Chunk: lines(), NoHeadings: true})
	mustCreate(t, s, "faq", &BaseOptions{Chunk: lines(), NoHeadings: true})
	mustIngest(t, s, IngestRequest{Base: "products", Sources: []Source{
		text("refund.txt", "refund policy allows returns within thirty days\nshipping is by boat\nrefund exceptions are digital products"),
		text("care.txt", "wash the shirt cold\niron it warm")}})
	mustIngest(t, s, IngestRequest{Base: "faq", Sources: []Source{
		text("refund.txt", "how do I get a refund\nask within thirty days"), text("about.txt", "we are a small shop")}})
	return s
}

func TestS0_1_ScoresBoundedAndIndependent(t *testing.T) {
	s := shop(t, Options{})
	kinds := map[Mode]index.ScoreKind{Vector: index.ScoreCosine, Keyword: index.ScoreKeyword, Hybrid: index.ScoreRRF}
	for mode, kind := range kinds {
		all := mustSearch(t, s, Request{Bases: []string{"products", "faq"}, Query: "refund within thirty days", Mode: mode, TopK: 100, Depth: 100})
		if len(all.Items) == 0 {
			t.Fatal(mode)
		}
		for i, it := range all.Items {
			if !(it.Score >= 0 && it.Score <= 1) || it.Kind != kind {
				t.Errorf("%s: %v %s", mode, it.Score, it.Kind)
			}
			if mode != Vector && mode != Hybrid && it.Keyword == nil || mode == Vector && it.Vector == nil || it.Keyword == nil && it.Vector == nil {
				t.Errorf("%s: item %d has no leg", mode, i)
			}
		}
		for k := 1; k <= len(all.Items); k++ {
			some := mustSearch(t, s, Request{Bases: []string{"products", "faq"}, Query: "refund within thirty days", Mode: mode, TopK: k, Depth: 100})
			if mustJSON(t, some.Items) != mustJSON(t, all.Items[:k]) {
				t.Errorf("%s: the best %d depend on how many are asked for", mode, k)
			}
		}
		if mode == Hybrid {
			continue // ranks are those of all bases together
		}
		// Other bases and other hits change no score.
		alone := mustSearch(t, s, Request{Bases: []string{"faq"}, Query: "refund within thirty days", Mode: mode, TopK: 100, Depth: 100})
		for _, it := range alone.Items {
			i := slices.IndexFunc(all.Items, func(o Item) bool {
				return o.Metadata.ChunkID == it.Metadata.ChunkID && o.Metadata.KnowledgeBaseID == "faq"
			})
			if i < 0 || all.Items[i].Score != it.Score {
				t.Errorf("%s: %q scores differently alone", mode, it.Content)
			}
		}
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestS0_2_FloorOfTheEmbedder(t *testing.T) {
	plain := shop(t, Options{})
	e := newWords("w", 64)
	e.id.Floor = 0.3
	floored := shop(t, Options{Embedder: e})
	r := Request{Bases: []string{"products"}, Query: "refund policy thirty", TopK: 10}
	a, b := mustSearch(t, plain, r), mustSearch(t, floored, r)
	byID := map[string]Item{}
	for _, it := range a.Items {
		byID[it.Metadata.ChunkID] = it
	}
	for _, it := range b.Items {
		cos := byID[it.Metadata.ChunkID].Vector.Raw
		want := math.Max(0, (cos-0.3)/0.7)
		if math.Abs(it.Score-want) > 1e-9 || it.Vector.Raw != cos {
			t.Errorf("cosine %v: score %v, want %v", cos, it.Score, want)
		}
	}
	// Those at 0 are in the order of the tie rule.
	zero := b.Items[len(b.Items)-2:]
	if zero[0].Score != 0 || zero[1].Score != 0 || zero[0].Metadata.ChunkID > zero[1].Metadata.ChunkID {
		t.Errorf("%+v", contents(b.Items))
	}
	for metric, kind := range map[string]index.ScoreKind{"l2": index.ScoreL2, "dot": index.ScoreDot} {
		e := newWords("m", 64)
		e.id.Metric = metric
		s := shop(t, Options{Embedder: e})
		res := mustSearch(t, s, r)
		if it := res.Items[0]; it.Kind != kind || metric == "l2" && it.Score != 1/(1+it.Vector.Raw) {
			t.Errorf("%s: %+v", metric, it)
		}
	}
}

func TestS0_4_HybridScale(t *testing.T) {
	s := shop(t, Options{})
	res := mustSearch(t, s, Request{Bases: []string{"products"}, Query: "wash the shirt cold", Mode: Hybrid})
	if it := res.Items[0]; it.Score != 1 || it.Keyword.Rank != 1 || it.Vector.Rank != 1 {
		t.Errorf("first in every leg: %+v", it)
	}
	for _, it := range res.Items {
		want := 0.0
		for _, leg := range []*index.Leg{it.Keyword, it.Vector} {
			if leg != nil {
				want += 1 / float64(60+leg.Rank)
			}
		}
		if math.Abs(it.Score-want/(2.0/61)) > 1e-12 {
			t.Errorf("%+v: want %v", it, want/(2.0/61))
		}
	}
}

func TestS0_5_ThresholdInclusive(t *testing.T) {
	s := shop(t, Options{})
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		r := Request{Bases: []string{"products", "faq"}, Query: "refund", Mode: mode, TopK: 20}
		all := mustSearch(t, s, r).Items
		r.ScoreThreshold = all[1].Score
		for i, it := range mustSearch(t, s, r).Items {
			if it.Score < r.ScoreThreshold || it.Metadata.ChunkID != all[i].Metadata.ChunkID {
				t.Errorf("%s: %v below %v", mode, it.Score, r.ScoreThreshold)
			}
		}
		if n := len(mustSearch(t, s, r).Items); n < 2 {
			t.Errorf("%s: %d items, the second is at the threshold", mode, n)
		}
	}
	// E08: after the reranker, on its scores.
	half := funcReranker(func(_ context.Context, _ string, p []string) ([]rerank.Scored, error) {
		out := make([]rerank.Scored, len(p))
		for i := range out {
			out[i] = rerank.Scored{Index: i, Score: 0.9 - 0.1*float64(i)}
		}
		return out, nil
	})
	res := mustSearch(t, s, Request{Bases: []string{"faq"}, Query: "unrelated words", Mode: Vector, Rerank: half, ScoreThreshold: 0.8})
	if len(res.Items) != 2 {
		t.Errorf("%+v", res.Items)
	}
}

func TestS0_6_SameOrderAlways(t *testing.T) {
	fs := storage.NewMemFS()
	s := openMem(t, fs, Options{Embedder: newWords("w", 8), Threads: 4})
	var ids []string
	for b := range 4 {
		id := fmt.Sprintf("kb%d", b)
		ids = append(ids, id)
		mustCreate(t, s, id, &BaseOptions{Chunk: lines()})
		var src []Source
		for d := range 5 {
			src = append(src, text(fmt.Sprintf("%d.txt", d), strings.Repeat("same words here\n", 3)+fmt.Sprintf("only %d", d)))
		}
		mustIngest(t, s, IngestRequest{Base: id, Sources: src})
	}
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		r := Request{Bases: ids, Query: "same words", Mode: mode, TopK: 60}
		want := mustSearch(t, s, r)
		for i := 1; i < len(want.Items); i++ {
			a, b := want.Items[i-1], want.Items[i]
			ka := fmt.Sprintf("%s/%s", a.Metadata.KnowledgeBaseID, a.Metadata.ChunkID)
			kb := fmt.Sprintf("%s/%s", b.Metadata.KnowledgeBaseID, b.Metadata.ChunkID)
			if a.Score < b.Score || a.Score == b.Score && ka > kb {
				t.Errorf("%s: %s before %s", mode, ka, kb)
			}
		}
		for _, procs := range []int{1, 4} {
			old := runtime.GOMAXPROCS(procs)
			got := mustSearch(t, s, r)
			runtime.GOMAXPROCS(old)
			if mustJSON(t, got.Items) != mustJSON(t, want.Items) {
				t.Errorf("%s: another order with %d processors", mode, procs)
			}
		}
		reopened := openMem(t, fs.Clone(), Options{Embedder: newWords("w", 8), Threads: 1})
		if mustJSON(t, mustSearch(t, reopened, r).Items) != mustJSON(t, want.Items) {
			t.Errorf("%s: another order after reopening", mode)
		}
		if err := reopened.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestS0_7_Filters(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 16)})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{
		text("a.md", "---\ntags: [x, y]\n---\nwords here"), text("b.md", "---\ntags: [z]\n---\nwords here"), text("c.md", "words here")}})
	for _, c := range []struct {
		f    filter.Filter
		want []string
	}{
		{filter.Filter{}, []string{"a.md", "b.md", "c.md"}},
		{filter.Eq(FieldTags, "x"), []string{"a.md"}},
		{filter.Not(filter.Eq(FieldTags, "x")), []string{"b.md", "c.md"}},
		{filter.Exists(FieldTags), []string{"a.md", "b.md"}},
		{filter.In(FieldTags), nil},
		{filter.In(FieldDocument, "b.md", "c.md"), []string{"b.md", "c.md"}},
		{filter.Not(filter.In(FieldTags)), []string{"a.md", "b.md", "c.md"}},
	} {
		for _, mode := range []Mode{Vector, Keyword, Hybrid} {
			var got []string
			for _, it := range mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "words", Mode: mode, Filter: c.f}).Items {
				got = append(got, it.Metadata.Source)
			}
			if slices.Sort(got); !slices.Equal(got, c.want) {
				t.Errorf("%s %s: %v, want %v", mode, c.f, got, c.want)
			}
		}
	}
	if _, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "words", Filter: filter.Eq("nowhere", 1)}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("unknown field: %v", err)
	}
}

// S0.8: what repeats one stretch of one document is one item, and the list is
// filled up to k, however deep that is.
func TestS0_8_RepeatsMergedAndRefilled(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 32)})
	var src []Source
	for d := range 30 {
		src = append(src, text(fmt.Sprintf("%02d.txt", d), fmt.Sprintf("needle number %d", d)))
	}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		mustCreate(t, s, id, &BaseOptions{NoHeadings: true, Chunk: lines()})
		mustIngest(t, s, IngestRequest{Base: id, Sources: src})
	}
	for _, mode := range []Mode{Vector, Keyword, Hybrid} {
		res := mustSearch(t, s, Request{Bases: ids, Query: "needle", Mode: mode, TopK: 30, Depth: 30})
		seen := map[string]bool{}
		for _, it := range res.Items {
			if seen[it.Content] {
				t.Errorf("%s: %q twice", mode, it.Content)
			}
			seen[it.Content] = true
		}
		if len(res.Items) != 30 {
			t.Errorf("%s: %d items", mode, len(res.Items))
		}
	}
	a := Item{Content: "needle in hay", Metadata: Metadata{StartOffset: 10, EndOffset: 23}}
	b := Item{Content: "in", Metadata: Metadata{StartOffset: 17, EndOffset: 19}}
	c := Item{Content: "hay stack", Metadata: Metadata{StartOffset: 20, EndOffset: 29}}
	if !repeats(&a, &b) || !repeats(&b, &a) || repeats(&a, &c) || repeats(&c, &b) {
		t.Error("repeats")
	}
}

func TestS1_1_RequestChecked(t *testing.T) {
	s := shop(t, Options{})
	ok := Request{Bases: []string{"faq"}, Query: "refund"}
	if res := mustSearch(t, s, ok); res.Mode != Vector || len(res.Items) > 5 || res.Query != "refund" {
		t.Errorf("defaults: %+v", res)
	}
	for name, change := range map[string]func(*Request){
		"knowledge_base_ids": func(r *Request) { r.Bases = nil }, "search_mode": func(r *Request) { r.Mode = "fuzzy" },
		"top_k": func(r *Request) { r.TopK = -1 }, "top_k 1001": func(r *Request) { r.TopK = 1001 }, "depth": func(r *Request) { r.Depth = -1 },
		"depth 10001": func(r *Request) { r.Depth = 10_001 }, "score_threshold 1.5": func(r *Request) { r.ScoreThreshold = 1.5 },
		"score_threshold NaN": func(r *Request) { r.ScoreThreshold = math.NaN() }, "score_threshold -": func(r *Request) { r.ScoreThreshold = -0.1 },
		"on_error": func(r *Request) { r.OnError = "ignore" }, "rerank pool": func(r *Request) { r.RerankPool = -1 },
		"query of": func(r *Request) { r.Query = strings.Repeat("x", index.MaxQueryText+1) },
	} {
		r := ok
		change(&r)
		if _, err := s.Search(t.Context(), r); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Search(t.Context(), Request{Bases: []string{"faq"}, Query: "bad \xff bytes refund", Mode: Hybrid}); err != nil {
		t.Errorf("query that is not UTF-8: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Search(ctx, ok); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestS1_3_MergedByScore(t *testing.T) {
	e := newWords("w", 64)
	s := shop(t, Options{Embedder: e})
	calls := e.calls.Load()
	res := mustSearch(t, s, Request{Bases: []string{"faq", "products"}, Query: "refund within thirty days", TopK: 4})
	if e.calls.Load() != calls+1 {
		t.Errorf("the query was embedded %d times", e.calls.Load()-calls)
	}
	if res.Merge != MergeScore || len(res.Items) != 4 || len(res.Bases) != 2 || res.Bases[0].ID != "faq" {
		t.Errorf("%+v", res)
	}
	bases := map[string]bool{}
	for i, it := range res.Items {
		bases[it.Metadata.KnowledgeBaseID] = true
		if i > 0 && it.Score > res.Items[i-1].Score {
			t.Errorf("order: %v", contents(res.Items))
		}
	}
	if len(bases) != 2 {
		t.Errorf("one base only: %v", contents(res.Items))
	}
	// One base may fill the list alone.
	res = mustSearch(t, s, Request{Bases: []string{"faq", "products"}, Query: "wash iron shirt warm cold", TopK: 2, Mode: Keyword})
	for _, it := range res.Items {
		if it.Metadata.KnowledgeBaseID != "products" {
			t.Errorf("%+v", it)
		}
	}
}

func TestS1_4_DifferentModelsMergedByRank(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("one", 32), Embedders: map[string]embed.Embedder{"other": newWords("two", 64)}})
	mustCreate(t, s, "a", &BaseOptions{Chunk: lines()})
	mustCreate(t, s, "b", &BaseOptions{Chunk: lines(), Embedder: "other"})
	mustCreate(t, s, "empty", &BaseOptions{Embedder: "other"})
	mustIngest(t, s, IngestRequest{Base: "a", Sources: []Source{text("a.txt", "red apple\ngreen pear\nblue plum")}})
	mustIngest(t, s, IngestRequest{Base: "b", Sources: []Source{text("b.txt", "red brick\ngreen grass")}})
	for _, mode := range []Mode{Vector, Hybrid} {
		res := mustSearch(t, s, Request{Bases: []string{"b", "a"}, Query: "red apple", Mode: mode, TopK: 10, ScoreThreshold: 0.9})
		if res.Merge != MergeRank || len(res.Notes) == 0 || len(res.Items) != 5 {
			t.Fatalf("%s: %+v", mode, res)
		}
		// First of b, first of a, second of b, …
		for i, it := range res.Items[:4] {
			if want := []string{"b", "a"}[i%2]; it.Metadata.KnowledgeBaseID != want || it.Score != 61/float64(61+i/2) || it.Kind != ScoreRank ||
				it.RetrievalScore == nil || it.RetrievalKind == "" {
				t.Errorf("%s: item %d: %+v", mode, i, it)
			}
		}
	}
	if res := mustSearch(t, s, Request{Bases: []string{"b", "a"}, Query: "red", Mode: Keyword}); res.Merge != MergeScore {
		t.Errorf("keyword scores compare: %+v", res)
	}
	if res := mustSearch(t, s, Request{Bases: []string{"a", "empty"}, Query: "red"}); res.Merge != MergeScore || len(res.Items) != 3 {
		t.Errorf("an empty base changes nothing: %+v", res)
	}
}

func TestS1_5_MissingAndFailingBases(t *testing.T) {
	bad := newWords("bad", 16)
	s := shop(t, Options{Embedders: map[string]embed.Embedder{"bad": bad}})
	mustCreate(t, s, "down", &BaseOptions{Embedder: "bad"})
	mustIngest(t, s, IngestRequest{Base: "down", Sources: []Source{text("d.txt", "refund downstairs")}})
	bad.hook = func(embed.Kind, []string, *embed.Result) error { return errFake }

	_, err := s.Search(t.Context(), Request{Bases: []string{"faq", "gone"}, Query: "refund"})
	if !errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), `"gone"`) {
		t.Errorf("missing: %v", err)
	}
	_, err = s.Search(t.Context(), Request{Bases: []string{"faq", "down", "gone"}, Query: "refund", Mode: Hybrid})
	var be BaseError
	if !errors.As(err, &be) {
		t.Errorf("failing: %v", err)
	}
	_, err = s.Search(t.Context(), Request{Bases: []string{"down"}, Query: "refund", Mode: Hybrid})
	if !errors.Is(err, errFake) || !strings.Contains(err.Error(), `"down"`) {
		t.Errorf("failing: %v", err)
	}
	res := mustSearch(t, s, Request{Bases: []string{"gone", "faq", "faq", "down", "faq"}, Query: "refund", OnError: Partial, Mode: Vector})
	if !slices.Equal(res.Flags, []string{FlagBaseMissing + "gone", FlagBaseFailed + "down"}) || len(res.Items) == 0 || len(res.Bases) != 1 || len(res.Errors) != 2 {
		t.Errorf("partial: %+v", res)
	}
	// In a hybrid answer the leg is lost, not the base.
	res = mustSearch(t, s, Request{Bases: []string{"down"}, Query: "refund", OnError: Partial, Mode: Hybrid})
	if !slices.Equal(res.Flags, []string{FlagDense}) || len(res.Items) != 1 || res.Bases[0].Mode != Keyword || len(res.Errors) != 1 {
		t.Errorf("partial hybrid: %+v", res)
	}
	if _, err := s.Search(t.Context(), Request{Bases: []string{"gone", "gone2"}, Query: "refund", OnError: Partial}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("nothing left: %v", err)
	}
	if _, err := s.Search(t.Context(), Request{Bases: []string{"down"}, Query: "refund", OnError: Partial}); !errors.Is(err, errFake) {
		t.Errorf("nothing left: %v", err)
	}
}

// A base without a model has a keyword leg only, and says so.
func TestKeywordOnlyBase(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", nil)
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", "alpha beta")}})
	if _, err := s.Search(t.Context(), Request{Bases: []string{"kb"}, Query: "alpha", Mode: Vector}); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("%v", err)
	}
	res := mustSearch(t, s, Request{Bases: []string{"kb"}, Query: "alpha", Mode: Hybrid})
	if len(res.Items) != 1 || res.Bases[0].Mode != Keyword || res.Items[0].Kind != index.ScoreKeyword {
		t.Errorf("%+v", res)
	}
}

// S0.3: 0.65 where each term occurs once in a document of average length, so
// that a threshold of 0.6 means something; unknown terms count.
func TestS0_3_KeywordScale(t *testing.T) {
	s := openMem(t, storage.NewMemFS(), Options{})
	mustCreate(t, s, "kb", &BaseOptions{Chunk: lines(), NoHeadings: true, Analyzer: "standard"})
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "a%d b%d c%d d%d e%d\n", i, i, i, i, i)
	}
	mustIngest(t, s, IngestRequest{Base: "kb", Sources: []Source{text("a.txt", b.String())}})
	score := func(q string) float64 {
		return mustSearch(t, s, Request{Bases: []string{"kb"}, Query: q, Mode: Keyword, TopK: 1}).Items[0].Score
	}
	if x := score("a7 c7"); math.Abs(x-0.647) > 0.01 {
		t.Errorf("both terms: %v", x)
	}
	if one, unknown := score("a7"), score("a7 nowhere"); unknown >= one || unknown <= 0 {
		t.Errorf("an unknown term does not count: %v, alone %v", unknown, one)
	}
}

// S0.4, S1.3: bases that are searched together are ranked as one base with all
// their documents: of a fusion a base, the best of a base that knows nothing
// would come before the second best of the one that does.
func TestS1_3_HybridOverBasesIsOneFusion(t *testing.T) {
	texts := map[string]Source{
		"a": text("a.txt", "refund within thirty days\nrefund of vouchers\nrefund by bank\nrefund in cash"),
		"b": text("b.txt", "boats are shipped by sea\nmany boats\nsea and sand"),
	}
	s := openMem(t, storage.NewMemFS(), Options{Embedder: newWords("w", 64)})
	for id, src := range texts {
		mustCreate(t, s, id, &BaseOptions{Chunk: lines(), NoHeadings: true})
		mustIngest(t, s, IngestRequest{Base: id, Sources: []Source{src}})
	}
	for range 2 {
		res := mustSearch(t, s, Request{Bases: []string{"b", "a"}, Query: "refund within thirty days", Mode: Hybrid, TopK: 3})
		for i, it := range res.Items {
			if it.Metadata.KnowledgeBaseID != "a" {
				t.Errorf("item %d: %q of base %s", i, it.Content, it.Metadata.KnowledgeBaseID)
			}
		}
		if res.Items[0].Keyword == nil || res.Items[0].Keyword.Rank != 1 || res.Items[0].Score != 1 {
			t.Errorf("%+v", res.Items[0])
		}
	}
}

// S0.2, S0.4: ranks join the legs unless the request asks for the mean of their
// scores, which then is the score.
func TestS0_4_Fusion(t *testing.T) {
	s := shop(t, Options{})
	r := Request{Bases: []string{"products", "faq"}, Query: "refund within thirty days", Mode: Hybrid, TopK: 100, Depth: 100}
	if got, want := mustJSON(t, mustSearch(t, s, r).Items), (Request{Bases: r.Bases, Query: r.Query, Mode: Hybrid, TopK: 100, Depth: 100, Fusion: FusionRRF}); got != mustJSON(t, mustSearch(t, s, want).Items) {
		t.Error("RRF is not the default")
	}
	r.Fusion = FusionWeighted
	for i, it := range mustSearch(t, s, r).Items {
		score := 0.0
		for _, leg := range []*index.Leg{it.Keyword, it.Vector} {
			if leg != nil {
				score += leg.Score / 2
			}
		}
		if it.Kind != index.ScoreWeighted || math.Abs(it.Score-score) > 1e-12 {
			t.Errorf("item %d: %s %v, want %v", i, it.Kind, it.Score, score)
		}
	}
	r.Fusion = "best"
	if _, err := s.Search(t.Context(), r); !errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), "fusion") {
		t.Error(err)
	}
}
