package filter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/quarrysearch/quarry/storage"
)

// Facets over segments, by either way of counting, are those of the rows.
func TestFacetEqualsRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		typ := Type(rapid.IntRange(1, 5).Draw(r, "type"))
		schema := map[string]Type{"f": typ}
		got, merged := NewFacet("f"), NewFacet("f")
		counts := map[Value]uint64{}
		var stats FacetStats
		for range rapid.IntRange(0, 3).Draw(r, "segments") {
			rows := genRows(r, schema, 20)
			matches := roaring.New()
			for doc, row := range rows {
				if rapid.Bool().Draw(r, "match") {
					matches.Add(uint32(doc))
					countRow(row["f"], counts, &stats)
				}
			}
			seg := segment(r, rows)
			part := NewFacet("f")
			if err := errors.Join(got.Add(context.Background(), seg, matches), part.Add(context.Background(), seg, matches), merged.Merge(part)); err != nil {
				r.Fatalf("%v", err)
			}
		}
		want := rankPlain(counts)
		if len(want) > 0 {
			stats.Distinct = len(want)
			stats.Min, stats.Max = extremes(want)
		}
		for _, f := range []*Facet{got, merged} {
			if s := f.Stats(); s != stats {
				r.Fatalf("stats %+v, want %+v", s, stats)
			}
			for _, n := range []int{-1, 0, 1, 3, 100} {
				w := want
				if n >= 0 && n < len(w) {
					w = w[:n]
				}
				if top := f.Top(n); !slices.Equal(top, w) {
					r.Fatalf("top %d: %v, want %v", n, top, w)
				}
			}
		}
	})
}

func countRow(v Value, counts map[Value]uint64, stats *FacetStats) {
	switch {
	case v.IsMissing():
		stats.Missing++
	case v.IsNull():
		stats.Null++
	case v.Len() == 0:
		stats.Empty++
	default:
		stats.Values++
		seen := map[Value]bool{}
		for e := range v.Elements() {
			if !seen[e] {
				counts[e]++
			}
			seen[e] = true
		}
	}
}

func rankPlain(counts map[Value]uint64) []Count {
	var out []Count
	for v, n := range counts {
		out = append(out, Count{v, n})
	}
	slices.SortFunc(out, func(a, b Count) int {
		if a.Docs != b.Docs {
			return int(b.Docs) - int(a.Docs)
		}
		return compareValues(a.Value, b.Value)
	})
	return out
}

func extremes(counts []Count) (lo, hi Value) {
	lo, hi = counts[0].Value, counts[0].Value
	for _, c := range counts {
		if compareValues(c.Value, lo) < 0 {
			lo = c.Value
		}
		if compareValues(c.Value, hi) > 0 {
			hi = c.Value
		}
	}
	return lo, hi
}

// The three ways of counting agree on a large segment.
func TestFacetLarge(t *testing.T) {
	const docs = 9000
	rows := largeRows(docs, 7)
	seg := segment(t, rows)
	all := roaring.New()
	all.AddRange(0, docs)
	some := roaring.New()
	for doc := uint32(3); doc < docs; doc += 97 {
		some.Add(doc)
	}
	for _, name := range []string{"k", "n", "f", "b", "l", "id", "nope"} {
		for _, matches := range []*roaring.Bitmap{nil, all, some} {
			counts := map[Value]uint64{}
			var stats FacetStats
			for doc, r := range rows {
				if matches == nil || matches.Contains(uint32(doc)) {
					countRow(r[name], counts, &stats)
				}
			}
			want := rankPlain(counts)
			f := seg.field(name)
			if f == nil {
				continue
			}
			for way, count := range map[string]func(c *Facet) error{
				"add":   func(c *Facet) error { return c.Add(context.Background(), seg, matches) },
				"value": func(c *Facet) error { c.typ = f.typ; return c.byValue(context.Background(), f, matches) },
				"doc": func(c *Facet) error {
					c.typ = f.typ
					m := matches
					if m == nil {
						m = all
					}
					return c.byDoc(context.Background(), f, m, m.GetCardinality())
				},
			} {
				c := NewFacet(name)
				if err := count(c); err != nil {
					t.Fatal(err)
				}
				if top := c.Top(-1); !slices.Equal(top, want) {
					t.Errorf("%s by %s: %d values, want %d", name, way, len(top), len(want))
				}
			}
		}
	}
}

func TestFacetRefusals(t *testing.T) {
	a, b := segment(t, []row{{"f": keywordValue("a")}}), segment(t, []row{{"f": numberValue(Int64, 1)}})
	c := NewFacet("f")
	if err := c.Add(context.Background(), a, roaring.BitmapOf(1)); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("match beyond the docs: %v", err)
	}
	if err := errors.Join(c.Add(context.Background(), a, nil), c.Add(context.Background(), b, nil)); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("two types: %v", err)
	}
	if got, want := c.Top(5), []Count{{keywordValue("a"), 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func ExampleFacet() {
	b := NewBuilder()
	for doc, lang := range []string{"en", "de", "en", "fr"} {
		v, _ := Normalize(lang, Keyword)
		_ = b.Add(uint32(doc), "lang", v)
	}
	s := sections{}
	_ = b.Write(s.create, 4)
	seg, _ := Open(s.open, 4)
	f := NewFacet("lang")
	_ = f.Add(context.Background(), seg, nil)
	fmt.Println(f.Top(2))
	// Output: [{"en" 2} {"de" 1}]
}
