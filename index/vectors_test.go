package index

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

// putVectors puts documents lo to hi−1, with vectors near one of 50 points.
func putVectors(t *testing.T, ix *Index, r *rand.Rand, lo, hi int) {
	t.Helper()
	b := NewBatch()
	for i := lo; i < hi; i++ {
		v := make([]float32, 4)
		for j := range v {
			v[j] = float32(i%50*(j+3)%17) + r.Float32()
		}
		b.Put(Document{ID: fmt.Sprintf("%05d", i), Vectors: map[string][]float32{"v": v}, Meta: map[string]any{"n": i % 10}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
}

// Filters that match the same documents have the same plan, estimates and hits,
// however they are written; the plan tells what the ways were expected to cost.
func TestEqualFiltersEqualPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(91, 92))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.GraphMin = 1000; o.MutableBytes = 64 << 20 })
	putVectors(t, ix, r, 0, 6000)
	search := func(f filter.Filter) *Results {
		return mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: []float32{3, 4, 5, 6}}, K: 10, Filter: f, Explain: true})
	}
	first := search(filter.In("n", 3, 4, 5))
	seg := first.Plan.Segments[0]
	if seg.Candidates != 1800 || seg.Scan == 0 || seg.Vector == "" {
		t.Errorf("plan %+v", seg)
	}
	for name, f := range map[string]filter.Filter{
		"or":       filter.Or(filter.Eq("n", 5), filter.Eq("n", 3), filter.Eq("n", 4)),
		"range":    filter.Between("n", 3, 5),
		"bounds":   filter.And(filter.Gt("n", 2), filter.Lt("n", 6)),
		"negation": filter.Not(filter.Or(filter.Lt("n", 3), filter.Gte("n", 6))),
	} {
		got := search(f)
		if !reflect.DeepEqual(got.Plan, first.Plan) || !slices.Equal(hitIDs(got), hitIDs(first)) {
			t.Errorf("%s: plan %+v, want %+v", name, got.Plan.Segments, first.Plan.Segments)
		}
	}
}

// A merge of segments with graphs keeps the largest one, and searches of the
// result find what the exact search finds, deletes and upserts included.
func TestMergeKeepsGraph(t *testing.T) {
	var log strings.Builder
	r := rand.New(rand.NewPCG(93, 94))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) {
		o.GraphMin, o.MutableBytes, o.NoBackground = 1000, 64<<20, true
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	putVectors(t, ix, r, 0, 5000)
	putVectors(t, ix, r, 4000, 6500) // replaces a thousand
	b := NewBatch()
	for i := 0; i < 6500; i += 10 {
		b.Delete(fmt.Sprintf("%05d", i))
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	if line := log.String(); !strings.Contains(line, "graph merged") || !strings.Contains(line, "rebuilt=\"\"") {
		t.Errorf("log: %s", line)
	}
	same, total := 0, 0
	for i := range 40 {
		q := Query{Vector: &VectorQuery{Field: "v", Vector: []float32{float32(i % 17), float32(i % 13), float32(i % 11), 5}}, K: 10}
		got := mustSearch(t, ix, q)
		q.Vector.Exact = true
		exact := mustSearch(t, ix, q)
		for _, id := range hitIDs(got) {
			if id[4] == '0' {
				t.Fatalf("deleted document %s", id)
			}
			if slices.Contains(hitIDs(exact), id) {
				same++
			}
		}
		total += len(exact.Hits)
	}
	if total != 400 || same < 380 {
		t.Errorf("%d of %d", same, total)
	}
}

// exactList is the ids of the live documents that pass, by (distance, id), and their raw
// squared distances: the oracle of what follows.
func exactList(t *testing.T, ix *Index, q []float32, f filter.Filter) (ids []string, raw []float64) {
	t.Helper()
	r := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: q, Exact: true}, K: MaxK, Filter: f})
	for _, h := range r.Hits {
		ids, raw = append(ids, h.ID), append(raw, h.Vector.Raw)
	}
	return ids, raw
}

