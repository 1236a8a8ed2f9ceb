package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/keyword"
	"github.com/quarrysearch/quarry/storage"
)

// vocabulary has words whose stems and folded forms differ, and common ones.
var vocabulary = strings.Fields("the of a river rivers flows Flowing bridge Straße straße café 東京 大阪 lake hill run running ran stone road map city tower wind")

func searchDocument(r *rand.Rand, i int) Document {
	words := func(n int) string {
		var b strings.Builder
		for range n {
			// Zipf-like: low numbers are common
			b.WriteString(vocabulary[int(math.Pow(r.Float64(), 2)*float64(len(vocabulary)))])
			b.WriteByte(' ')
		}
		return b.String()
	}
	d := Document{
		ID:      fmt.Sprintf("d%04d", i),
		Text:    map[string]string{"title": words(1 + r.IntN(4)), "body": words(r.IntN(40))},
		Vectors: map[string][]float32{},
		Meta:    map[string]any{"lang": []string{"de", "en", "ja"}[r.IntN(3)], "n": r.IntN(100)},
	}
	if r.IntN(5) > 0 {
		d.Vectors["v"] = []float32{r.Float32(), r.Float32(), r.Float32(), r.Float32()}
		d.Vectors["c"] = []float32{r.Float32() + .1, r.Float32(), r.Float32()}
	}
	if r.IntN(4) == 0 {
		delete(d.Meta, "n")
	}
	return d
}

// queries covers each kind of leg, alone and together.
func queries() map[string]Query {
	text := func(s string) *TextQuery { return &TextQuery{Text: s} }
	vec := &VectorQuery{Field: "v", Vector: []float32{.2, .9, .4, .1}}
	cosine := &VectorQuery{Field: "c", Vector: []float32{.2, .9, .4}}
	return map[string]Query{
		"or":       {Text: text("river bridge 東京"), Count: true, Facets: []FacetRequest{{Field: "lang"}, {Field: "n", Limit: 5}}},
		"and":      {Text: &TextQuery{Text: "river flows", Operator: And}, Count: true},
		"phrase":   {Text: &TextQuery{Text: "the river", Phrase: true}, Count: true},
		"prefix":   {Text: &TextQuery{Text: "stone flow", Prefix: true}},
		"syntax":   {Text: &TextQuery{QueryString: `+river bridg~ "the river"~2 st* -map^2 title:(hill OR r?ad)`}, Count: true},
		"fuzzy":    {Text: &TextQuery{Clause: &keyword.Clause{Fuzzy: "rivres strase", MaxTerms: 3}}, Count: true},
		"regexp":   {Text: &TextQuery{Clause: &keyword.Clause{Regexp: "(r|s)[a-z]+"}}},
		"best":     {Text: &TextQuery{Text: "river stone", Join: keyword.JoinBest, TieBreaker: .2}},
		"together": {Text: &TextQuery{Text: "river stone", Join: keyword.JoinTogether, Operator: And}},
		"field":    {Text: &TextQuery{Text: "running cafe", Fields: map[string]float64{"body": 1}}},
		"l2":       {Vector: vec},
		"cosine":   {Vector: cosine},
		"hybrid":   {Text: text("tower wind"), Vector: cosine, Count: true, Facets: []FacetRequest{{Field: "lang"}}},
		"weighted": {Text: text("tower wind"), Vector: cosine, Fusion: Fusion{Method: Weighted}},
		"filtered": {Text: text("tower the"), Vector: vec, Filter: filter.And(filter.Eq("lang", "de"), filter.Lt("n", 50)), Count: true},
		"sparse":   {Text: text("river"), Filter: filter.Eq("n", 7), Count: true},
		"list":     {Filter: filter.Not(filter.Exists("n")), Count: true, Fields: []string{"*"}},
		"all":      {Count: true, Fields: []string{"lang", "title"}},
	}
}

