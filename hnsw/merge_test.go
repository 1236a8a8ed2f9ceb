package hnsw

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

func mergeSections(t testing.TB, o Options, inputs []MergeInput) (sections, MergeReport) {
	t.Helper()
	s := sections{}
	rep, err := Merge(context.Background(), o, inputs, s.create)
	if err != nil {
		t.Fatal(err)
	}
	return s, rep
}

// split spreads the docs 0, 1, 2, … over fields, as part says, and returns what
// makes them the inputs of a merge that drops some.
func split(t testing.TB, o Options, vectors []float32, parts int, part func(doc int) int) func(drop func(doc int) bool) []MergeInput {
	t.Helper()
	vs, docs := make([][]float32, parts), make([][]uint32, parts)
	for i := range len(vectors) / o.Dim {
		p := part(i)
		vs[p], docs[p] = append(vs[p], vectors[i*o.Dim:(i+1)*o.Dim]...), append(docs[p], uint32(i))
	}
	fields := make([]*Field, parts)
	for p := range parts {
		fields[p] = buildField(t, o, vs[p])
	}
	return func(drop func(doc int) bool) []MergeInput {
		inputs := make([]MergeInput, parts)
		for p := range parts {
			m := slices.Clone(docs[p])
			for i, doc := range m {
				if drop(int(doc)) {
					m[i] = none
				}
			}
			inputs[p] = MergeInput{fields[p], m}
		}
		return inputs
	}
}

func dropNone(int) bool { return false }