// segmented has vectors in three segments, one of them with a graph, copies of
// vectors in several of them, and tombstones.
func segmented(t *testing.T) *Index {
	t.Helper()
	r := rand.New(rand.NewPCG(93, 94))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.GraphMin = 1500; o.MutableBytes = 64 << 20; o.NoBackground = true })
	putVectors(t, ix, r, 0, 2000)
	putVectors(t, ix, rand.New(rand.NewPCG(93, 94)), 2000, 2500) // the same again
	putVectors(t, ix, r, 2500, 2700)
	b := NewBatch()
	for i := 0; i < 2700; i += 7 {
		b.Delete(fmt.Sprintf("%05d", i))
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	return ix
}

// Within gives the hits whose raw value is no worse, itself included, in the
// order of a search without it, of all segments, filtered or not.
func TestWithin(t *testing.T) {
	ix := segmented(t)
	q := []float32{10, 5, 3, 8}
	for name, f := range map[string]filter.Filter{"all": {}, "some": filter.Lt("n", 4), "one": filter.Eq("n", 3), "none": filter.Eq("n", 77)} {
		ids, raw := exactList(t, ix, q, f)
		for _, at := range []int{0, 1, 9, 63, 64, 65, 300, len(raw) - 1} {
			if at >= len(raw) || at < 0 {
				continue
			}
			bound := raw[at]
			want := 0
			for want < len(raw) && raw[want] <= bound {
				want++
			}
			for _, exact := range []bool{true, false} {
				v := &VectorQuery{Field: "v", Vector: q, Within: &bound, Exact: exact, Ef: 3000}
				got := hitIDs(mustSearch(t, ix, Query{Vector: v, K: 5000, Filter: f}))
				if !slices.Equal(got, ids[:want]) {
					t.Errorf("%s, within %g, exact %v: %d hits, want %d", name, bound, exact, len(got), want)
				}
				if got := hitIDs(mustSearch(t, ix, Query{Vector: v, K: 5, Filter: f})); !slices.Equal(got, ids[:min(want, 5)]) {
					t.Errorf("%s, within %g, exact %v: the best 5 are %v, want %v", name, bound, exact, got, ids[:min(want, 5)])
				}
			}
		}
	}
	least := -1.0
	if got := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: q, Within: &least}, K: 5}); len(got.Hits) != 0 {
		t.Errorf("within less than nothing: %v", got.Hits)
	}
	if r := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: q, Plan: "two-hop"}, K: 5, Filter: filter.Lt("n", 4), Explain: true}); r.Plan.Segments[0].Vector != "two-hop" {
		t.Errorf("plan %+v", r.Plan.Segments[0])
	}
	if _, err := ix.Search(bg, Query{Vector: &VectorQuery{Field: "v", Vector: q, Plan: "abandoned"}, K: 5}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	bad := math.NaN()
	if _, err := ix.Search(bg, Query{Vector: &VectorQuery{Field: "v", Vector: q, Within: &bad}, K: 5}); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Of cosine and dot product the greater values are within.
func TestWithinSimilarity(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	for i := range 10 {
		put(t, ix, Document{ID: fmt.Sprint(i), Vectors: map[string][]float32{"c": {float32(i), 10, 0}}})
	}
	least := 0.9
	r := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "c", Vector: []float32{0, 1, 0}, Within: &least}, K: 10})
	if len(r.Hits) != 5 || r.Hits[4].Vector.Raw < least || r.Hits[0].ID != "0" {
		t.Errorf("%+v", r.Hits)
	}
}