func mustSearch(t testing.TB, s interface {
	Search(context.Context, Query) (*Results, error)
}, q Query) *Results {
	t.Helper()
	if q.K == 0 {
		q.K = 10
	}
	r, err := s.Search(bg, q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hitIDs(r *Results) []string {
	out := []string{}
	for _, h := range r.Hits {
		out = append(out, h.ID)
	}
	return out
}

// sameAnswer ignores what may differ: the time, and the segments of the plan.
var sameAnswer = cmpopts.IgnoreFields(Results{}, "Elapsed", "Plan")

// TestSegmentingChangesNothing puts the same documents in many ways; below
// GraphMin every search is exact, so every answer must be the same, scores
// included.
func TestSegmentingChangesNothing(t *testing.T) {
	const n = 400
	r := rand.New(rand.NewPCG(7, 1))
	docs := make([]Document, n)
	for i := range docs {
		docs[i] = searchDocument(r, i)
	}
	var want map[string]*Results
	for _, batch := range []int{n, 1, 3, 50, 399} {
		ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.MutableBytes = 64 << 10 })
		order := r.Perm(n)
		for at := 0; at < n; at += batch {
			b := NewBatch()
			for _, i := range order[at:min(at+batch, n)] {
				b.Put(docs[i])
			}
			if err := ix.Apply(bg, b); err != nil {
				t.Fatal(err)
			}
		}
		for _, stage := range []string{"applied", "flushed", "merged"} {
			switch stage {
			case "flushed":
				if err := ix.Flush(bg); err != nil {
					t.Fatal(err)
				}
			case "merged":
				if err := ix.Merge(bg, 1); err != nil {
					t.Fatal(err)
				}
			}
			got := map[string]*Results{}
			for name, q := range queries() {
				got[name] = mustSearch(t, ix, q)
			}
			if want == nil {
				want = got
			}
			if d := cmp.Diff(want, got, sameAnswer); d != "" {
				t.Fatalf("batches of %d, %s: answers differ:\n%s", batch, stage, d)
			}
		}
	}
	for name, r := range want {
		if len(r.Hits) < 2 {
			t.Errorf("query %q proves little with %d hits", name, len(r.Hits))
		}
	}
}

