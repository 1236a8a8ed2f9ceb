package index

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

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
