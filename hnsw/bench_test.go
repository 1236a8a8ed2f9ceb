package hnsw

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// benchSet is the folder QUARRY_FVECS (base.fvecs, query.fvecs, gt.ivecs;
// cosine), or generated clusters when it is unset.
func benchSet(b *testing.B) (base, queries []float32, dim int, truth [][]uint32) {
	if dir := os.Getenv("QUARRY_FVECS"); dir != "" {
		base, dim = readFvecs(b, dir, "base.fvecs")
		queries, _ = readFvecs(b, dir, "query.fvecs")
		return base, queries, dim, readIvecs(b, dir, "gt.ivecs")
	}
	rng := rand.New(rand.NewPCG(51, 52))
	const n, nq = 20_000, 200
	dim = 64
	all := clustered(rng, n+nq, dim)
	base, queries = all[:n*dim], all[n*dim:]
	for i := range nq {
		var row []uint32
		for _, nb := range exactNearest(quant.Cosine, base, dim, queries[i*dim:(i+1)*dim], 10, nil) {
			row = append(row, nb.Doc)
		}
		truth = append(truth, row)
	}
	return base, queries, dim, truth
}

func BenchmarkSearch(b *testing.B) {
	base, queries, dim, truth := benchSet(b)
	f := buildField(b, Options{Dim: dim}, base)
	for _, c := range []struct {
		name   string
		target float32
	}{{"r0.90", 0.90}, {"r0.95", 0.95}, {"r0.99", 0.99}} {
		b.Run(c.name, func(b *testing.B) {
			var s Scratch
			var dst []Neighbor
			var total Stats
			hits, i := 0, 0
			p := Params{K: 10, TargetRecall: c.target}
			for b.Loop() {
				at := i % len(truth)
				var st Stats
				var err error
				dst, st, err = f.Search(queries[at*dim:(at+1)*dim], p, &s, dst[:0])
				if err != nil {
					b.Fatal(err)
				}
				for _, nb := range dst {
					for _, doc := range truth[at][:10] {
						if nb.Doc == doc {
							hits++
						}
					}
				}
				total.Add(st)
				i++
			}
			b.ReportMetric(float64(hits)/float64(10*i), "recall")
			b.ReportMetric(float64(total.Distances)/float64(i), "dist/op")
			b.ReportMetric(float64(total.Ef), "ef")
			b.ReportMetric(float64(f.Info().HotBytes), "B/vector")
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	rng := rand.New(rand.NewPCG(53, 54))
	const n, dim = 10_000, 64
	v := clustered(rng, n, dim)
	for b.Loop() {
		buildSections(b, Options{Dim: dim}, v, sequence(n))
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "vectors/s")
}

// BenchmarkMerge merges two halves of a set, then drops a tenth of the result,
// and gives the time as a part of that of building the same, and recall@10 of a
// beam of 32 of both. QUARRY_FVECS names a set as for BenchmarkSearch.
func BenchmarkMerge(b *testing.B) {
	base, queries, dim, _ := benchSet(b)
	o := Options{Dim: dim}
	queries = queries[:min(len(queries), 500*dim)]
	inputs := split(b, o, base, 2, func(doc int) int { return doc % 2 })
	whole := measureMerge(b, "halves", o, base, inputs(dropNone), dropNone, queries)
	tenth := func(doc int) bool { return doc%10 == 3 }
	m := sequence(len(base) / dim)
	for i := range m {
		if tenth(i) {
			m[i] = none
		}
	}
	measureMerge(b, "tenth-dropped", o, base, []MergeInput{{whole, m}}, tenth, queries)
}

func measureMerge(b *testing.B, name string, o Options, base []float32, in []MergeInput, drop func(int) bool, queries []float32) *Field {
	n := len(base) / o.Dim
	var kept []float32
	var docs []uint32
	for i := range n {
		if !drop(i) {
			kept, docs = append(kept, base[i*o.Dim:(i+1)*o.Dim]...), append(docs, uint32(i))
		}
	}
	start := time.Now()
	built := openSections(b, buildSections(b, o, kept, docs), uint32(n))
	build := time.Since(start)
	var merged *Field
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			s, rep := mergeSections(b, o, in)
			if rep.Rebuilt != "" {
				b.Errorf("%+v", rep)
			}
			merged = openSections(b, s, uint32(n))
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/build.Seconds(), "of-build")
		b.ReportMetric(graphRecall(b, merged, queries, 32), "recall")
		b.ReportMetric(graphRecall(b, built, queries, 32), "built-recall")
	})
	return merged
}

// BenchmarkCosts measures what costsOf models; BenchmarkSearch gives the walk.
func BenchmarkCosts(b *testing.B) {
	rng := rand.New(rand.NewPCG(55, 56))
	const n, dim = 200_000, 100
	v := gaussian(rng, n, dim)
	flat := buildField(b, Options{Dim: dim, GraphMin: -1}, v)
	var ords []uint32
	for i := 0; i < n; i += 1 + rng.IntN(19) {
		ords = append(ords, uint32(i))
	}
	var s Scratch
	run := func(name string, search func() Stats) {
		b.Run(name, func(b *testing.B) {
			d := 0
			for b.Loop() {
				d += search().Distances
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(d), "ns/dist")
		})
	}
	p := Params{K: 10}
	run("scan", func() Stats { _, st, _ := flat.SearchFlat(v[:dim], p, &s, nil); return st })
	run("gather", func() Stats { _, st, _ := flat.SearchOrds(v[:dim], p, ords, &s, nil); return st })
}

func BenchmarkFiltered(b *testing.B) {
	rng := rand.New(rand.NewPCG(57, 58))
	const n, dim = 20_000, 64
	v := clustered(rng, n, dim)
	f := buildField(b, Options{Dim: dim}, v)
	for _, c := range []struct {
		name string
		step int
	}{{"all", 1}, {"1of2", 2}, {"1of10", 10}, {"1of100", 100}} {
		accept := make([]uint64, f.AcceptLen())
		for i := 0; i < n; i += c.step {
			accept[i/64] |= 1 << (i % 64)
		}
		b.Run(c.name, func(b *testing.B) {
			var s Scratch
			var dst []Neighbor
			d, i := 0, 0
			for b.Loop() {
				var st Stats
				dst, st, _ = f.SearchFiltered(v[i%n*dim:(i%n+1)*dim], Params{K: 10, Ef: 64}, accept, &s, dst[:0])
				d += st.Distances
				i += 37
			}
			b.ReportMetric(float64(d)/float64(b.N), "dist/op")
		})
	}
}