// TestPagesJoinToTheList is case E06, for offsets and for cursors, and E10:
// one total on all pages.
func TestE06PagesJoinToTheList(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for i := range 120 {
		put(t, ix, searchDocument(r, i))
		if i == 60 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, q := range queries() {
		q.K, q.Count = 60, true
		long := mustSearch(t, ix, q)
		q.K = 7
		var byOffset, byCursor []string
		for q.Offset = 0; q.Offset < 60; q.Offset += 7 {
			p := mustSearch(t, ix, q)
			byOffset = append(byOffset, hitIDs(p)...)
			if p.Total != long.Total {
				t.Errorf("%s: total %d at offset %d, %d before", name, p.Total, q.Offset, long.Total)
			}
		}
		q.Offset = 0
		for len(byCursor) < 60 {
			p := mustSearch(t, ix, q)
			byCursor = append(byCursor, hitIDs(p)...)
			if q.After = p.Next; q.After == "" {
				break
			}
		}
		want := hitIDs(long)
		for how, got := range map[string][]string{"offset": byOffset, "cursor": byCursor} {
			if !slices.Equal(got[:min(len(got), 60)], want) {
				t.Errorf("%s by %s:\n got %v\nwant %v", name, how, got, want)
			}
		}
		q.After, q.Offset = "", 5000
		if p := mustSearch(t, ix, q); len(p.Hits) != 0 {
			t.Errorf("%s: %d hits past the end", name, len(p.Hits))
		}
	}
}

// threeParts has 150 documents in two segments and in memory.
func threeParts(t *testing.T, r *rand.Rand) *Index {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for i := range 150 {
		put(t, ix, searchDocument(r, i))
		if i == 70 || i == 100 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ix
}

// K 0 counts as K 10 does, facets and notes included, and ranks nothing.
func TestCountAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	ix := threeParts(t, r)
	del(t, ix, "d0003", "d0080", "d0140")
	asked := queries()
	asked["no word"] = Query{Text: &TextQuery{Text: "!"}}
	asked["nothing"] = Query{Text: &TextQuery{Text: "nowhere"}}
	for name, q := range asked {
		q.K, q.Count = 10, true
		want := mustSearch(t, ix, q)
		q.K = 0
		got, err := ix.Search(bg, q)
		if err != nil {
			t.Fatal(err)
		}
		want.Hits, want.Next = []Hit{}, ""
		if diff := cmp.Diff(want, got, sameAnswer); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	q := queries()["or"]
	q.Count, q.Explain = false, true
	if got, err := ix.Search(bg, q); err != nil || got.Total != -1 || len(got.Facets["lang"]) != 3 || got.Plan.Matches != 147 {
		t.Errorf("facets alone: %+v, %v", got, err)
	}
}

func TestA01MoreThanThereAre(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for i := range 10 {
		put(t, ix, Document{ID: fmt.Sprint(i), Vectors: map[string][]float32{"v": {float32(i), 0, 0, 1}}, Meta: map[string]any{"n": i}})
	}
	q := Query{Vector: &VectorQuery{Field: "v", Vector: []float32{5, 0, 0, 1}}, K: 5, Filter: filter.In("n", 3, 7)}
	if got := hitIDs(mustSearch(t, ix, q)); !slices.Equal(got, []string{"3", "7"}) {
		t.Errorf("two matches: %v", got)
	}
	del(t, ix, "3")
	if got := hitIDs(mustSearch(t, ix, q)); !slices.Equal(got, []string{"7"}) {
		t.Errorf("one match: %v", got)
	}
	q.Filter, q.K, q.Vector.Ef = filter.Filter{}, 100, 10
	if got := hitIDs(mustSearch(t, ix, q)); len(got) != 9 {
		t.Errorf("all: %v", got)
	}
}

func TestA12FilterIsInsideTheSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 1))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.GraphMin = 1000; o.MutableBytes = 64 << 20 })
	b := NewBatch()
	for i := range 6000 {
		tag := "half"
		x := r.Float32()
		switch {
		case i%100 == 0:
			tag, x = "far", 10+r.Float32()
		case i == 1 || i == 2:
			tag = "two"
		case i%2 == 0:
			tag = "rest"
		}
		b.Put(Document{ID: fmt.Sprintf("%05d", i), Vectors: map[string][]float32{"v": {x, r.Float32(), r.Float32(), r.Float32()}}, Meta: map[string]any{"lang": tag}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]int{"far": 10, "two": 2, "half": 10} {
		q := Query{Vector: &VectorQuery{Field: "v", Vector: []float32{.1, .5, .5, .5}, Ef: 40}, K: 10, Filter: filter.Eq("lang", tag), Explain: true}
		got := mustSearch(t, ix, q)
		q.Vector = &VectorQuery{Field: "v", Vector: q.Vector.Vector, Exact: true}
		exact := mustSearch(t, ix, q)
		same := 0
		for _, id := range hitIDs(exact) {
			if slices.Contains(hitIDs(got), id) {
				same++
			}
		}
		if len(got.Hits) != want || len(exact.Hits) != want || same < want-1 {
			t.Errorf("%s: %d hits, exact %d, want %d; %d in common; plan %+v", tag, len(got.Hits), len(exact.Hits), want, same, got.Plan.Segments)
		}
	}
}

func TestA14EqualDistances(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	for _, i := range r.Perm(100) {
		v := []float32{1, 2, 3, 4}
		if i >= 30 {
			v = []float32{5 + r.Float32(), r.Float32(), 0, 0}
		}
		put(t, ix, Document{ID: fmt.Sprintf("%03d", i), Vectors: map[string][]float32{"v": v}})
		if i%25 == 0 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := strings.Fields("000 001 002 003 004 005 006 007 008 009")
	check := func(when string) {
		for range 100 {
			if got := hitIDs(mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: []float32{1, 2, 3, 4}}})); !slices.Equal(got, want) {
				t.Fatalf("%s: %v", when, got)
			}
		}
	}
	check("several segments")
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	check("merged")
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	ix = mustOpen(t, fs, nil)
	check("reopened")
}

