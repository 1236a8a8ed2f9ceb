package conformance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/collection"
	"github.com/quarrysearch/quarry/index"
	"github.com/quarrysearch/quarry/index/filter"
)

// metaSchema and metaDocuments have every type, with single values, lists,
// nulls, empty lists and missing fields.
func metaSchema() *index.Schema {
	return &index.Schema{Text: []index.TextField{{Name: "text", Analyzer: "english"}},
		Meta: map[string]filter.Type{"n": filter.Int64, "x": filter.Float64, "s": filter.Keyword, "b": filter.Bool, "t": filter.Time, "Unused": filter.Keyword}}
}

func metaDocuments(r *rand.Rand, n int) []index.Document {
	docs := make([]index.Document, n)
	for i := range docs {
		docs[i] = index.Document{ID: fmt.Sprintf("Doc %d", i), Meta: map[string]any{}, Text: map[string]string{"text": text(r, 3+r.IntN(20))}}
		for _, f := range []string{"n", "x", "s", "b", "t"} {
			switch form := r.IntN(10); {
			case form == 0: // missing
			case form == 1:
				docs[i].Meta[f] = nil
			case form == 2:
				docs[i].Meta[f] = []any{}
			case form < 7:
				docs[i].Meta[f] = value(r, f)
			default:
				list := make([]any, 1+r.IntN(3))
				for j := range list {
					list[j] = value(r, f)
				}
				docs[i].Meta[f] = list
			}
		}
	}
	return docs
}

// value is a value of a field, or one to compare it with.
func value(r *rand.Rand, field string) any {
	switch field {
	case "n":
		return []any{-3, 0, 1, 2, 7, int64(1 << 40), int64(1<<53 + 1), int64(1 << 53)}[r.IntN(8)]
	case "x":
		return []any{-1.5, 0.0, 0.1, 1.0, 2.0, 1e300, -1e-300}[r.IntN(7)]
	case "s":
		return []any{"", " ", "a", "A", "ab", "a b", "b\x00", "b", "é", "éa", "\u007f", "z*?", "\n"}[r.IntN(13)]
	case "b":
		return r.IntN(2) == 0
	}
	return time.Unix(int64(r.IntN(5)*100), int64(r.IntN(2)*1000)).UTC()
}

// condition is a random filter.
func condition(r *rand.Rand, depth int) filter.Filter {
	if depth > 0 && r.IntN(3) > 0 {
		kids := make([]filter.Filter, r.IntN(3))
		for i := range kids {
			kids[i] = condition(r, depth-1)
		}
		switch r.IntN(3) {
		case 0:
			return filter.And(kids...)
		case 1:
			return filter.Or(kids...)
		}
		return filter.Not(condition(r, depth-1))
	}
	f := []string{"n", "x", "s", "b", "t"}[r.IntN(5)]
	a, b := value(r, f), value(r, f)
	switch r.IntN(12) {
	case 0:
		return filter.Exists(f)
	case 1:
		return filter.IsNull(f)
	case 2:
		return filter.IsEmpty(f)
	case 3:
		return filter.In(f, a, b)
	case 4:
		return filter.ContainsAll(f, a, b)
	case 5:
		if f == "s" {
			return filter.Prefix(f, a.(string))
		}
		return filter.In(f)
	case 6, 7:
		if f != "b" {
			return filter.Between(f, a, b)
		}
	case 8:
		if f != "b" {
			return filter.Range(f, filter.Bounds{Gt: a, Lt: b})
		}
	case 9:
		if f != "b" {
			return filter.Gt(f, a)
		}
	case 10:
		if f != "b" {
			return filter.Lte(f, a)
		}
	}
	return filter.Eq(f, a)
}

func testFilters(t *testing.T, o Options) {
	r := rand.New(rand.NewPCG(7, 11))
	s := metaSchema()
	c, _ := o.open(t, "filters", s)
	docs := metaDocuments(r, 300)
	apply(t, c, batchOf(docs))
	filters := []filter.Filter{
		filter.Eq("n", 7.0), filter.Gte("n", 1.5), filter.Lt("n", 2.5), filter.Eq("n", int64(1<<53)), filter.Eq("x", 1), filter.Gt("x", 0), filter.Lte("s", "a b"),
		filter.Eq("Unused", "x"), filter.Exists("Unused"), filter.Not(filter.Eq("Unused", "x")), filter.Prefix("Unused", ""), filter.Prefix("s", ""),
		filter.And(filter.Gte("n", 0), filter.Lte("n", 7)), filter.Not(filter.Or(filter.Exists("n"), filter.IsNull("n"))), filter.Between("t", "1970-01-01", "1970-01-02"),
	}
	for range 150 {
		filters = append(filters, condition(r, 2))
	}
	typeOf := func(f string) (filter.Type, bool) { typ, ok := s.Meta[f]; return typ, ok }
	for _, f := range filters {
		var want []string
		for _, d := range docs {
			ok, err := filter.Match(f, typeOf, func(field string) filter.Value {
				v, there := d.Meta[field]
				if !there {
					return filter.Value{}
				}
				norm, err := filter.Normalize(v, s.Meta[field])
				if err != nil {
					t.Fatal(err)
				}
				return norm
			})
			if err != nil {
				t.Fatalf("%v: %v", f, err)
			}
			if ok {
				want = append(want, d.ID)
			}
		}
		slices.Sort(want)
		res := search(t, c, index.Query{Filter: f, K: 1000, Count: true})
		if got := ids(res.Hits); !slices.Equal(got, want) || res.Total != len(want) {
			t.Errorf("%v: %d hits, total %d, want %d\n got %q\nwant %q", f, len(got), res.Total, len(want), got, want)
		}
		if n, err := c.Count(bounded(t), f); n != len(want) || err != nil {
			t.Errorf("%v: count %d, want %d (%v)", f, n, len(want), err)
		}
	}
	t.Run("Facets", func(t *testing.T) { testFacets(t, c, docs) })
}

// testFacets compares facets of filters, of words and of both with those of an
// index.
func testFacets(t *testing.T, c collection.Collection, docs []index.Document) {
	ix := reference(t, metaSchema(), docs)
	facets := []index.FacetRequest{{Field: "s", Limit: 100}, {Field: "n", Limit: 3}, {Field: "x"}, {Field: "b"}, {Field: "t"}, {Field: "Unused"}}
	for i, q := range []index.Query{
		{Filter: filter.And()}, {Filter: filter.Gt("n", 0)}, {Filter: filter.Or()},
		{Text: &index.TextQuery{Text: "river stone"}}, {Text: &index.TextQuery{Text: "river stone"}, Filter: filter.Exists("s")},
		{Text: &index.TextQuery{Text: "nowhere"}},
	} {
		q.K, q.Count, q.Facets = 10, true, facets
		want, err := ix.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, q.K = range []int{10, 0} {
			got := search(t, c, q)
			if got.Total != want.Total || !reflect.DeepEqual(got.Facets, want.Facets) || q.K == 0 && len(got.Hits) > 0 {
				t.Errorf("query %d, k %d: %d hits, total %d, facets %v\nwant %d, %v", i, q.K, len(got.Hits), got.Total, got.Facets, want.Total, want.Facets)
			}
		}
	}
}
