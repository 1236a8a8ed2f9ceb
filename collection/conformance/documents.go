package conformance

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

func testDocuments(t *testing.T, o Options) {
	s := &index.Schema{
		Text: []index.TextField{{Name: "Title"}, {Name: "body", Analyzer: "english"}, {Name: "hidden", NotStored: true}},
		Vectors: []index.VectorField{{Name: "dot", Dim: 6, Metric: quant.Dot}, {Name: "l2", Dim: 3, Metric: quant.L2},
			{Name: "cosine", Dim: 2, Metric: quant.Cosine}},
		Meta: map[string]filter.Type{"when": filter.Time, "ratio": filter.Float64, "n": filter.Int64, "tags": filter.Keyword, "on": filter.Bool},
	}
	c, _ := o.open(t, "documents", s)
	at := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.FixedZone("", 3600))
	docs := []index.Document{
		{ID: "plain", Text: map[string]string{"Title": "A title", "body": "Some words.\nOf two lines.", "hidden": "unseen"},
			Vectors: map[string][]float32{"dot": {1e-7, -0.1, 16777216, 3.4e12, 0.33333334, math.SmallestNonzeroFloat32}, "l2": {0, -0.5, 1e-20}, "cosine": {0.6, 0.8}},
			Meta:    map[string]any{"when": at, "ratio": 0.1, "n": int64(1<<53 + 1), "tags": []string{"b", "a", "b"}, "on": true}},
		{ID: "edges", Meta: map[string]any{"n": int64(math.MinInt64), "ratio": 5e-324, "tags": "", "on": false,
			"when": time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{ID: "more edges", Meta: map[string]any{"n": []int64{math.MaxInt64, -1, math.MaxInt64}, "ratio": []float64{math.MaxFloat64, -1.5, 3}, "on": []bool{true, false}}},
		{ID: "nothing", Meta: map[string]any{"n": nil, "tags": []string{}, "never": nil}},
		{ID: "bare"},
		{ID: " \t\x00Ünïcödé/🙂\"\\\u2028 ", Text: map[string]string{"Title": "\x00 \u2028 <&> \"quoted\" \\ 🙂"},
			Meta: map[string]any{"tags": []string{" x ", "x", "X", "\x00", "a\nb", strings.Repeat("long", 8192)}, "Odd name, ünï": "yes", "odd name, ünï": "no"}},
		{ID: strings.Repeat("i", 512), Text: map[string]string{"body": ""}},
	}
	apply(t, c, batchOf(docs))
	ix := reference(t, s, docs)
	same := func(id string) {
		t.Helper()
		want, err := ix.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Get(bounded(t), id)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("document %.40q:\n got %.2000s\nwant %.2000s", id, fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want))
		}
		if ok, err := c.Exists(bounded(t), id); !ok || err != nil {
			t.Errorf("document %.40q: exists: %v, %v", id, ok, err)
		}
	}
	for _, d := range docs {
		same(d.ID)
	}
	t.Run("replaced", func(t *testing.T) {
		next := index.Document{ID: "plain", Text: map[string]string{"body": "other"}, Meta: map[string]any{"n": 7}}
		apply(t, c, batchOf([]index.Document{next}))
		if err := ix.Apply(t.Context(), batchOf([]index.Document{next})); err != nil {
			t.Fatal(err)
		}
		same("plain")
		for _, f := range []filter.Filter{filter.Eq("tags", "a"), filter.Exists("when"), filter.Eq("on", true), filter.And(filter.Eq("n", int64(1<<53+1)))} {
			if n, err := c.Count(bounded(t), filter.And(f, filter.Eq("n", 7))); n != 0 || err != nil {
				t.Errorf("%v is still found after the document was replaced: %d, %v", f, n, err)
			}
		}
	})
	t.Run("missing", func(t *testing.T) {
		if _, err := c.Get(bounded(t), "PLAIN"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Get of what is not there: %v", err)
		}
		if ok, err := c.Exists(bounded(t), "PLAIN"); ok || err != nil {
			t.Errorf("Exists of what is not there: %v, %v", ok, err)
		}
	})
	t.Run("all", func(t *testing.T) { testScroll(t, c, docs) })
	t.Run("stats", func(t *testing.T) { testStats(t, c, len(docs)) })
}

