package filter

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
)

const benchDocs = 1_000_000

// benchSegment holds a million docs: lang with 10 values, one of them half of
// all; source with 100,000; price uniform; at ascending as in a log; tags, two
// of 50 a doc.
var benchSegment = sync.OnceValue(func() *Segment {
	rng := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder()
	s := sections{}
	for doc := range uint32(benchDocs) {
		lang := "l" + string(rune('0'+max(0, rng.IntN(19)-9)))
		tags := []int64{rng.Int64N(50), rng.Int64N(50)}
		var list listBuilder
		_ = list.add(numberValue(Int64, tags[0]), Int64)
		_ = list.add(numberValue(Int64, tags[1]), Int64)
		src := rng.IntN(100000)
		_ = b.Add(doc, "lang", keywordValue(lang))
		_ = b.Add(doc, "source", keywordValue("source/"+string(rune('a'+src%26))+formatFloat(float64(src))))
		_ = b.Add(doc, "price", numberValue(Float64, floatKey(rng.Float64()*1000)))
		_ = b.Add(doc, "at", numberValue(Time, int64(doc)*1e6+rng.Int64N(1e6)))
		_ = b.Add(doc, "tags", list.finish(Int64))
	}
	if err := b.Write(s.create, benchDocs); err != nil {
		panic(err)
	}
	seg, err := Open(s.open, benchDocs)
	if err != nil {
		panic(err)
	}
	return seg
})

var benchSchema = schemaOf(map[string]Type{"lang": Keyword, "source": Keyword, "price": Float64, "at": Time, "tags": Int64})

func BenchmarkEval(b *testing.B) {
	for _, c := range []struct{ name, filter string }{
		{"eq-half", `lang = l0`},
		{"eq-5pct", `lang = l3`},
		{"eq-10docs", `source = "source/a26.0"`},
		{"in-3", `lang in [l1, l2, l3]`},
		{"prefix-4pct", `source prefix "source/c"`},
		{"range-10docs", `price between 500 and 500.01`},
		{"range-1pct", `price between 500 and 510`},
		{"range-30pct", `price < 300`},
		{"range-70pct", `price < 700`},
		{"range-ascending-10pct", `at between 1970-01-02 and 1970-01-03T03:46:40Z`},
		{"contains-all", `tags contains all [3, 7]`},
		{"and-sparse-wide", `source = "source/a26.0" and price < 700`},
		{"and-5pct-30pct", `lang = l3 and price < 300`},
		{"or", `lang = l3 or price < 10 or tags = 4`},
		{"not", `not (lang = l3)`},
		{"and-not", `price < 10 and lang != l0`},
	} {
		b.Run(c.name, func(b *testing.B) {
			seg := benchSegment()
			f := must(Parse(c.filter))(b)
			compiled := must(Compile(f, benchSchema))(b)
			live := roaring.New()
			live.AddRange(0, benchDocs)
			var out *roaring.Bitmap
			b.ReportAllocs()
			for b.Loop() {
				out = must(compiled.Eval(context.Background(), seg, live, benchDocs))(b)
			}
			b.ReportMetric(float64(out.GetCardinality()), "docs")
		})
	}
}

func BenchmarkFacet(b *testing.B) {
	seg := benchSegment()
	for _, match := range []string{"price < 300", "price between 500 and 510"} {
		compiled := must(Compile(must(Parse(match))(b), benchSchema))(b)
		matches := must(compiled.Eval(context.Background(), seg, nil, benchDocs))(b)
		for _, field := range []string{"lang", "tags", "source"} {
			b.Run(field+"/"+match, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					f := NewFacet(field)
					if err := f.Add(context.Background(), seg, matches); err != nil {
						b.Fatal(err)
					}
					f.Top(10)
				}
				b.ReportMetric(float64(matches.GetCardinality()), "docs")
			})
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	seg := benchSegment()
	s := map[string][]byte{}
	out := sections{}
	if err := Merge(out.create, []MergeInput{{seg, identity(benchDocs)}}, benchDocs); err != nil {
		b.Fatal(err)
	}
	total := 0
	for name, buf := range out {
		s[name] = buf.Bytes()
		total += buf.Len()
	}
	open := func(name string) ([]byte, bool) { data, ok := s[name]; return data, ok }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Open(open, benchDocs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(total)/benchDocs, "bytes/doc")
}

func BenchmarkMerge(b *testing.B) {
	seg := benchSegment()
	b.ReportAllocs()
	for b.Loop() {
		if err := Merge(sections{}.create, []MergeInput{{seg, identity(benchDocs)}}, benchDocs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseCompile(b *testing.B) {
	const text = `lang = "de" and source in [a, b] and at >= 2024-01-01 and not (tags contains any [1])`
	b.ReportAllocs()
	for b.Loop() {
		must(Compile(must(Parse(text))(b), benchSchema))(b)
	}
}