// Pages of a walk too narrow to find everything at once give every document
// once, and no page depends on the others having been asked for.
func TestPagesLoseNothing(t *testing.T) {
	ix := segmented(t)
	q := []float32{10, 5, 3, 8}
	for name, f := range map[string]filter.Filter{"all": {}, "some": filter.Lt("n", 4)} {
		ids, _ := exactList(t, ix, q, f)
		query := Query{Vector: &VectorQuery{Field: "v", Vector: q, Ef: 1}, K: 40, Filter: f}
		seen := map[string]bool{}
		var all []string
		for page := 0; ; page++ {
			r := mustSearch(t, ix, query)
			if again := mustSearch(t, ix, query); !slices.Equal(hitIDs(r), hitIDs(again)) {
				t.Fatalf("%s: page %d is another the second time", name, page)
			}
			for _, id := range hitIDs(r) {
				if seen[id] {
					t.Fatalf("%s: page %d has %s again", name, page, id)
				}
				seen[id] = true
			}
			all = append(all, hitIDs(r)...)
			if query.After = r.Next; r.Next == "" {
				break
			}
			if len(r.Hits) != query.K {
				t.Fatalf("%s: page %d has %d hits and another follows", name, page, len(r.Hits))
			}
		}
		if len(all) != len(ids) {
			t.Errorf("%s: %d documents on all pages, want %d", name, len(all), len(ids))
		}
		// With every vector compared the pages are the list.
		query.Vector.Exact, query.After, all = true, "", nil
		for {
			r := mustSearch(t, ix, query)
			all = append(all, hitIDs(r)...)
			if query.After = r.Next; r.Next == "" {
				break
			}
		}
		if !slices.Equal(all, ids) {
			t.Errorf("%s: exact pages do not make the list", name)
		}
		query.Vector.Exact, query.After, query.MinScore = false, "", 0.02
		for n := 0; ; {
			r := mustSearch(t, ix, query)
			n += len(r.Hits)
			for _, h := range r.Hits {
				if h.Score < query.MinScore {
					t.Fatalf("%s: score %v", name, h.Score)
				}
			}
			if query.After = r.Next; r.Next == "" {
				break
			}
			if n > len(ids) {
				t.Fatalf("%s: pages without end", name)
			}
		}
	}
}

// TestPagesOfNarrowWalks: where walks for few hits miss some, a cursor by score
// alone would lose them.
func TestPagesOfNarrowWalks(t *testing.T) {
	const n, dim = 3000, 24
	r := rand.New(rand.NewPCG(99, 100))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) {
		o.Schema.Vectors[0] = VectorField{Name: "v", Dim: dim, Metric: quant.L2, M: 4, Construct: 8}
		o.GraphMin, o.MutableBytes = 1000, 64<<20
	})
	vector := func() []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	b := NewBatch()
	for i := range n {
		b.Put(Document{ID: fmt.Sprintf("%05d", i), Vectors: map[string][]float32{"v": vector()}})
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Flush(bg); err != nil {
		t.Fatal(err)
	}
	late := 0
	for range 5 {
		query := Query{Vector: &VectorQuery{Field: "v", Vector: vector(), Ef: 1}, K: 5}
		seen, last := map[string]bool{}, 1.0
		for len(seen) < 400 {
			r := mustSearch(t, ix, query)
			for _, h := range r.Hits {
				if seen[h.ID] {
					t.Fatalf("%s again", h.ID)
				}
				seen[h.ID] = true
				if h.Score > last {
					late++
				}
				last = h.Score
			}
			if query.After = r.Next; r.Next == "" {
				t.Fatal("the pages end")
			}
		}
		exact := mustSearch(t, ix, Query{Vector: &VectorQuery{Field: "v", Vector: query.Vector.Vector, Exact: true}, K: 60})
		for _, id := range hitIDs(exact) {
			if !seen[id] {
				t.Errorf("%s is lost", id)
			}
		}
	}
	if late == 0 {
		t.Error("no walk missed anything: this proves nothing")
	}
}

