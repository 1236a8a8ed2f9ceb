package conformance

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/index/keyword"
)

// words are in order of frequency.
const words = "river stone mill house garden winter bridges running harvests lantern getUserName copper AR-7 meadow whistles candle barrel 陈景润 schooner Übung orchard thistle parcel anvil ferry"

// vocabulary is the number of different words in texts.
const vocabulary = 2000

// text is n words, of which the first are frequent: the k-th by about 1/k.
func text(r *rand.Rand, n int) string {
	all := strings.Fields(words)
	out := make([]string, n)
	for i := range out {
		k := int(math.Pow(vocabulary, r.Float64())) - 1
		out[i] = all[k%len(all)]
		for k /= len(all); k > 0; k /= 20 {
			out[i] += string("bcdfghjklmnpqrstvwxz"[k%20]) + "o"
		}
	}
	return strings.Join(out, " ")
}

func textDocuments(r *rand.Rand, n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{ID: fmt.Sprintf("doc-%04d", i), Text: map[string]string{"body": text(r, 5+r.IntN(60)), "title": text(r, 1+r.IntN(4))},
			Meta: map[string]any{"part": i % 10}}
	}
	return docs
}

func testText(t *testing.T, o Options) {
	r := rand.New(rand.NewPCG(3, 5))
	s := &index.Schema{Text: []index.TextField{{Name: "body", Analyzer: "english"}, {Name: "title", Analyzer: "english", Boost: 2}}}
	c, _ := o.open(t, "text", s)
	docs := textDocuments(r, 800)
	apply(t, c, batchOf(docs))
	ix := reference(t, s, docs)
	body := map[string]float64{"body": 1}
	queries := []index.TextQuery{
		{Text: "runs"}, {Text: "RUNNING bridge", Operator: index.And}, {Text: "run bridge harvest ferry", MinShouldMatch: 2}, {Text: "user name", Operator: index.And},
		{Text: "getUserName", Operator: index.And, Fields: body}, {Text: "景润"}, {Text: "ubung anvil"}, {Text: "the nothing"}, {Text: "ar7", Fields: map[string]float64{"title": 3}},
		{QueryString: "+ferry -river (mill OR stone)"}, {QueryString: "title:ferry body:anvil"}, {QueryString: "ferry AND NOT anvil"},
		{Clause: &keyword.Clause{Bool: &keyword.Bool{Must: []keyword.Clause{{Match: "candle"}}, Should: []keyword.Clause{{Match: "barrel"}}, MustNot: []keyword.Clause{{Match: "river"}}}}},
		{Clause: &keyword.Clause{Term: "bridg"}},
	}
	for i, tq := range queries {
		for _, f := range []filter.Filter{{}, filter.Lt("part", 4)} {
			q := index.Query{Text: &tq, Filter: f, K: 1000, Count: true}
			want, err := ix.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got := search(t, c, q)
			a, b := ids(got.Hits), ids(want.Hits)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) || got.Total != want.Total {
				t.Errorf("query %d: %d hits, total %d; want %d, %d", i, len(a), got.Total, len(b), want.Total)
			}
		}
	}
	t.Run("S0_3_ranks", func(t *testing.T) {
		overlap, n := 0.0, 0
		for range 60 {
			q := index.Query{Text: &index.TextQuery{Text: text(r, 2+r.IntN(3)), Fields: body}, K: 10}
			want, err := ix.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			got := search(t, c, q)
			checkScores(t, got.Hits)
			overlap, n = overlap+share(got.Hits, want.Hits), n+1
		}
		if overlap /= float64(n); overlap < o.Overlap {
			t.Errorf("overlap@10 of keyword searches: %.3f, want %.3f", overlap, o.Overlap)
		} else {
			t.Logf("overlap@10 of keyword searches: %.3f", overlap)
		}
	})
	t.Run("fields", func(t *testing.T) {
		res := search(t, c, index.Query{Text: &index.TextQuery{Text: "running"}, K: 3, Fields: []string{"title", "part"}, Highlight: []string{"body"}})
		for _, h := range res.Hits {
			if len(h.Fields) != 2 || h.Fields["title"] == "" {
				t.Errorf("fields %v", h.Fields)
			}
			for _, p := range h.Highlights["body"] {
				if len(p.Marks) == 0 {
					t.Errorf("passage %+v without marks", p)
				}
			}
		}
	})
}

