package filter

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"
)

// The bitmaps say what the rows say: random schemas, documents and filters,
// tombstones, and the same documents in two segments, merged, and reopened.
func TestEvalEqualsRows(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		schema := genSchema().Draw(r, "schema")
		rows := genRows(r, schema, 40)
		f := genFilter(r, schema, 3)
		var live *roaring.Bitmap
		if rapid.Bool().Draw(r, "tombstones") {
			live = roaring.New()
			for doc := range rows {
				if rapid.IntRange(0, 3).Draw(r, "live") > 0 {
					live.Add(uint32(doc))
				}
			}
		}
		c, err := Compile(f, schemaOf(schema))
		if err != nil {
			r.Fatalf("compile %s: %v", f, err)
		}
		got, err := c.Eval(context.Background(), segment(r, rows), live, uint32(len(rows)))
		if err != nil {
			r.Fatalf("eval %s: %v", f, err)
		}
		if want := plain(r, rows, schema, f, live); !got.Equals(want) {
			r.Fatalf("%s: bitmaps give %v, rows give %v", f, got, want)
		}
	})
}

// The same with enough docs that stored bitmaps, runs, windows, complements of
// ranges and probes all come into play.
func TestEvalLarge(t *testing.T) {
	schema := map[string]Type{"k": Keyword, "n": Int64, "f": Float64, "b": Bool, "l": Keyword, "id": Int64}
	const docs = 66600
	rows := largeRows(docs, 1)
	seg := segment(t, rows)
	if err := seg.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	live := roaring.New()
	live.AddRange(10, docs-7)
	live.Remove(66000)
	for _, f := range []Filter{
		Eq("k", "w3"), Eq("k", "none"), In("k", "w1", "w2", "w500"), Prefix("k", "w1"), Gt("k", "w2"),
		Gte("n", 0), Lt("n", 100), Between("n", 10, 900), Gt("n", 20), Eq("n", 7), Between("n", 990, 2000),
		Gt("f", 0.5), Lt("f", 0.001), Eq("b", true), Not(Eq("b", true)), ContainsAll("l", "x1", "x2"),
		In("l", "x1", "x2", "x3"), Between("id", 100, 66000), Between("id", 100, 200), Lt("id", 600), Eq("id", 5),
		And(Eq("k", "w3"), Between("id", 5, 66590), Not(Eq("n", 4))), And(Between("id", 5, 300), Gt("f", 0.1), Prefix("l", "x")),
		Or(Eq("k", "w3"), Eq("k", "w4"), Eq("k", "w5"), Lt("id", 10)), Or(Not(Eq("k", "w1")), Not(Lt("id", 1000)), IsNull("n")),
		And(Not(Exists("n")), Not(IsNull("n"))), Exists("k"), IsNull("n"), IsEmpty("l"), And(), Or(), Filter{},
		Or(Eq("id", 1), Gte("id", 65530)),
	} {
		c := must(Compile(f, schemaOf(schema)))(t)
		want := plain(t, rows, schema, f, nil)
		for _, l := range []*roaring.Bitmap{nil, live} {
			if l != nil {
				want.And(l)
			}
			got := must(c.Eval(context.Background(), seg, l, docs))(t)
			if !got.Equals(want) {
				t.Errorf("%s: bitmaps give %d docs, rows give %d", f, got.GetCardinality(), want.GetCardinality())
			}
			if err := got.Validate(); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}

// largeRows makes rows with fields of every shape, the same for a seed.
func largeRows(docs int, seed uint64) []row {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := make([]Value, 1000)
	for i := range words {
		words[i] = keywordValue("w" + formatFloat(float64(i))[:1] + string(rune('a'+i%26)) + string(rune('a'+i/26%26)))
	}
	rows := make([]row, docs)
	for i := range rows {
		r := row{"id": numberValue(Int64, int64(i))}
		r["k"] = keywordValue("w" + string(rune('0'+min(rng.IntN(20), 9))))
		if rng.IntN(100) == 0 {
			r["k"] = words[rng.IntN(len(words))]
		}
		switch rng.IntN(10) {
		case 0:
			r["n"] = Null(Int64)
		case 1:
		default:
			r["n"] = numberValue(Int64, rng.Int64N(1000))
		}
		r["f"] = numberValue(Float64, floatKey(rng.Float64()))
		r["b"] = numberValue(Bool, int64(i/30000&1))
		var l listBuilder
		for range rng.IntN(4) {
			_ = l.add(keywordValue("x"+string(rune('0'+rng.IntN(5)))), Keyword)
		}
		r["l"] = l.finish(Keyword)
		rows[i] = r
	}
	return rows
}

// The result belongs to the caller: changing it changes nothing else.
func TestEvalResultIsFresh(t *testing.T) {
	rows := largeRows(3000, 2)
	seg := segment(t, rows)
	live := roaring.New()
	live.AddRange(0, 3000)
	live.RunOptimize()
	before := live.Clone()
	for _, f := range []Filter{Eq("k", "w3"), Not(Eq("k", "w3")), Exists("id"), {}, And(), Or(Eq("k", "w3"), Eq("k", "none"))} {
		c := must(Compile(f, schemaOf(map[string]Type{"k": Keyword, "id": Int64})))(t)
		for _, l := range []*roaring.Bitmap{nil, live} {
			first := must(c.Eval(context.Background(), seg, l, 3000))(t)
			want := first.Clone()
			first.AddRange(0, 5000)
			first.RemoveRange(10, 2000)
			if again := must(c.Eval(context.Background(), seg, l, 3000))(t); !again.Equals(want) {
				t.Errorf("%s: the second result differs after the first was changed", f)
			}
		}
	}
	if !live.Equals(before) {
		t.Error("live was changed")
	}
	if err := seg.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestEvalArguments(t *testing.T) {
	seg := segment(t, largeRows(10, 3))
	if _, err := (Compiled{}).Eval(context.Background(), seg, nil, 11); err == nil {
		t.Error("a wrong number of docs is accepted")
	}
	c := must(Compile(Not(Eq("k", "a")), schemaOf(map[string]Type{"k": Keyword})))(t)
	if got := must(c.Eval(context.Background(), nil, nil, 5))(t); got.GetCardinality() != 5 {
		t.Errorf("without a segment all docs lack the field, got %v", got)
	}
	untyped := must(Compile(Eq("k", 1), schemaOf(map[string]Type{"k": Undeclared})))(t)
	if _, err := untyped.Eval(context.Background(), seg, nil, 10); err == nil {
		t.Error("a filter compiled without a type is accepted where there is one")
	}
	nulls := segment(t, []row{{"k": Null(0)}, {}})
	if got := must(untyped.Eval(context.Background(), nulls, nil, 2))(t); !got.IsEmpty() {
		t.Errorf("null equals something: %v", got)
	}
	wrong := must(Compile(Eq("k", 1), schemaOf(map[string]Type{"k": Int64})))(t)
	if _, err := wrong.Eval(context.Background(), seg, nil, 10); err == nil {
		t.Error("a filter compiled for another type is accepted")
	}
}

// A looked context is canceled from its so-many-th look on.
type looked struct {
	context.Context
	looks, left int
}

func (c *looked) Err() error {
	c.looks++
	if c.looks > c.left {
		return context.Canceled
	}
	return nil
}

// Evaluation and facets end at whichever look at the context says so, and look
// again after a bounded number of values, ranges and docs.
func TestCanceled(t *testing.T) {
	const docs = 20_000
	seg := segment(t, largeRows(docs, 4))
	schema := schemaOf(map[string]Type{"k": Keyword, "id": Int64, "n": Int64, "l": Keyword})
	words := make([]any, 1000)
	for i := range words {
		words[i] = "w" + string(rune('a'+i%26)) + string(rune('a'+i/26%26))
	}
	ors := make([]Filter, 100)
	for i := range ors {
		ors[i] = Gt("id", 19_000+i)
	}
	whole := roaring.New()
	whole.AddRange(0, docs)
	for name, c := range map[string]struct {
		least int // looks
		run   func(ctx context.Context) error
	}{
		"range":   {2, evaluate(t, seg, schema, docs, Gt("id", 12_000))},
		"in":      {3, evaluate(t, seg, schema, docs, In("k", words...))},
		"or":      {100, evaluate(t, seg, schema, docs, Or(ors...))},
		"probe":   {20, evaluate(t, seg, schema, docs, And(Between("id", 0, 5000), Gt("n", 20)))},
		"by doc":  {docs / pollValues, func(ctx context.Context) error { return NewFacet("id").Add(ctx, seg, whole) }},
		"by ord":  {docs / pollValues, func(ctx context.Context) error { return NewFacet("id").Add(ctx, seg, nil) }},
		"of list": {1, func(ctx context.Context) error { return NewFacet("l").Add(ctx, seg, whole) }},
	} {
		all := &looked{Context: context.Background(), left: 1 << 30}
		if err := c.run(all); err != nil || all.looks < c.least {
			t.Errorf("%s: %d looks, want %d or more: %v", name, all.looks, c.least, err)
		}
		for left := 0; left < all.looks; left += 1 + all.looks/20 {
			ctx := &looked{Context: context.Background(), left: left}
			if err := c.run(ctx); !errors.Is(err, context.Canceled) || ctx.looks != left+1 {
				t.Errorf("%s, canceled at look %d of %d: %d looks, %v", name, left, all.looks, ctx.looks, err)
			}
		}
	}
}

func evaluate(t *testing.T, seg *Segment, schema Schema, docs uint32, f Filter) func(ctx context.Context) error {
	c := must(Compile(f, schema))(t)
	return func(ctx context.Context) error {
		_, err := c.Eval(ctx, seg, nil, docs)
		return err
	}
}