// graphRecall is the recall@10 of walks with a beam of ef against the exact
// search of the same field.
func graphRecall(t testing.TB, f *Field, queries []float32, ef int) float64 {
	t.Helper()
	var s Scratch
	hits, total := 0, 0
	for i := range len(queries) / f.dim {
		q := queries[i*f.dim : (i+1)*f.dim]
		want, _, err := f.SearchExact(q, Params{K: 10}, nil, &s, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := graphSearch(t, f, q, 10, ef, &s)
		hits += overlap(got, want)
		total += len(want)
	}
	return float64(hits) / float64(total)
}

// A merge keeps the largest graph, whatever is dropped or copied, gives the
// same bytes for any number of threads, and searches as well as a build.
func TestMergeKeepsGraph(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	const n, dim = 6500, 12
	all := clustered(rng, n+200, dim)
	vectors, queries := all[:n*dim], all[n*dim:]
	copy(vectors[3000*dim:], vectors[:40*dim]) // copies in different inputs
	copy(vectors[3040*dim:], vectors[:40*dim])
	o := Options{Dim: dim, Metric: quant.L2, GraphMin: 1, M: 8, EfConstruction: 32}
	part := func(doc int) int { return doc % 7 / 4 * (1 + doc%2) } // 4/7 and some of the rest
	fields := split(t, o, vectors, 3, part)
	for name, drop := range map[string]func(int) bool{
		"none":       dropNone,
		"each tenth": func(doc int) bool { return doc%10 == 3 },
		"a region":   func(doc int) bool { return doc < 1200 },
	} {
		t.Run(name, func(t *testing.T) {
			inputs := fields(drop)
			var first sections
			for _, o.Threads = range []int{1, 3} {
				s, rep := mergeSections(t, o, inputs)
				if rep.Kept < 2000 || rep.Inserted < 1500 || rep.Rebuilt != "" || rep.Recall < rep.Floor {
					t.Fatalf("%+v", rep)
				}
				if first == nil {
					first = s
				}
				for name, b := range first {
					if !bytes.Equal(b.Bytes(), s[name].Bytes()) {
						t.Errorf("%d threads: section %s differs", o.Threads, name)
					}
				}
			}
			f := openSections(t, first, n)
			if err := f.Verify(context.Background()); err != nil {
				t.Fatal(err)
			}
			var kept []float32
			var docs []uint32
			for doc := range n {
				if _, ok := f.Ord(uint32(doc)); ok == drop(doc) {
					t.Fatalf("doc %d: in the field %v", doc, ok)
				}
				if !drop(doc) {
					kept, docs = append(kept, vectors[doc*dim:(doc+1)*dim]...), append(docs, uint32(doc))
				}
			}
			built := openSections(t, buildSections(t, o, kept, docs), n)
			merged, fresh := graphRecall(t, f, queries, 24), graphRecall(t, built, queries, 24)
			t.Logf("recall@10: merged %.4f, built %.4f", merged, fresh)
			if merged < fresh-0.02 {
				t.Errorf("recall@10: merged %.4f, built %.4f", merged, fresh)
			}
			var s Scratch
			for i := range 20 {
				q := queries[i*dim : (i+1)*dim]
				a, _, _ := f.SearchExact(q, Params{K: 20}, nil, &s, nil)
				b, _, _ := built.SearchExact(q, Params{K: 20}, nil, &s, nil)
				for j := range a {
					if a[j].Doc != b[j].Doc || a[j].Distance != b[j].Distance {
						t.Fatalf("exact: %v, want %v", a[j], b[j])
					}
				}
			}
		})
	}
}

// A graph that has lost too much, or that would find too little, is not kept.
func TestMergeRebuilds(t *testing.T) {
	rng := rand.New(rand.NewPCG(63, 64))
	const n, dim = 6000, 12
	v := gaussian(rng, n, dim)
	o := Options{Dim: dim, Metric: quant.L2, GraphMin: 1, M: 6, EfConstruction: 16}
	f := buildField(t, o, v)
	m := sequence(n)
	check := func(what, why string, in MergeInput, docs int) {
		t.Helper()
		s, rep := mergeSections(t, o, []MergeInput{in})
		if !strings.Contains(rep.Rebuilt, why) {
			t.Errorf("%s: %+v", what, rep)
		}
		g := openSections(t, s, n)
		if err := g.Verify(context.Background()); err != nil || g.Len() != docs {
			t.Errorf("%s: %d vectors, %v", what, g.Len(), err)
		}
	}
	poor := *f
	poor.built.recall = 1
	check("poor", "recall", MergeInput{&poor, m}, n)
	thinner := sequence(n)
	for i := range thinner {
		if i%5 > 1 {
			thinner[i] = none
		}
	}
	check("few", "first graph", MergeInput{f, thinner}, n*2/5)
	o.M = 8
	check("other M", "first graph", MergeInput{f, m}, n)
}

// The links of an input are not trusted.
func TestMergeDamaged(t *testing.T) {
	rng := rand.New(rand.NewPCG(65, 66))
	const n, dim = 5000, 4
	o := Options{Dim: dim, Metric: quant.L2, GraphMin: 1, M: 4, EfConstruction: 12}
	v := gaussian(rng, n, dim)
	copy(v[100*dim:], v[:50*dim])
	s := buildSections(t, o, v, sequence(n))
	m := sequence(n)
	for i := range m {
		if i%9 == 0 {
			m[i] = none
		}
	}
	for _, name := range []string{sectionLinks0, sectionUpper, sectionGroups} {
		for range 20 {
			bad := sections{}
			for k, b := range s {
				bad[k] = bytes.NewBuffer(bytes.Clone(b.Bytes()))
			}
			b := bad[name].Bytes()
			at := 4 * rng.IntN(len(b)/4)
			b[at+rng.IntN(4)] ^= byte(1 + rng.IntN(255))
			_, err := Merge(context.Background(), o, []MergeInput{{openSections(t, bad, n), m}}, sections{}.create)
			if err != nil && !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestMergeCancel(t *testing.T) {
	rng := rand.New(rand.NewPCG(67, 68))
	const n, dim = 9000, 8
	v := gaussian(rng, n, dim)
	o := Options{Dim: dim, GraphMin: 1, M: 4, EfConstruction: 12}
	inputs := split(t, o, v, 2, func(doc int) int { return doc % 2 })(dropNone)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	last := 0
	o.Progress = func(done, total int) {
		if done <= last || total != n {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		if done > 5500 {
			cancel()
		}
	}
	s := sections{}
	if _, err := Merge(ctx, o, inputs, s.create); !errors.Is(err, context.Canceled) || last > 8000 || len(s) > 0 {
		t.Errorf("%v at %d, %d sections", err, last, len(s))
	}
}

// Recall must not rot: after every vector has been replaced ten times, in
// steps of a half, merged graphs find what a fresh one finds.
func TestChurn(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	const n, dim, rounds = 4400, 8, 20
	churn(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, M: 6, EfConstruction: 28}, n, rounds, 0.5,
		func(rng *rand.Rand, n int) []float32 { return gaussian(rng, n, dim) }, gaussian(rand.New(rand.NewPCG(1, 1)), 300, dim))
}

// churn replaces a share of n vectors in each round and merges; at the end it
// compares the recall with that of a build over the same vectors.
func churn(t testing.TB, o Options, n, rounds int, share float64, draw func(rng *rand.Rand, n int) []float32, queries []float32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(69, 70))
	vectors := draw(rng, n)
	f := buildField(t, o, vectors)
	kept := 0
	for round := range rounds {
		some := int(share * float64(n))
		fresh, maps := draw(rng, some), sequence(n)
		for _, doc := range rng.Perm(n)[:some] {
			maps[doc] = none
		}
		var newDocs []uint32
		for doc := range n {
			if maps[doc] == none {
				copy(vectors[doc*o.Dim:(doc+1)*o.Dim], fresh[len(newDocs)*o.Dim:])
				newDocs = append(newDocs, uint32(doc))
			}
		}
		added := buildField(t, o, fresh)
		s, rep := mergeSections(t, o, []MergeInput{{f, maps}, {added, newDocs}})
		if rep.Rebuilt == "" {
			kept++
		} else {
			t.Logf("round %d: %+v", round, rep)
		}
		f = openSections(t, s, uint32(n))
	}
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	built := buildField(t, o, vectors)
	for _, ef := range []int{16, 32, 64} {
		merged, fresh := graphRecall(t, f, queries, ef), graphRecall(t, built, queries, ef)
		t.Logf("ef %d, recall@10: after %d rounds %.4f, built %.4f", ef, rounds, merged, fresh)
		if merged < fresh-0.01 {
			t.Errorf("ef %d, recall@10: after %d rounds %.4f, built %.4f", ef, rounds, merged, fresh)
		}
	}
	if kept < rounds*9/10 {
		t.Errorf("%d of %d merges kept the graph", kept, rounds)
	}
}