// share is how many of the hits wanted are there, of as many as there are.
func share(got, want []index.Hit) float64 {
	if len(want) == 0 {
		return 1
	}
	n := 0
	for _, id := range ids(want) {
		if slices.Contains(ids(got), id) {
			n++
		}
	}
	return float64(n) / float64(len(want))
}

// checkScores wants scores in [0,1] that never rise, ties in order of id.
func checkScores(t *testing.T, hits []index.Hit) {
	t.Helper()
	for i, h := range hits {
		if !(h.Score >= 0 && h.Score <= 1) {
			t.Errorf("score %v", h.Score)
		}
		if i > 0 && (h.Score > hits[i-1].Score || h.Score == hits[i-1].Score && h.ID <= hits[i-1].ID && h.Score > 0) {
			t.Errorf("hit %d: %s with %v behind %s with %v", i, h.ID, h.Score, hits[i-1].ID, hits[i-1].Score)
		}
	}
}

const dim = 24

func vectorDocuments(r *rand.Rand, n int) []index.Document {
	docs := textDocuments(r, n)
	for i := range docs {
		docs[i].Vectors = map[string][]float32{}
		for _, f := range []string{"cosine", "dot", "l2"} {
			docs[i].Vectors[f] = vector(r)
		}
	}
	return docs
}