// TestTextCases holds the cases of part C that a whole index can answer.
func TestTextCases(t *testing.T) {
	for name, c := range map[string]struct {
		docs  []string          // ids a, b, c, …
		query map[string]string // text → ids in order; "*…" checks only what comes first
	}{
		"C01": {[]string{"alpha", "alpha", "alpha beta"}, map[string]string{"alpha beta": "*c", "alpha": "*a b"}},
		"C02": {[]string{"", "   ", "!!!"}, map[string]string{"word": ""}},
		"C05": {[]string{"no means no", "if let binding", "To be or not to be"}, map[string]string{"no": "*a", "if let": "*b", "to be or not to be": "*c"}},
		"C06": {[]string{"陈景润证明了该定理", "桂林的景色很美", "机器需要润滑油"}, map[string]string{"陈景润": "*a", "景色": "*b", `"陈景润"`: "*a"}},
		"C08": {[]string{"İstanbul", "Ünlü", "café", "nai\u0308ve"}, map[string]string{"istanbul": "a", "ÜNLÜ": "b", "cafe\u0301": "c", "naïve": "d"}},
		"C09": {[]string{"getUserName", "get_user_name", "HTTPServer2", "AR-70", "AR-7", "7 arms", "PGMP-15"},
			map[string]string{"user name": "*a", "getusername": "*a", "http server": "*c", "AR-7": "*e", "pgmp-15": "*g"}},
		"C11": {[]string{strings.Repeat("ab", 45) + ".txt", strings.Repeat("0123456789abcdef", 4), strings.Repeat("x", 70_000), strings.Repeat("QUJD", 1<<18) + "\nneedle"},
			map[string]string{strings.Repeat("ab", 45) + ".txt": "*a", strings.Repeat("0123456789abcdef", 4): "b", "needle": "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			ix := mustOpen(t, storage.NewMemFS(), nil)
			for i, text := range c.docs {
				put(t, ix, Document{ID: string(rune('a' + i)), Text: map[string]string{"body": text}})
			}
			for text, want := range c.query {
				r := mustSearch(t, ix, Query{Text: &TextQuery{Text: text}, Highlight: []string{"body"}})
				got, first := strings.Join(hitIDs(r), " "), strings.TrimPrefix(want, "*")
				if got != want && !(first != want && strings.HasPrefix(got, first)) {
					t.Errorf("%.40q: got %q, want %q", text, got, want)
				}
				for _, h := range r.Hits {
					if !(h.Score > 0 && h.Score <= 1) || len(h.Highlights["body"]) == 0 {
						t.Errorf("%.40q: hit %+v: want a score in (0,1] and a highlight", text, h)
					}
				}
			}
		})
	}
}

// TestC09AndOfIdentifiers: a whole identifier and its parts are one thing to
// AND, whichever way the document spells it.
func TestC09AndOfIdentifiers(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for id, text := range map[string]string{"a": "call getUserName now", "b": "get the user by name", "c": "get_user_name", "d": "user only"} {
		put(t, ix, Document{ID: id, Text: map[string]string{"body": text}})
	}
	for text, want := range map[string][]string{"getUserName": {"a", "b", "c"}, "user name": {"a", "b", "c"}, "getusername": {"a", "c"}, "getUserName call": {"a"}} {
		for _, prefix := range []bool{false, true} {
			got := hitIDs(mustSearch(t, ix, Query{Text: &TextQuery{Text: text, Operator: And, Prefix: prefix}}))
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%q, prefix %v: %v, want %v", text, prefix, got, want)
			}
		}
	}
}

