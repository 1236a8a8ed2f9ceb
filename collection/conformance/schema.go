package conformance

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
	"github.com/quarrysearch/quarry/storage"
)

func testSchema(t *testing.T, o Options) {
	c, done := o.open(t, "schema", &index.Schema{Text: []index.TextField{{Name: "text", Analyzer: "german"}}, Meta: map[string]filter.Type{"n": filter.Int64}})
	put := func(c collection.Collection, id string, meta map[string]any) error {
		return c.Apply(bounded(t), batchOf([]index.Document{{ID: id, Meta: meta}}))
	}
	meta := func(want map[string]filter.Type) {
		t.Helper()
		s, err := c.Schema(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		for f, typ := range want {
			if have, ok := s.Meta[f]; !ok || have != typ {
				t.Errorf("field %q is %v (%v), want %v", f, have, ok, typ)
			}
		}
	}
	if err := put(c, "a", map[string]any{"later": nil, "seen": "x", "when": []any{}}); err != nil {
		t.Fatal(err)
	}
	meta(map[string]filter.Type{"n": filter.Int64, "later": filter.Undeclared, "seen": filter.Keyword, "when": filter.Undeclared})
	if err := put(c, "b", map[string]any{"later": 1.5}); err != nil {
		t.Fatal(err)
	}
	meta(map[string]filter.Type{"later": filter.Float64})
	for _, bad := range []map[string]any{{"n": "text"}, {"later": "text"}, {"seen": true}, {"text": "a text field"}} {
		if err := put(c, "c", bad); !errors.Is(err, storage.ErrSchema) && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v, want ErrSchema", bad, err)
		}
	}
	for f, want := range map[string]int{"later": 1, "seen": 1} {
		if n, err := c.Count(bounded(t), filter.Exists(f)); n != want || err != nil {
			t.Errorf("%d documents with %q, want %d (%v)", n, f, want, err)
		}
	}
	done()
	// Another program adds fields.
	c, done = o.open(t, "schema", &index.Schema{Text: []index.TextField{{Name: "text", Analyzer: "german"}, {Name: "more"}},
		Vectors: []index.VectorField{{Name: "v", Dim: 2}}, Strict: true})
	doc := index.Document{ID: "d", Text: map[string]string{"more": "added fields"}, Vectors: map[string][]float32{"v": {0, 1}}}
	if err := c.Apply(bounded(t), batchOf([]index.Document{doc})); err != nil {
		t.Fatal(err)
	}
	if res := search(t, c, index.Query{Text: &index.TextQuery{Text: "added"}, Vector: &index.VectorQuery{Vector: []float32{0, 2}}, K: 5}); len(res.Hits) != 1 {
		t.Errorf("%d hits in the added fields", len(res.Hits))
	}
	if err := put(c, "e", map[string]any{"undeclared": 1}); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("undeclared metadata in a strict schema: %v", err)
	}
	meta(map[string]filter.Type{"n": filter.Int64, "later": filter.Float64, "seen": filter.Keyword})
	done()
	c, _ = o.open(t, "schema", nil)
	if s, err := c.Schema(bounded(t)); err != nil || len(s.Text) != 2 || len(s.Vectors) != 1 || !s.Strict {
		t.Errorf("schema %+v, %v", s, err)
	}
}

func testErrors(t *testing.T, o Options) {
	c, done, _ := o.vectors(t)
	word := &index.TextQuery{Text: "river"}
	near := &index.VectorQuery{Field: "l2", Vector: make([]float32, dim)}
	none := math.NaN()
	for name, q := range map[string]index.Query{
		"k 0": {}, "k 10,001": {K: index.MaxK + 1}, "offset -1": {K: 1, Offset: -1}, "depth -1": {K: 1, Depth: -1}, "minimum": {K: 1, MinScore: math.NaN()},
		"cursor":          {K: 1, After: "?"},
		"unknown filter":  {K: 1, Filter: filter.Eq("nothing", 1)},
		"type of filter":  {K: 1, Filter: filter.Eq("part", "x")},
		"unknown field":   {K: 1, Fields: []string{"nothing"}},
		"unknown facet":   {K: 1, Facets: []index.FacetRequest{{Field: "title"}}},
		"text field":      {K: 1, Text: &index.TextQuery{Text: "a", Fields: map[string]float64{"nothing": 1}}},
		"two texts":       {K: 1, Text: &index.TextQuery{Text: "a", QueryString: "b"}},
		"not UTF-8":       {K: 1, Text: &index.TextQuery{Text: "\xff"}},
		"vector field":    {K: 1, Vector: &index.VectorQuery{Vector: near.Vector}},
		"dimension":       {K: 1, Vector: &index.VectorQuery{Field: "l2", Vector: near.Vector[1:]}},
		"zero vector":     {K: 1, Vector: &index.VectorQuery{Field: "cosine", Vector: near.Vector}},
		"within":          {K: 1, Vector: &index.VectorQuery{Field: "l2", Vector: near.Vector, Within: &none}},
		"weight":          {K: 1, Text: &index.TextQuery{Text: "a", Weight: -1}, Vector: near},
		"rank constant":   {K: 1, Text: word, Vector: near, Fusion: index.Fusion{RankConstant: -1}},
		"highlight field": {K: 1, Text: word, Highlight: []string{"part"}},
	} {
		if _, err := c.Search(bounded(t), q); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, d := range map[string]index.Document{
		"no id": {}, "long id": {ID: strings.Repeat("x", 513)}, "text field": {ID: "x", Text: map[string]string{"no": ""}}, "not UTF-8": {ID: "x", Text: map[string]string{"body": "\xff"}},
		"dimension": {ID: "x", Vectors: map[string][]float32{"l2": {1}}}, "not finite": {ID: "x", Vectors: map[string][]float32{"l2": append(make([]float32, dim-1), float32(math.NaN()))}},
		"metadata": {ID: "x", Meta: map[string]any{"part": struct{}{}}},
	} {
		b := batchOf([]index.Document{{ID: "not written"}, d})
		err := c.Apply(bounded(t), b)
		if !errors.Is(err, storage.ErrInvalid) && !errors.Is(err, storage.ErrSchema) && !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ok, err := c.Exists(bounded(t), "not written"); ok || err != nil {
		t.Errorf("a document of a batch that was refused is there (%v)", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Search(gone, index.Query{Text: word, K: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("search with a context that has ended: %v", err)
	}
	if _, err := c.Count(gone, filter.Filter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("count with a context that has ended: %v", err)
	}
	done()
	if _, err := c.Search(bounded(t), index.Query{Text: word, K: 1}); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("search of a closed collection: %v", err)
	}
	if err := c.Apply(bounded(t), batchOf(nil)); !errors.Is(err, storage.ErrClosed) {
		t.Errorf("batch for a closed collection: %v", err)
	}
}
