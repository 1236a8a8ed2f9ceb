package bm25

import (
	"math/rand/v2"
	"sync"
	"testing"
)

const benchDocs = 200_000

// zipfCorpus is a seeded corpus of 200 k docs of about 60 tokens out of 100 k
// terms, tokens as term numbers.
var zipfCorpus = sync.OnceValue(func() [][]uint32 {
	rng := rand.New(rand.NewPCG(42, 42))
	z := zipf{rng, 100_000, 2.7}
	docs := make([][]uint32, benchDocs)
	for d := range docs {
		n := 10 + rng.IntN(100)
		if rng.IntN(20) == 0 {
			n *= 5
		}
		docs[d] = make([]uint32, n)
		for i := range docs[d] {
			docs[d][i] = uint32(z.next())
			if i > 0 && rng.IntN(20) == 0 {
				docs[d][i] = docs[d][rng.IntN(i)]
			}
		}
	}
	return docs
})

var zipfTerms = sync.OnceValue(func() [][]byte {
	terms := make([][]byte, 100_000)
	for i := range terms {
		terms[i] = []byte(word(i))
	}
	return terms
})

func fillZipf(b *Builder) (bytes int64, tokens int) {
	terms := zipfTerms()
	for d, words := range zipfCorpus() {
		b.StartDoc(uint32(d))
		for i, w := range words {
			b.Token(terms[w], uint32(i))
			bytes += int64(len(terms[w])) + 1
		}
		b.EndDoc()
		tokens += len(words)
	}
	return bytes, tokens
}

var zipfField = sync.OnceValues(func() (*Field, sections) {
	b := NewBuilder()
	fillZipf(b)
	s := sections{}
	if err := b.Write(s.create); err != nil {
		panic(err)
	}
	f, err := Open(s.section, benchDocs)
	if err != nil {
		panic(err)
	}
	return f, s
})

func BenchmarkBuild(b *testing.B) {
	zipfCorpus()
	var bytes int64
	var tokens int
	var memory int64
	for b.Loop() {
		builder := NewBuilder()
		bytes, tokens = fillZipf(builder)
		memory = builder.SizeBytes()
	}
	b.SetBytes(bytes)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
	b.ReportMetric(float64(memory)/float64(tokens), "heap-B/token")
}

func BenchmarkWrite(b *testing.B) {
	builder := NewBuilder()
	bytes, tokens := fillZipf(builder)
	b.SetBytes(bytes)
	var s sections
	for b.Loop() {
		s = sections{}
		if err := builder.Write(s.create); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range []string{"dict", "docs", "pos"} {
		b.ReportMetric(float64(s[name].Len())*8/float64(tokens), name+"-bits/token")
	}
}

func BenchmarkMerge(b *testing.B) {
	f, _ := zipfField()
	even, odd := make([]uint32, benchDocs), make([]uint32, benchDocs)
	for i := range even {
		even[i], odd[i] = 2*uint32(i), 2*uint32(i)+1
	}
	for b.Loop() {
		if err := Merge(sections{}.create, []MergeInput{{f, even}, {f, odd}}, 2*benchDocs, 2); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*f.Stats().TotalLength), "ns/token")
}

func BenchmarkDecode(b *testing.B) {
	f, _ := zipfField()
	for _, rank := range []int{0, 100, 3000} {
		e, _, _ := f.lookup([]byte(word(rank)))
		b.Run(word(rank), func(b *testing.B) {
			var c cursor
			for b.Loop() {
				c.open(f, &e, 1, zeroInverse)
				for c.skip.advance() {
					c.load()
					c.loadFreqs()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(e.df), "ns/posting")
			b.ReportMetric(float64(e.df), "postings")
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	f, _ := zipfField()
	terms := zipfTerms()
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(terms)
		if _, _, err := f.lookup(terms[i]); err != nil {
			b.Fatal(err)
		}
	}
}

// benchQueries are ranks of terms, from common to rare, two to five words.
func benchQueries() [][]string {
	rng := rand.New(rand.NewPCG(7, 7))
	var queries [][]string
	for range 100 {
		q := make([]string, 2+rng.IntN(4))
		for i := range q {
			q[i] = word(int(zipf{rng, 20_000, 30}.next()))
		}
		queries = append(queries, q)
	}
	return queries
}

func benchSearch(b *testing.B, k int, accept Accept, query func(words []string) Query) {
	f, _ := zipfField()
	segs := []SegmentFields{{"f": f}}
	var bound []*Bound
	for _, words := range benchQueries() {
		q, err := Bind(query(words), segs, nil)
		if err != nil {
			b.Fatal(err)
		}
		bound = append(bound, q)
	}
	var s Scratch
	var hits []Scored
	var err error
	total, i := 0, 0
	for b.Loop() {
		if hits, err = bound[i%len(bound)].TopK(0, k, accept, 0, &s, hits[:0]); err != nil {
			b.Fatal(err)
		}
		total += len(hits)
		i++
	}
	b.ReportMetric(float64(total)/float64(b.N), "hits")
	b.ReportMetric(float64(s.Work.Scored)/float64(b.N), "scored")
	b.ReportMetric(float64(s.Work.Candidates)/float64(b.N), "candidates")
	b.ReportMetric(float64(s.Work.Windows)/float64(b.N), "windows")
}

func orOf(words []string) Query  { return oneField(words...) }
func andOf(words []string) Query { q := oneField(words[:2]...); q.Operator = And; return q }

func BenchmarkOr10(b *testing.B)   { benchSearch(b, 10, Accept{}, orOf) }
func BenchmarkOr1000(b *testing.B) { benchSearch(b, 1000, Accept{}, orOf) }
func BenchmarkAnd10(b *testing.B)  { benchSearch(b, 10, Accept{}, andOf) }

func BenchmarkPhrase10(b *testing.B) {
	benchSearch(b, 10, Accept{}, func(words []string) Query {
		return Phrase{Fields: []FieldBoost{{"f", 1}}, Words: PhraseOf(words[0], word(len(words)))}
	})
}

func BenchmarkOrFilter(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	set := make([]uint64, benchDocs/64+1)
	var few []uint32
	for d := range uint32(benchDocs) {
		if rng.IntN(10) == 0 {
			set[d/64] |= 1 << (d % 64)
		}
		if rng.IntN(1000) == 0 {
			few = append(few, d)
		}
	}
	b.Run("dense10%", func(b *testing.B) { benchSearch(b, 10, AcceptBits(set), orOf) })
	b.Run("sparse0.1%", func(b *testing.B) { benchSearch(b, 10, AcceptDocs(few), orOf) })
}

// BenchmarkExhaustiveOr is the same queries with k so high that nothing can be
// pruned: what pruning saves.
func BenchmarkExhaustiveOr(b *testing.B) { benchSearch(b, benchDocs, Accept{}, orOf) }

func BenchmarkBind(b *testing.B) {
	f, _ := zipfField()
	segs := []SegmentFields{{"f": f}}
	queries := benchQueries()
	i := 0
	for b.Loop() {
		if _, err := Bind(orOf(queries[i%len(queries)]), segs, nil); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