// testScroll wants every document once, in order of id.
func testScroll(t *testing.T, c collection.Collection, docs []index.Document) {
	var want []string
	for _, d := range docs {
		want = append(want, d.ID)
	}
	slices.Sort(want)
	for _, from := range []string{"", "b", "bare", "bare\x00", "zzz"} {
		var got []string
		for d, err := range c.Documents(bounded(t), from) {
			if err != nil {
				t.Fatal(err)
			}
			one, err := c.Get(bounded(t), d.ID)
			if err != nil || !reflect.DeepEqual(d, one) {
				t.Errorf("document %.40q: listed as %.300v, got as %.300v (%v)", d.ID, d, one, err)
			}
			got = append(got, d.ID)
		}
		rest := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return id < from })
		if !slices.Equal(got, rest) {
			t.Errorf("from %q: %.300q, want %.300q", from, got, rest)
		}
	}
	for range c.Documents(bounded(t), "") {
		break // may end early
	}
}

func testStats(t *testing.T, c collection.Collection, documents int) {
	st, err := c.Stats(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for _, f := range st.Fields {
		n[f.Kind+" "+f.Name] = f.Documents
	}
	if st.Documents != documents || n["text body"] == 0 || n["vector dot"] > 1 || n["metadata n"] == 0 {
		t.Errorf("%d documents, want %d; fields %v", st.Documents, documents, n)
	}
}

func testDeletes(t *testing.T, o Options) {
	c, _ := o.open(t, "deletes", &index.Schema{Meta: map[string]filter.Type{"n": filter.Int64}})
	doc := func(i int) index.Document {
		return index.Document{ID: fmt.Sprintf("d%03d", i), Meta: map[string]any{"n": i}}
	}
	var docs []index.Document
	for i := range 300 {
		docs = append(docs, doc(i))
	}
	apply(t, c, batchOf(docs))
	want := func(step string, n int, gone ...string) {
		t.Helper()
		if got, err := c.Count(bounded(t), filter.Filter{}); got != n || err != nil {
			t.Errorf("%s: %d documents, want %d (%v)", step, got, n, err)
		}
		for _, id := range gone {
			if _, err := c.Get(bounded(t), id); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s: document %s: %v, want it gone", step, id, err)
			}
		}
	}
	want("put", 300)
	b := index.NewBatch()
	b.Delete("d000")
	b.Delete("not there")
	b.Delete("d001")
	apply(t, c, b)
	want("delete", 298, "d000", "d001")

	b = index.NewBatch()
	b.DeleteWhere(filter.Between("n", 2, 99))
	apply(t, c, b)
	want("delete where", 200, "d002", "d099")

	b = index.NewBatch()
	b.Put(doc(1))
	b.Put(doc(500))
	b.DeleteWhere(filter.Lt("n", 150)) // d001 of this batch, too
	b.Put(doc(120))
	b.Delete("d500")
	apply(t, c, b)
	want("in order", 151, "d001", "d119", "d121", "d500")
	if _, err := c.Get(bounded(t), "d120"); err != nil {
		t.Errorf("put after the filter: %v", err)
	}
	apply(t, c, b) // may be applied again
	want("again", 151, "d001", "d500")

	b = index.NewBatch()
	b.DeleteWhere(filter.Not(filter.Gte("n", 200)))
	apply(t, c, b)
	want("delete where not", 100)
	if n, err := c.Count(bounded(t), filter.Not(filter.Lt("n", 250))); n != 50 || err != nil {
		t.Errorf("not, after deletions: %d, want 50 (%v)", n, err)
	}
	b = index.NewBatch()
	b.DeleteWhere(filter.Filter{})
	if err := c.Apply(bounded(t), b); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("a filter that is none: %v", err)
	}
	b = index.NewBatch()
	b.DeleteWhere(filter.And())
	apply(t, c, b)
	want("all", 0)
}