func TestC14PlainTextIsNoSyntax(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	put(t, ix, Document{ID: "a", Text: map[string]string{"body": "swap! user:/home C++ draft unclosed"}})
	for _, text := range []string{"user:/home", "swap!", "C++ (draft", "AND OR", `"unclosed`, "a:b", `\`, "~2", "*", "+-", "[1 TO", strings.Repeat("(", 10_000), "", " ", "\x00", "\u200b"} {
		for _, q := range []TextQuery{{Text: text}, {Text: text, Operator: And}, {Text: text, Phrase: true}, {Text: text, Prefix: true}} {
			mustSearch(t, ix, Query{Text: &q})
		}
	}
	if got := hitIDs(mustSearch(t, ix, Query{Text: &TextQuery{Text: "C++ (draft"}})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("C++ (draft: %v", got)
	}
}

func TestBadQueries(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	put(t, ix, Document{ID: "a", Text: map[string]string{"body": "x"}, Meta: map[string]any{"n": 1}})
	nan := float32(math.NaN())
	vec := func(f string, v ...float32) *VectorQuery { return &VectorQuery{Field: f, Vector: v} }
	for want, q := range map[string]Query{
		"k 0":                   {},
		"k -1":                  {K: -1, Count: true},
		"no page":               {Count: true, Offset: 1},
		"(offset, after)":       {Count: true, After: cursor{depth: 1}.String()},
		"group":                 {Count: true, Group: &GroupRequest{Field: "n"}},
		"to explain":            {Count: true, ExplainID: "a"},
		"k 10001":               {K: MaxK + 1},
		"offset -1":             {K: 1, Offset: -1},
		"offset 100000":         {K: 1, Offset: MaxOffset},
		"depth 10001":           {K: 1, Depth: MaxDepth + 1},
		`"nope"`:                {K: 1, Filter: filter.Eq("nope", 1)},
		`"n"`:                   {K: 1, Filter: filter.Eq("n", "five")},
		`no text field "nope"`:  {K: 1, Text: &TextQuery{Text: "x", Fields: map[string]float64{"nope": 1}}},
		"not UTF-8":             {K: 1, Text: &TextQuery{Text: "\xff"}},
		"1048577 bytes":         {K: 1, Text: &TextQuery{Text: strings.Repeat("a", MaxQueryText+1)}},
		"2 vector fields":       {K: 1, Vector: vec("", 1)},
		"no vector field":       {K: 1, Vector: vec("w", 1)},
		"3":                     {K: 1, Vector: vec("v", 1, 2, 3)},
		"component 1":           {K: 1, Vector: vec("v", 1, nan, 3, 4)},
		"zero":                  {K: 1, Vector: vec("c", 0, 0, 0)},
		"weight":                {K: 1, Text: &TextQuery{Text: "x", Weight: -1}, Vector: vec("c", 1, 0, 0)},
		"cursor":                {K: 1, After: "garbage!"},
		`field "nope"`:          {K: 1, Fields: []string{"nope"}},
		`metadata field "body"`: {K: 1, Facets: []FacetRequest{{Field: "body"}}},
		`text field "hidden"`:   {K: 1, Highlight: []string{"hidden"}},
		"rank constant":         {K: 1, Fusion: Fusion{RankConstant: -1}},
	} {
		_, err := ix.Search(bg, q)
		if !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if _, err := ix.Search(bg, Query{K: MaxK}); err != nil {
		t.Errorf("k at its border: %v", err)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if _, err := ix.Search(ctx, Query{K: 1, Text: &TextQuery{Text: "x"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// A search of any kind ends at whichever look at its context says so.
func TestCanceledAtEveryLook(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	ix := threeParts(t, r)
	asked := queries()
	asked["group"] = Query{Text: &TextQuery{Text: "river the"}, Group: &GroupRequest{Field: "n", Size: 3}}
	for name, q := range asked {
		q.K = 10
		looks := 0
		for ; ; looks++ {
			_, err := ix.Search(&countedContext{Context: bg, left: looks}, q)
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("%s, canceled at look %d: %v", name, looks, err)
			}
		}
		if looks < 10 { // one before each hit alone
			t.Errorf("%s looks %d times", name, looks)
		}
	}
}

func TestExplain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for i := range 200 {
		put(t, ix, searchDocument(r, i))
	}
	for name, q := range queries() {
		q.Explain, q.K = true, 5
		plain := q
		plain.Explain = false
		got, want := mustSearch(t, ix, q), mustSearch(t, ix, plain)
		if !slices.Equal(hitIDs(got), hitIDs(want)) {
			t.Errorf("%s: explaining changed the hits", name)
		}
		if got.Plan == nil || got.Plan.Documents != 200 {
			t.Errorf("%s: plan %+v", name, got.Plan)
		}
		for _, h := range got.Hits {
			if h.Explanation == nil || h.Explanation.Value != h.Score {
				t.Errorf("%s: %s has score %v, explained as %+v", name, h.ID, h.Score, h.Explanation)
			}
			if h.Keyword != nil && h.Vector == nil && q.Vector == nil {
				if raw := h.Explanation.Details[0].Value; raw != h.Keyword.Raw {
					t.Errorf("%s: %s has BM25 %v, explained as %v", name, h.ID, h.Keyword.Raw, raw)
				}
			}
		}
	}
	put(t, ix, Document{ID: "odd", Text: map[string]string{"body": "unmatched"}, Meta: map[string]any{"n": 3}})
	for want, q := range map[string]Query{
		"not in the index":      {ExplainID: "nobody"},
		"does not pass":         {ExplainID: "odd", Filter: filter.Eq("n", 4)},
		"does not match":        {ExplainID: "odd", Text: &TextQuery{Text: "river"}},
		"the document has none": {ExplainID: "odd", Vector: &VectorQuery{Field: "v", Vector: []float32{1, 0, 0, 0}}},
		"found: hit 1":          {ExplainID: "odd", Text: &TextQuery{Text: "unmatched"}},
		"below the minimum":     {ExplainID: "odd", Text: &TextQuery{Text: "unmatched river"}, MinScore: 0.999},
		"outside this page":     {ExplainID: "odd"},
	} {
		if got := mustSearch(t, ix, q).Plan.Lost; !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// TestScores holds the mappings of semantics S0 on one document each.
func TestScores(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	put(t, ix, Document{ID: "a", Text: map[string]string{"body": "solar panel"}, Vectors: map[string][]float32{"v": {3, 0, 0, 0}, "c": {1, 1, 0}}})
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	one := func(q Query) Hit { t.Helper(); return mustSearch(t, ix, q).Hits[0] }
	body := map[string]float64{"body": 1}
	near("every term once, average length", one(Query{Text: &TextQuery{Text: "solar panel", Fields: body}}).Score, 0.6470588)
	near("cosine", one(Query{Vector: &VectorQuery{Field: "c", Vector: []float32{1, 0, 0}}}).Score, math.Sqrt(.5))
	near("opposite", one(Query{Vector: &VectorQuery{Field: "c", Vector: []float32{-1, 0, 0}}}).Score, 0)
	near("l2", one(Query{Vector: &VectorQuery{Field: "v", Vector: []float32{1, 0, 0, 0}}}).Score, 1.0/5)
	hybrid := one(Query{Text: &TextQuery{Text: "solar"}, Vector: &VectorQuery{Field: "c", Vector: []float32{1, 0, 0}}})
	near("first in both legs", hybrid.Score, 1)
	if hybrid.Kind != ScoreRRF || hybrid.Keyword.Rank != 1 || hybrid.Vector.Rank != 1 {
		t.Errorf("hybrid: %+v", hybrid)
	}
	if got := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: []float32{1, 0, 0, 0}}, MinScore: 0.2}); len(got.Hits) != 1 {
		t.Error("the minimum score is inclusive")
	}
}

func TestHitsAreCopies(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	put(t, ix, searchDocument(rand.New(rand.NewPCG(1, 1)), 1))
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	q := Query{K: 3, Fields: []string{"*"}}
	a := mustSearch(t, ix, q)
	a.Hits[0].Fields["title"] = "changed"
	if b := mustSearch(t, ix, q); reflect.DeepEqual(a.Hits, b.Hits) {
		t.Error("a change to a hit shows in the next answer")
	}
}

func BenchmarkSearch(b *testing.B) {
	r := rand.New(rand.NewPCG(9, 1))
	ix := mustOpen(b, storage.NewMemFS(), func(o *Options) { o.GraphMin = 5000 })
	batch := NewBatch()
	for i := range 20_000 {
		batch.Put(searchDocument(r, i))
	}
	if err := ix.Apply(bg, batch); err != nil {
		b.Fatal(err)
	}
	if err := ix.Flush(bg); err != nil {
		b.Fatal(err)
	}
	s, err := ix.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"or", "and", "phrase", "l2", "hybrid", "filtered", "list"} {
		q := queries()[name]
		q.K, q.Count, q.Facets = 10, false, nil
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			hits := 0
			for b.Loop() {
				hits = len(mustSearch(b, s, q).Hits)
			}
			b.ReportMetric(float64(hits), "hits")
		})
	}
}