func vector(r *rand.Rand) []float32 {
	v := make([]float32, dim)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func vectorSchema() *index.Schema {
	return &index.Schema{Text: []index.TextField{{Name: "body", Analyzer: "english"}, {Name: "title", Analyzer: "english", Boost: 2}},
		Vectors: []index.VectorField{{Name: "cosine", Dim: dim}, {Name: "dot", Dim: dim, Metric: quant.Dot}, {Name: "l2", Dim: dim, Metric: quant.L2}}}
}

// vectors opens the collection of documents with vectors that several tests
// share.
func (o Options) vectors(t *testing.T) (c collection.Collection, close func(), docs []index.Document) {
	t.Helper()
	docs = vectorDocuments(rand.New(rand.NewPCG(9, 2)), 1000)
	c, close = o.open(t, "vectors", vectorSchema())
	n, err := c.Count(bounded(t), filter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		apply(t, c, batchOf(docs))
	}
	return c, close, docs
}

func testVectors(t *testing.T, o Options) {
	r := rand.New(rand.NewPCG(1, 2))
	c, _, docs := o.vectors(t)
	for _, f := range vectorSchema().Vectors {
		for _, part := range []filter.Filter{{}, filter.Lt("part", 2)} {
			found, n := 0.0, 0
			for range 30 {
				q := vector(r)
				want := nearest(docs, f, q, !part.IsZero())
				res := search(t, c, index.Query{Vector: &index.VectorQuery{Field: f.Name, Vector: q, TargetRecall: 0.99}, Filter: part, K: 10})
				checkScores(t, res.Hits)
				found, n = found+share(res.Hits, want), n+1
				testWithin(t, c, index.Query{Vector: &index.VectorQuery{Field: f.Name, Vector: q, TargetRecall: 0.99}, Filter: part, K: 10}, f.Metric, res.Hits)
				for _, h := range res.Hits {
					i := slices.IndexFunc(docs, func(d index.Document) bool { return d.ID == h.ID })
					if raw := rawScore(f.Metric, docs[i].Vectors[f.Name], q); math.Abs(raw-h.Vector.Raw) > 1e-4*(1+math.Abs(raw)) {
						t.Fatalf("%s: raw %v, want %v", f.Name, h.Vector.Raw, raw)
					}
				}
			}
			if found /= float64(n); found < 0.99 {
				t.Errorf("%s, filter %v: recall@10 %.4f, want 0.99", f.Name, !part.IsZero(), found)
			}
		}
	}
}

// testWithin wants of the hits of a query those that are near enough.
func testWithin(t *testing.T, c collection.Collection, q index.Query, m quant.Metric, hits []index.Hit) {
	t.Helper()
	limit := (hits[4].Vector.Raw + hits[5].Vector.Raw) / 2
	q.Vector.Within = &limit
	if got := search(t, c, q).Hits; !slices.Equal(ids(got), ids(hits[:5])) {
		t.Errorf("%v within %v: %q, want %q", m, limit, ids(got), ids(hits[:5]))
	}
}

func rawScore(m quant.Metric, a, b []float32) float64 {
	var dot, square float64
	for i := range a {
		dot += float64(a[i]) * float64(b[i])
		square += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
	}
	switch m {
	case quant.Dot:
		return dot
	case quant.L2:
		return square
	}
	return dot / quant.Norm(a) / quant.Norm(b)
}

// nearest are the ten nearest documents, as hits; of a part where filtered.
func nearest(docs []index.Document, f index.VectorField, q []float32, filtered bool) []index.Hit {
	var hits []index.Hit
	for _, d := range docs {
		if filtered && d.Meta["part"].(int) >= 2 {
			continue
		}
		raw := rawScore(f.Metric, d.Vectors[f.Name], q)
		if f.Metric == quant.L2 {
			raw = -raw
		}
		hits = append(hits, index.Hit{ID: d.ID, Score: raw})
	}
	slices.SortFunc(hits, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return hits[:10]
}

func testHybrid(t *testing.T, o Options) {
	r := rand.New(rand.NewPCG(4, 4))
	c, _, _ := o.vectors(t)
	for i := range 20 {
		q := index.Query{K: 20, Fusion: index.Fusion{RankConstant: 10 * i},
			Text:   &index.TextQuery{Text: text(r, 3), Weight: 0.5, Fields: map[string]float64{"body": 1}},
			Vector: &index.VectorQuery{Field: "cosine", Vector: vector(r), Weight: 2}}
		if i%2 == 1 {
			q.Filter = filter.Gt("part", 3)
		}
		constant := float64(cmp.Or(q.Fusion.RankConstant, 60))
		res := search(t, c, q)
		checkScores(t, res.Hits)
		if len(res.Hits) != 20 || res.Hits[0].Kind != index.ScoreRRF {
			t.Errorf("%d hits, kind %q", len(res.Hits), res.Hits[0].Kind)
		}
		for _, h := range res.Hits {
			want := 0.0
			if h.Keyword != nil {
				want += 0.5 / (constant + float64(h.Keyword.Rank))
			}
			if h.Vector != nil {
				want += 2 / (constant + float64(h.Vector.Rank))
			}
			if want /= 2.5 / (constant + 1); math.Abs(want-h.Score) > 1e-12 {
				t.Errorf("score %v, of its ranks %v", h.Score, want)
			}
		}
		q.Fusion.Method = index.Weighted
		for _, h := range search(t, c, q).Hits {
			want := 0.0
			if h.Keyword != nil {
				want += 0.5 * h.Keyword.Score
			}
			if h.Vector != nil {
				want += 2 * h.Vector.Score
			}
			if want /= 2.5; math.Abs(want-h.Score) > 1e-12 {
				t.Errorf("weighted score %v, of its legs %v", h.Score, want)
			}
		}
	}
}

// testPages wants pages to be what one long list is.
func testPages(t *testing.T, o Options) {
	r := rand.New(rand.NewPCG(6, 1))
	c, _, _ := o.vectors(t)
	snap, err := c.Snapshot(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := snap.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, q := range []index.Query{
		{Filter: filter.Eq("part", 3)},
		{Text: &index.TextQuery{Text: "ferry anvil"}},
		{Vector: &index.VectorQuery{Field: "l2", Vector: vector(r)}},
		{Text: &index.TextQuery{Text: "ferry anvil"}, Vector: &index.VectorQuery{Field: "dot", Vector: vector(r)}, Depth: 200},
	} {
		q.K = 60
		want := ids(search(t, snap, q).Hits)
		var got []string
		for q.K = 7; len(got) < 60; {
			res := search(t, snap, q)
			got = append(got, ids(res.Hits)...)
			if q.After = res.Next; q.After == "" {
				break
			}
		}
		if got = got[:min(len(got), 60)]; !slices.Equal(got, want) {
			t.Errorf("query %d: pages\n%q\none list\n%q", i, got, want)
		}
		q.K, q.After, q.Offset = 10, "", 20
		if page := ids(search(t, snap, q).Hits); !slices.Equal(page, want[20:min(30, len(want))]) {
			t.Errorf("query %d: offset 20: %q, want %q", i, page, want[20:min(30, len(want))])
		}
	}
}
