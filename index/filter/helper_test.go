package filter

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"
)

// sections is a segment in memory.
type sections map[string]*bytes.Buffer

func (s sections) create(name string) (io.Writer, error) {
	if s[name] != nil {
		return nil, fmt.Errorf("section %q written twice", name)
	}
	s[name] = new(bytes.Buffer)
	return s[name], nil
}

func (s sections) open(name string) ([]byte, bool) {
	b, ok := s[name]
	if !ok {
		return nil, false
	}
	return b.Bytes(), true
}

// row is the metadata of one document.
type row map[string]Value

func (r row) get(field string) Value { return r[field] }

type fataler interface {
	Fatalf(string, ...any)
	Helper()
}

func build(t fataler, rows []row) sections {
	t.Helper()
	b := NewBuilder()
	for doc, r := range rows {
		for _, name := range slices.Sorted(maps.Keys(r)) {
			if err := b.Add(uint32(doc), name, r[name]); err != nil {
				t.Fatalf("add doc %d: %v", doc, err)
			}
		}
	}
	s := sections{}
	if err := b.Write(s.create, uint32(len(rows))); err != nil {
		t.Fatalf("write: %v", err)
	}
	return s
}

func segment(t fataler, rows []row) *Segment {
	t.Helper()
	s, err := Open(build(t, rows).open, uint32(len(rows)))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// rowsOf normalizes maps as a program would give them.
func rowsOf(t fataler, schema map[string]Type, docs ...map[string]any) []row {
	t.Helper()
	rows := make([]row, len(docs))
	for i, doc := range docs {
		rows[i] = row{}
		for name, v := range doc {
			val, err := Normalize(v, schema[name])
			if err != nil {
				t.Fatalf("doc %d field %q: %v", i, name, err)
			}
			rows[i][name] = val
		}
	}
	return rows
}

func schemaOf(m map[string]Type) Schema {
	return func(field string) (Type, bool) {
		t, ok := m[field]
		return t, ok
	}
}

// search returns the matching docs, by the bitmaps, after checking that the
// plain evaluator agrees.
func search(t fataler, rows []row, schema map[string]Type, f Filter) []uint32 {
	t.Helper()
	c, err := Compile(f, schemaOf(schema))
	if err != nil {
		t.Fatalf("compile %s: %v", f, err)
	}
	bm, err := c.Eval(context.Background(), segment(t, rows), nil, uint32(len(rows)))
	if err != nil {
		t.Fatalf("eval %s: %v", f, err)
	}
	if want := plain(t, rows, schema, f, nil); !bm.Equals(want) {
		t.Fatalf("%s: bitmaps give %v, rows give %v", f, bm, want)
	}
	return bm.ToArray()
}

// plain is Match on every row, without compiling for each.
func plain(t fataler, rows []row, schema map[string]Type, f Filter, live *roaring.Bitmap) *roaring.Bitmap {
	t.Helper()
	if _, err := Match(f, schemaOf(schema), row{}.get); err != nil {
		t.Fatalf("match %s: %v", f, err)
	}
	out := roaring.New()
	for doc, r := range rows {
		if f.matches(r.get) && (live == nil || live.Contains(uint32(doc))) {
			out.Add(uint32(doc))
		}
	}
	return out
}

// The generators draw from small pools, so that values, bounds and equal
// elements meet often.
var (
	keywordPool = []string{"", "a", "ab", "abc", "b", "ü", "üb", "\U0010ffff", "in", "12", "a b", "\"q\\", "2024-01-01"}
	intPool     = []int64{-1 << 63, -1<<53 - 1, -2, -1, 0, 1, 2, 3, 1 << 53, 1<<53 + 1, 1<<63 - 1}
	floatPool   = []float64{-1 << 63, -1.5, -0.5, 0, 0.5, 1, 1.5, 2, 1 << 53, 1<<53 + 2, 1 << 63, 1e300, 5e-324, -1e300}
	timePool    = []int64{-62135596800000000, -1, 0, 1, 1704067200000000, 1704067200000001, 1 << 62, -1 << 62}
)

func genScalar(t Type) *rapid.Generator[Value] {
	switch t {
	case Keyword:
		return rapid.Map(rapid.SampledFrom(keywordPool), keywordValue)
	case Int64:
		return rapid.Map(rapid.SampledFrom(intPool), func(i int64) Value { return numberValue(Int64, i) })
	case Float64:
		return rapid.Map(rapid.SampledFrom(floatPool), func(f float64) Value { return numberValue(Float64, floatKey(f)) })
	case Bool:
		return rapid.Map(rapid.Int64Range(0, 1), func(b int64) Value { return numberValue(Bool, b) })
	}
	return rapid.Map(rapid.SampledFrom(timePool), func(us int64) Value { return numberValue(Time, us) })
}

// genValue draws what one document holds; lists only when wanted.
func genValue(t Type, lists bool) *rapid.Generator[Value] {
	return rapid.Custom(func(r *rapid.T) Value {
		most := 7
		if lists {
			most = 11
		}
		switch k := rapid.IntRange(0, most).Draw(r, "form"); k {
		case 0:
			return Value{}
		case 1:
			return Null(t)
		case 2:
			return Value{typ: t, form: formList}
		default:
			if k <= 7 {
				return genScalar(t).Draw(r, "value")
			}
			var l listBuilder
			for _, v := range rapid.SliceOfN(genScalar(t), 1, 4).Draw(r, "list") {
				if err := l.add(v, t); err != nil {
					r.Fatalf("list: %v", err)
				}
			}
			return l.finish(t)
		}
	})
}

func genSchema() *rapid.Generator[map[string]Type] {
	return rapid.Custom(func(r *rapid.T) map[string]Type {
		m := map[string]Type{}
		for _, name := range []string{"f", "g h", "not", "é/x"}[:rapid.IntRange(1, 4).Draw(r, "fields")] {
			m[name] = Type(rapid.IntRange(1, 5).Draw(r, "type"))
		}
		return m
	})
}

func genRows(r *rapid.T, schema map[string]Type, most int) []row {
	lists := rapid.Bool().Draw(r, "lists")
	rows := make([]row, rapid.IntRange(0, most).Draw(r, "rows"))
	for i := range rows {
		rows[i] = row{}
		for _, name := range slices.Sorted(maps.Keys(schema)) {
			rows[i][name] = genValue(schema[name], lists).Draw(r, "value")
		}
	}
	return rows
}

// genLiteral draws a value that may be compared with a field of type t.
func genLiteral(r *rapid.T, t Type) Value {
	switch t {
	case Int64, Float64:
		t = rapid.SampledFrom([]Type{Int64, Float64}).Draw(r, "literal type")
	case Time:
		v := genScalar(Time).Draw(r, "literal")
		if rapid.Bool().Draw(r, "as text") {
			return keywordValue(formatTime(v.num))
		}
		return v
	}
	return genScalar(t).Draw(r, "literal")
}

func genFilter(r *rapid.T, schema map[string]Type, depth int) Filter {
	names := slices.Sorted(maps.Keys(schema))
	if depth > 0 && rapid.IntRange(0, 2).Draw(r, "inner") > 0 {
		kids := make([]Filter, rapid.IntRange(0, 3).Draw(r, "kids"))
		for i := range kids {
			kids[i] = genFilter(r, schema, depth-1)
		}
		switch rapid.IntRange(0, 2).Draw(r, "op") {
		case 0:
			return And(kids...)
		case 1:
			return Or(kids...)
		}
		return Not(genFilter(r, schema, depth-1))
	}
	name := rapid.SampledFrom(names).Draw(r, "field")
	typ := schema[name]
	values := func(least int) []any {
		vs := make([]any, rapid.IntRange(least, 4).Draw(r, "values"))
		for i := range vs {
			vs[i] = genLiteral(r, typ)
		}
		return vs
	}
	switch rapid.IntRange(0, 9).Draw(r, "leaf") {
	case 0:
		return Exists(name)
	case 1:
		return IsNull(name)
	case 2:
		return IsEmpty(name)
	case 3:
		return In(name, values(0)...)
	case 4:
		return ContainsAny(name, values(0)...)
	case 5:
		return ContainsAll(name, values(1)...)
	case 6:
		if typ == Keyword {
			return Prefix(name, rapid.SampledFrom(keywordPool).Draw(r, "prefix"))
		}
	case 7, 8:
		if typ != Bool {
			return genRange(r, name, typ)
		}
	}
	return Eq(name, genLiteral(r, typ))
}

func genRange(r *rapid.T, name string, typ Type) Filter {
	var b Bounds
	side := rapid.IntRange(1, 3).Draw(r, "sides")
	if side&1 != 0 {
		if v := genLiteral(r, typ); rapid.Bool().Draw(r, "open") {
			b.Gt = v
		} else {
			b.Gte = v
		}
	}
	if side&2 != 0 {
		if v := genLiteral(r, typ); rapid.Bool().Draw(r, "open") {
			b.Lt = v
		} else {
			b.Lte = v
		}
	}
	return Range(name, b)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
