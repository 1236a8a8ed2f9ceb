package index

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/bm25/sparse"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

func randomSparse(r *rand.Rand, terms uint32) sparse.Vector {
	var v sparse.Vector
	for t := r.Uint32N(5); t < terms; t += 1 + r.Uint32N(8) {
		v = append(v, sparse.Entry{Term: t * 1_000_003, Weight: float32(math.Exp(r.NormFloat64()))})
	}
	return v
}

// dot multiplies a query with a vector as it is stored.
func dot(q, v sparse.Vector) (sum float64) {
	for _, e := range v.Round() {
		if i, ok := slices.BinarySearchFunc(q, e.Term, func(e sparse.Entry, t uint32) int { return cmp.Compare(e.Term, t) }); ok {
			sum += float64(q[i].Weight) * float64(e.Weight)
		}
	}
	return sum
}

// TestSparseSearch: over segments, upserts, deletes, filters and a reopening the
// hits are those of a look at every document.
func TestSparseSearch(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	r := rand.New(rand.NewPCG(21, 1))
	docs := map[string]Document{}
	for part := range 5 {
		b := NewBatch()
		for range 150 {
			d := Document{ID: fmt.Sprintf("%03d", r.IntN(500)), Meta: map[string]any{"n": r.IntN(40)}}
			if r.IntN(8) > 0 {
				d.Sparse = map[string]sparse.Vector{"s": randomSparse(r, 60)}
			}
			b.Put(d)
			docs[d.ID] = d
		}
		for range 10 {
			id := fmt.Sprintf("%03d", r.IntN(500))
			b.Delete(id)
			delete(docs, id)
		}
		if err := ix.Apply(bg, b); err != nil {
			t.Fatal(err)
		}
		if part%2 == 0 {
			if err := ix.Flush(bg); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func() {
		t.Helper()
		for i := range 12 {
			q := Query{Sparse: &SparseQuery{Vector: randomSparse(r, 60)}, K: 7, Explain: true, Count: true}
			keep := func(Document) bool { return true }
			switch i % 3 {
			case 1:
				q.Filter, keep = filter.Lt("n", 20), func(d Document) bool { return d.Meta["n"].(int) < 20 }
			case 2:
				q.Filter, keep = filter.Eq("n", 3), func(d Document) bool { return d.Meta["n"].(int) == 3 }
			}
			checkSparse(t, ix, q, docs, keep)
		}
	}
	check()
	if err := ix.Close(); err != nil {
		t.Fatal(err)
	}
	ix = mustOpen(t, fs, func(o *Options) { o.Schema = nil })
	check()
	if err := ix.Merge(bg, 1); err != nil {
		t.Fatal(err)
	}
	check()
	for id, d := range docs {
		got, err := ix.Get(id)
		if err != nil || !slices.Equal(got.Sparse["s"], d.Sparse["s"].Round()) {
			t.Fatalf("%s: %v %v, want %v", id, got.Sparse, err, d.Sparse)
		}
	}
	if rep, err := Check(bg, "/db", fs, true); err != nil {
		t.Fatalf("%+v %v", rep, err)
	}
}

func checkSparse(t *testing.T, ix *Index, q Query, docs map[string]Document, keep func(Document) bool) {
	t.Helper()
	type hit struct {
		id    string
		score float32
	}
	var want []hit
	sum := 0.0
	for _, e := range q.Sparse.Vector {
		sum += float64(e.Weight)
	}
	for id, d := range docs {
		if x := dot(q.Sparse.Vector, d.Sparse["s"]); x > 0 && keep(d) {
			want = append(want, hit{id, float32(x)})
		}
	}
	slices.SortFunc(want, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	r := mustSearch(t, ix, q)
	if r.Total != len(want) || len(r.Hits) != min(len(want), q.K) {
		t.Fatalf("%d hits of %d, want %d of %d", len(r.Hits), r.Total, min(len(want), q.K), len(want))
	}
	for i, h := range r.Hits {
		y := h.Sparse.Raw / sum
		if h.ID != want[i].id || math.Abs(h.Sparse.Raw-float64(want[i].score)) > 1e-6*h.Sparse.Raw || h.Kind != ScoreSparse ||
			h.Score != h.Sparse.Score || math.Abs(h.Score-y/(1+y)) > 1e-12 || h.Sparse.Rank != i+1 || h.Keyword != nil || h.Vector != nil {
			t.Fatalf("hit %d: %+v %+v, want %v", i, h, h.Sparse, want[i])
		}
		parts := 0.0
		for _, p := range h.Explanation.Details[0].Details {
			parts += p.Value
		}
		if h.Explanation.Value != h.Score || math.Abs(parts-h.Sparse.Raw) > 1e-6*parts {
			t.Fatalf("explained as %+v", h.Explanation)
		}
	}
	// Pages joined are the long list.
	var joined []string
	page := q
	for page.K = 3; ; {
		r := mustSearch(t, ix, page)
		joined = append(joined, hitIDs(r)...)
		if page.After = r.Next; r.Next == "" {
			break
		}
	}
	long := q
	long.K = max(len(want), 1)
	if !slices.Equal(joined, hitIDs(mustSearch(t, ix, long))) {
		t.Fatal("pages differ from one list")
	}
}

// TestThreeLegs fuses by hand what the legs give.
func TestThreeLegs(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	r := rand.New(rand.NewPCG(22, 1))
	b := NewBatch()
	for i := range 60 {
		d := Document{ID: fmt.Sprintf("%02d", i), Text: map[string]string{"body": strings.Join(modelWords[r.IntN(5):5+r.IntN(5)], " ")}}
		if r.IntN(3) > 0 {
			d.Vectors = map[string][]float32{"v": {r.Float32(), r.Float32(), 1, 2}}
		}
		if r.IntN(3) > 0 {
			d.Sparse = map[string]sparse.Vector{"s": randomSparse(r, 30)}
		}
		b.Put(d)
	}
	if err := ix.Apply(bg, b); err != nil {
		t.Fatal(err)
	}
	text, vector, sp := &TextQuery{Text: "beta gamma", Weight: 2}, &VectorQuery{Field: "v", Vector: []float32{.5, .5, 1, 2}}, &SparseQuery{Vector: randomSparse(r, 30), Weight: .5}
	legs := []Query{{Text: text}, {Vector: vector}, {Sparse: sp}}
	weights := []float64{2, 1, .5}
	for set := 3; set < 8; set++ {
		if set&(set-1) == 0 {
			continue
		}
		q := Query{K: 60}
		want := map[string]float64{}
		norm := 0.0
		for i, leg := range legs {
			if set>>i&1 == 0 {
				continue
			}
			q.Text, q.Vector, q.Sparse = cmp.Or(q.Text, leg.Text), cmp.Or(q.Vector, leg.Vector), cmp.Or(q.Sparse, leg.Sparse)
			leg.K = 60
			for rank, h := range mustSearch(t, ix, leg).Hits {
				want[h.ID] += weights[i] / float64(61+rank)
			}
			norm += weights[i] / 61
		}
		for _, m := range []FusionMethod{RRF, Weighted} {
			q.Fusion.Method = m
			res := mustSearch(t, ix, q)
			if len(res.Hits) != len(want) {
				t.Fatalf("legs %b: %d hits, want %d", set, len(res.Hits), len(want))
			}
			for _, h := range res.Hits {
				if m == RRF && math.Abs(h.Score-want[h.ID]/norm) > 1e-12 {
					t.Fatalf("legs %b, %s: score %v, want %v", set, h.ID, h.Score, want[h.ID]/norm)
				}
				if (h.Keyword != nil || h.Vector != nil || h.Sparse != nil) != true || h.Kind != ScoreRRF && m == RRF || h.Kind != ScoreWeighted && m == Weighted {
					t.Fatalf("%+v", h)
				}
			}
			q.Explain, q.ExplainID = true, "no such"
			if e := mustSearch(t, ix, q).Hits[0].Explanation; len(e.Details) == 0 || e.What == "" {
				t.Fatalf("%+v", e)
			}
			q.Explain, q.ExplainID = false, ""
		}
	}
}

// TestSparseQueryErrors names what is wrong with the query.
func TestSparseQueryErrors(t *testing.T) {
	ix := mustOpen(t, storage.NewMemFS(), nil)
	put(t, ix, Document{ID: "a", Sparse: map[string]sparse.Vector{"s": {{Term: 7, Weight: 2}}}}, Document{ID: "b", Sparse: map[string]sparse.Vector{"s": {}}})
	one := sparse.Vector{{Term: 7, Weight: 1}}
	for want, q := range map[string]*SparseQuery{
		`no sparse field "v"`: {Field: "v", Vector: one},
		"weight -1":           {Vector: one, Weight: -1},
		"weight 0 of term 7":  {Vector: sparse.Vector{{Term: 7}}},
		"given twice":         {Vector: append(one, one...)},
	} {
		if _, err := ix.Search(bg, Query{Sparse: q, K: 1}); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	r := mustSearch(t, ix, Query{Sparse: &SparseQuery{}, K: 5})
	if len(r.Hits) != 0 || len(r.Notes) != 1 {
		t.Errorf("empty query: %v %v", r.Hits, r.Notes)
	}
	if r = mustSearch(t, ix, Query{Sparse: &SparseQuery{Vector: one}, K: 5, ExplainID: "b"}); len(r.Hits) != 1 || r.Hits[0].Sparse.Raw != 2 || !strings.Contains(r.Plan.Lost, "none of the terms") {
		t.Errorf("%+v %+v", r.Hits, r.Plan)
	}
	if d, err := ix.Get("b"); err != nil || d.Sparse != nil {
		t.Errorf("an empty vector is given back: %v %v", d, err)
	}
	two := mustOpen(t, storage.NewMemFS(), func(o *Options) { o.Schema.Sparse = append(o.Schema.Sparse, SparseField{"t"}) })
	if _, err := two.Search(bg, Query{Sparse: &SparseQuery{Vector: one}, K: 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("two fields, none named: %v", err)
	}
	var d Document
	if err := json.Unmarshal([]byte(`{"id":"x","sparse":{"s":{"12":0.5,"3":1}}}`), &d); err != nil || len(d.Sparse["s"]) != 2 {
		t.Errorf("%+v %v", d, err)
	}
}

// TestSparseVersions: an index without sparse fields is written as before, one
// with them is refused by what knows version 1 alone; a field may be added.
func TestSparseVersions(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, func(o *Options) { o.Schema.Sparse = nil })
	put(t, ix, Document{ID: "a", Text: map[string]string{"body": "x"}})
	if err := errors.Join(ix.Flush(bg), ix.Close()); err != nil {
		t.Fatal(err)
	}
	version := func(want string) {
		t.Helper()
		m, err := storage.ReadManifest(fs, "/db")
		if err != nil || !strings.HasPrefix(string(m.Schema), `{"version":`+want) {
			t.Errorf("%.40s %v, want version %s", m.Schema, err, want)
		}
	}
	version("1")
	ix = mustOpen(t, fs, nil)
	put(t, ix, Document{ID: "b", Sparse: map[string]sparse.Vector{"s": {{Term: 7, Weight: 2}}}})
	if err := errors.Join(ix.Flush(bg), ix.Merge(bg, 1), ix.Close()); err != nil {
		t.Fatal(err)
	}
	version("2")
	ix = mustOpen(t, fs, func(o *Options) { o.Schema = nil })
	if r := mustSearch(t, ix, Query{Sparse: &SparseQuery{Vector: sparse.Vector{{Term: 7, Weight: 1}}}, K: 5}); len(r.Hits) != 1 {
		t.Errorf("%+v", r.Hits)
	}
	if st, err := ix.Stats(); err != nil || !slices.ContainsFunc(st.Fields, func(f FieldStats) bool { return f.Kind == "sparse" && f.Documents == 1 }) {
		t.Errorf("%+v %v", st.Fields, err)
	}
}

// TestSparseSalvaged: damage of the postings of sparse vectors loses no document
// and no vector.
func TestSparseSalvaged(t *testing.T) {
	fs := storage.NewMemFS()
	ix := mustOpen(t, fs, nil)
	want := map[string]sparse.Vector{}
	r := rand.New(rand.NewPCG(23, 1))
	b := NewBatch()
	for i := range 80 {
		v := randomSparse(r, 200).Round()
		want[fmt.Sprintf("%02d", i)] = v
		b.Put(Document{ID: fmt.Sprintf("%02d", i), Sparse: map[string]sparse.Vector{"s": v}})
	}
	if err := errors.Join(ix.Apply(bg, b), ix.Flush(bg)); err != nil {
		t.Fatal(err)
	}
	s, err := ix.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	name, at := s.segs[0].name, int64(-1)
	for _, sec := range s.segs[0].File.Sections() {
		if strings.HasSuffix(sec.Name, "sparse/s/lists") {
			at = sec.Offset + sec.Size/2
		}
	}
	if err := errors.Join(s.Close(), ix.Close()); err != nil || at < 0 {
		t.Fatal(err, at)
	}
	files := readAll(t, fs, "/db")
	files[name] = slices.Clone(files[name])
	files[name][at] ^= 0x55
	fs = writeAll(t, files)
	if _, err := Repair(bg, "/db", "/new", &Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	ix, err = Open("/new", &Options{FS: fs, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if d, err := ix.Get(id); err != nil || !slices.Equal(d.Sparse["s"], want[id]) {
			t.Fatalf("%s: %v %v", id, d.Sparse, err)
		}
	}
}