// A cursor goes on where it was when the document it names is gone.
func TestPagesAfterDelete(t *testing.T) {
	ix := segmented(t)
	query := Query{Vector: &VectorQuery{Field: "v", Vector: []float32{10, 5, 3, 8}, Exact: true}, K: 20}
	first := mustSearch(t, ix, query)
	want := hitIDs(mustSearch(t, ix, Query{Vector: query.Vector, K: 40}))[20:]
	del(t, ix, first.Hits[19].ID)
	query.After = first.Next
	if got := hitIDs(mustSearch(t, ix, query)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// SearchAll is a loop over Search, whatever the threads; its error is that of the
// first bad query.
func TestSearchAll(t *testing.T) {
	ix := segmented(t)
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var list []Query
	for i := range 30 {
		list = append(list, Query{Vector: &VectorQuery{Field: "v", Vector: []float32{float32(i), 5, 3, 8}}, K: 1 + i, Filter: filter.Gt("n", i%9)})
	}
	for _, threads := range []int{0, 1, 3, 50} {
		got, err := s.SearchAll(bg, list, threads)
		if err != nil || len(got) != len(list) {
			t.Fatalf("%d threads: %d results, %v", threads, len(got), err)
		}
		for i, q := range list {
			want := mustSearch(t, s, q)
			want.Elapsed, got[i].Elapsed = 0, 0
			if !reflect.DeepEqual(got[i], want) {
				t.Fatalf("%d threads, query %d: %+v, want %+v", threads, i, got[i], want)
			}
		}
	}
	list[7].K = 0
	if _, err := s.SearchAll(bg, list, 1); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "query 7") {
		t.Error(err)
	}
	if got, err := s.SearchAll(bg, nil, 4); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}

// rewrite writes a filter in another way that means the same.
func rewrite(r *rand.Rand, depth int, lo, hi int) filter.Filter {
	one := func(i int) filter.Filter {
		switch r.IntN(5) {
		case 0:
			return filter.In("n", i, i)
		case 1:
			return filter.Between("n", i, i)
		case 2:
			return filter.And(filter.Gt("n", i-1), filter.Lt("n", float64(i)+0.5))
		case 3:
			return filter.Not(filter.Or(filter.Lt("n", i), filter.Gt("n", i), filter.Not(filter.Exists("n"))))
		}
		return filter.Eq("n", i)
	}
	if depth > 0 {
		switch r.IntN(5) {
		case 0:
			return filter.Not(filter.Not(rewrite(r, depth-1, lo, hi)))
		case 1:
			f := rewrite(r, depth-1, lo, hi)
			return filter.Or(f, rewrite(r, depth-1, lo, hi), f)
		case 2:
			return filter.And(filter.And(), rewrite(r, depth-1, lo, hi))
		case 3:
			if mid := lo + r.IntN(hi-lo+1); mid < hi {
				return filter.Or(rewrite(r, depth-1, mid+1, hi), rewrite(r, depth-1, lo, mid))
			}
		}
	}
	var list []filter.Filter
	for i := lo; i <= hi; i++ {
		list = append(list, one(i))
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return filter.Or(list...)
}

// TestRewrittenFiltersEqualPlans: whatever tree of conditions means the same has
// the same plan and hits; Explain's truth is the work done.
func TestRewrittenFiltersEqualPlans(t *testing.T) {
	ix := segmented(t)
	r := rand.New(rand.NewPCG(95, 96))
	for range 60 {
		lo := r.IntN(10)
		hi := lo + r.IntN(10-lo)
		q := Query{Vector: &VectorQuery{Field: "v", Vector: []float32{r.Float32() * 20, r.Float32() * 20, 3, 8}}, K: 1 + r.IntN(20), Filter: filter.Between("n", lo, hi), Explain: true}
		want := mustSearch(t, ix, q)
		for _, s := range want.Plan.Segments {
			if s.Matches > 0 && (s.Candidates != s.Matches || s.Distances == 0 || s.Rescored == 0 || s.Scan == 0) {
				t.Errorf("plan %+v", s)
			}
		}
		q.Filter = rewrite(r, 4, lo, hi)
		got := mustSearch(t, ix, q)
		if !reflect.DeepEqual(got.Plan, want.Plan) || !slices.Equal(hitIDs(got), hitIDs(want)) {
			t.Fatalf("%v: plan %+v, want %+v", q.Filter, got.Plan.Segments, want.Plan.Segments)
		}
	}
}

// A warm search makes what it returns and little besides, whatever the segments
// and the filter hold; what a leg does allocates nothing.
func TestWarmSearchAllocations(t *testing.T) {
	r := rand.New(rand.NewPCG(97, 98))
	ix := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.MutableBytes = 64 << 20 })
	b := NewBatch()
	for i := range 3000 {
		b.Put(searchDocument(r, i))
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	q := Query{K: 10, Depth: 200, Text: &TextQuery{Text: "river bridge"}, Vector: &VectorQuery{Field: "v", Vector: []float32{1, 2, 3, 4}}, Filter: filter.Eq("lang", "de")}
	sr, err := s.newSearch(bg, q)
	if err != nil {
		t.Fatal(err)
	}
	sr.buf = new(buffers)
	if err := sr.applyFilter(); err != nil {
		t.Fatal(err)
	}
	for _, l := range sr.legs {
		run := func() {
			if items, err := l.run(sr); err != nil || len(items) == 0 {
				t.Fatal(len(items), err)
			}
		}
		least := testing.AllocsPerRun(1, run)
		for range 50 { // a collection empties pools, and the race detector drops what is put there at random
			least = min(least, testing.AllocsPerRun(1, run))
		}
		if least != 0 {
			t.Errorf("%s leg: %v allocations", l.name, least)
		}
	}
}
