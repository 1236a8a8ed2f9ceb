package hnsw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

func TestBuildDeterministic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, dim = 3000, 24
	vectors := clustered(rng, n, dim)
	copy(vectors[100*dim:], vectors[:20*dim]) // duplicates too
	docs := make([]uint32, n)
	for i := range docs {
		docs[i] = uint32(3 * i)
	}
	var first sections
	for _, threads := range []int{1, 2, 7} {
		o := Options{Dim: dim, Metric: quant.L2, M: 8, EfConstruction: 40, Threads: threads, GraphMin: 1}
		s := buildSections(t, o, vectors, docs)
		if first == nil {
			first = s
			if err := openSections(t, s, 3*n).Verify(context.Background()); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for name, b := range first {
			if !bytes.Equal(b.Bytes(), s[name].Bytes()) {
				t.Errorf("%d threads: section %s differs", threads, name)
			}
		}
	}
}

// recallOf is the share of the true k nearest that search finds.
func recallOf(t *testing.T, m quant.Metric, vectors, queries []float32, dim, k int, accept func(int) bool,
	search func(q []float32) ([]Neighbor, Stats, error)) float64 {
	t.Helper()
	hits, total := 0, 0
	for i := range len(queries) / dim {
		q := queries[i*dim : (i+1)*dim]
		got, _, err := search(q)
		if err != nil {
			t.Fatal(err)
		}
		want := exactNearest(m, vectors, dim, q, k, accept)
		if len(got) != len(want) {
			t.Fatalf("query %d: %d results, want %d", i, len(got), len(want))
		}
		for j := 1; j < len(got); j++ {
			if compareNeighbors(got[j-1], got[j]) >= 0 {
				t.Fatalf("query %d: results out of order at %d", i, j)
			}
		}
		hits += overlap(got, want)
		total += len(want)
	}
	return float64(hits) / float64(total)
}

func TestRecall(t *testing.T) {
	const n, dim, k = 5000, 32, 10
	for _, m := range []quant.Metric{quant.Cosine, quant.Dot, quant.L2} {
		t.Run(m.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			all := clustered(rng, n+60, dim)
			vectors, queries := all[:n*dim], all[n*dim:]
			f := buildField(t, Options{Dim: dim, Metric: m, GraphMin: 1, EfConstruction: 80}, vectors)
			if err := f.Verify(context.Background()); err != nil {
				t.Fatal(err)
			}
			var s Scratch
			walked := false
			graph := recallOf(t, m, vectors, queries, dim, k, nil, func(q []float32) ([]Neighbor, Stats, error) {
				got, st, err := f.Search(q, Params{K: k, Ef: 40}, &s, nil)
				walked = walked || st.Plan == PlanGraph
				return got, st, err
			})
			flat := recallOf(t, m, vectors, queries, dim, k, nil, func(q []float32) ([]Neighbor, Stats, error) {
				return f.SearchFlat(q, Params{K: k}, &s, nil)
			})
			ords := sequence(n)
			exact := recallOf(t, m, vectors, queries, dim, k, nil, func(q []float32) ([]Neighbor, Stats, error) {
				return f.SearchOrds(q, Params{K: k, Oversample: 5}, ords, &s, nil)
			})
			t.Logf("recall: graph %.4f, flat %.4f, ords %.4f", graph, flat, exact)
			if !walked {
				t.Error("no search walked the graph")
			}
			if graph < 0.94 || flat < 0.99 || exact < 0.999 {
				t.Errorf("recall: graph %.4f, flat %.4f, ords %.4f", graph, flat, exact)
			}
		})
	}
}

// A05: a group of exact duplicates larger than M0 must cut nothing off, and
// the k nearest to the copied vector are k distinct copies, the lowest docs.
func TestA05Duplicates(t *testing.T) {
	const copies, others, dim = 1000, 4000, 64
	for _, m := range []quant.Metric{quant.Cosine, quant.L2} {
		t.Run(m.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			vectors := gaussian(rng, copies+others, dim)
			for i := 1; i < copies; i++ {
				copy(vectors[i*dim:(i+1)*dim], vectors[:dim])
			}
			o := Options{Dim: dim, Metric: m, GraphMin: 1, EfConstruction: 60}
			f := buildField(t, o, vectors)
			if err := f.Verify(context.Background()); err != nil {
				t.Fatal(err)
			}
			if f.nodes != others+1 || f.groupCount != 1 {
				t.Fatalf("%d nodes, %d groups", f.nodes, f.groupCount)
			}
			var s Scratch
			got, st := graphSearch(t, f, vectors[:dim], 10, 64, &s)
			for i, nb := range got {
				if nb.Doc != uint32(i) {
					t.Fatalf("copies: %v", got)
				}
			}
			if st.Distances > 3000 {
				t.Errorf("%d distances at the copies", st.Distances)
			}
			missed := 0
			for i := copies; i < copies+others; i++ {
				got, _ := graphSearch(t, f, vectors[i*dim:(i+1)*dim], 1, 200, &s)
				if got[0].Doc != uint32(i) {
					missed++
				}
			}
			if missed > 0 {
				t.Errorf("%d of %d vectors do not find themselves", missed, others)
			}
			// All the copies come back when asked for, then the others.
			all, _, err := f.Search(vectors[:dim], Params{K: copies + 5}, &s, nil)
			if err != nil || len(all) != copies+5 {
				t.Fatalf("%d results, %v", len(all), err)
			}
		})
	}
}

// graphSearch is walkGraphOf without errors.
func graphSearch(t testing.TB, f *Field, q []float32, k, ef int, s *Scratch) ([]Neighbor, Stats) {
	t.Helper()
	got, st, err := f.walkGraphOf(q, Params{K: k, Ef: ef}, s)
	if err != nil {
		t.Fatal(err)
	}
	return got, st
}

func TestAllEqual(t *testing.T) {
	const n, dim = 500, 8
	vectors := make([]float32, n*dim)
	for i := range vectors {
		vectors[i] = float32(i%dim + 1)
	}
	f := buildField(t, Options{Dim: dim, GraphMin: 1}, vectors)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	var s Scratch
	got, _ := graphSearch(t, f, vectors[:dim], 20, 0, &s)
	for i, nb := range got {
		if nb.Doc != uint32(i) {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) != 20 {
		t.Fatalf("%d results", len(got))
	}
}

// A node attached at the end of a build may link already to what it takes over.
// Far vectors in one direction give many such nodes.
func TestAttachOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 82))
	const n, dim = 4500, 64
	v := gaussian(rng, n, dim)
	v[0] = 400
	f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 30, M: 8, Bits: 8}, v)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 2, 3, 16, 17, 40, 300} {
		for _, dim := range []int{1, 2, 63, 64, 65, 4096} {
			if dim == 4096 && n > 40 {
				continue
			}
			for _, graphMin := range []int{-1, 1} {
				vectors := gaussian(rng, n, dim)
				f := buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: graphMin, M: 4}, vectors)
				if err := f.Verify(context.Background()); err != nil {
					t.Fatalf("n %d dim %d: %v", n, dim, err)
				}
				var s Scratch
				q := gaussian(rng, 1, dim)
				for _, k := range []int{1, 10, 1000} {
					got, _, err := f.Search(q, Params{K: k, Ef: 1}, &s, nil)
					if err != nil || len(got) != len(exactNearest(quant.L2, vectors, dim, q, k, nil)) {
						t.Fatalf("n %d dim %d k %d: %d results, %v", n, dim, k, len(got), err)
					}
					if f.graph {
						if got, _ := graphSearch(t, f, q, k, 1, &s); len(got) != min(k, n) {
							t.Fatalf("n %d dim %d k %d: graph gives %d", n, dim, k, len(got))
						}
					}
				}
			}
		}
	}
}

// A08: what the metric cannot compare is refused, naming doc and component.
func TestA08BadVectors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		v    []float32
		m    quant.Metric
		good bool
	}{
		{[]float32{nan, 0, 1}, quant.Cosine, false},
		{[]float32{inf, 0, 0}, quant.L2, false},
		{[]float32{0, 0, 0}, quant.Cosine, false},
		{[]float32{0, 0, 0}, quant.L2, true},
		{[]float32{1e30, 1e30, 1e30}, quant.Cosine, true},
		{[]float32{1e30, 1e30, 1e30}, quant.Dot, false},
	} {
		rng := rand.New(rand.NewPCG(9, 10))
		vectors := gaussian(rng, 100, 3)
		f := buildField(t, Options{Dim: 3, Metric: c.m, GraphMin: 1}, vectors)
		var s Scratch
		_, _, err := f.Search(c.v, Params{K: 5}, &s, nil)
		if (err == nil) != c.good || err != nil && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v under %v as query: %v", c.v, c.m, err)
		}
		copy(vectors[50*3:], c.v)
		err = Build(context.Background(), Options{Dim: 3, Metric: c.m}, vectors, sequence(100), sections{}.create)
		if (err == nil) != c.good || err != nil && !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v under %v as vector: %v", c.v, c.m, err)
		}
		if c.good && c.v[0] == 1e30 {
			f := buildField(t, Options{Dim: 3, Metric: c.m}, vectors)
			got, _, err := f.Search([]float32{1, 1, 1}, Params{K: 1}, &s, nil)
			if err != nil || got[0].Doc != 50 || got[0].Distance > 1e-6 {
				t.Errorf("1e30 under %v: %v %v", c.m, got, err)
			}
		}
	}
}

func TestBuildArguments(t *testing.T) {
	ctx, v := context.Background(), make([]float32, 12)
	for i := range v {
		v[i] = 1
	}
	for name, err := range map[string]error{
		"dimension":  Build(ctx, Options{Dim: 0}, nil, nil, sections{}.create),
		"too wide":   Build(ctx, Options{Dim: MaxDim + 1}, nil, nil, sections{}.create),
		"length":     Build(ctx, Options{Dim: 4}, v, sequence(2), sections{}.create),
		"order":      Build(ctx, Options{Dim: 4}, v, []uint32{0, 2, 2}, sections{}.create),
		"M":          Build(ctx, Options{Dim: 4, M: 3}, v, sequence(3), sections{}.create),
		"efConstr":   Build(ctx, Options{Dim: 4, EfConstruction: 5000}, v, sequence(3), sections{}.create),
		"sentinel":   Build(ctx, Options{Dim: 4}, v, []uint32{0, 1, none}, sections{}.create),
		"bad metric": Build(ctx, Options{Dim: 4, Metric: 9}, v, sequence(3), sections{}.create),
	} {
		if !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBuildCancelAndProgress(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	vectors := gaussian(rng, 5000, 16)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	last := 0
	o := Options{Dim: 16, GraphMin: 1, EfConstruction: 20, Progress: func(done, total int) {
		if done <= last || total != 5000 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		if done > 2000 {
			cancel()
		}
	}}
	err := Build(ctx, o, vectors, sequence(5000), sections{}.create)
	if !errors.Is(err, context.Canceled) || last > 4000 {
		t.Errorf("%v at %d", err, last)
	}
}

func TestBuildWriteError(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	vectors := gaussian(rng, 300, 4)
	full := errors.New("disk full")
	for _, fail := range []string{"meta", "codes", "raw", "links0", "upper", "docs", "ords", "groups"} {
		s := sections{}
		err := Build(context.Background(), Options{Dim: 4, GraphMin: 1}, vectors, sequence(300), func(name string) (io.Writer, error) {
			if name == fail {
				return nil, full
			}
			return s.create(name)
		})
		if !errors.Is(err, full) {
			t.Errorf("%s: %v", fail, err)
		}
	}
}

func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	const n, dim = 1500, 12
	vectors := clustered(rng, n, dim)
	o := Options{Dim: dim, GraphMin: 1, EfConstruction: 40}
	// Docs i go to segment i%3; every fifth is dropped on the way.
	var inputs []MergeInput
	var kept []uint32
	for part := range 3 {
		var v []float32
		var to []uint32
		for i := part; i < n; i += 3 {
			v = append(v, vectors[i*dim:(i+1)*dim]...)
			to = append(to, uint32(i))
			if i%5 == 0 {
				to[len(to)-1] = none
			}
		}
		inputs = append(inputs, MergeInput{Field: buildField(t, o, v), DocMap: to})
	}
	for i := range n {
		if i%5 != 0 {
			kept = append(kept, uint32(i))
		}
	}
	merged := sections{}
	if _, err := Merge(context.Background(), o, inputs, merged.create); err != nil {
		t.Fatal(err)
	}
	f := openSections(t, merged, n)
	if err := f.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	if f.Len() != len(kept) {
		t.Fatalf("%d vectors", f.Len())
	}
	// A build over what the inputs hold writes the same bytes.
	var v []float32
	for _, doc := range kept {
		in := inputs[doc%3]
		ord, ok := in.Field.Ord(doc / 3)
		if !ok {
			t.Fatalf("doc %d is lost", doc)
		}
		v = append(v, in.Field.Vector(ord)...)
	}
	rows := func(i int, _ []float32) []float32 { return v[i*dim : (i+1)*dim] }
	norm, _ := o.normalize()
	built := sections{}
	if err := build(context.Background(), norm, rows, kept, built.create); err != nil {
		t.Fatal(err)
	}
	for name, b := range built {
		if !bytes.Equal(b.Bytes(), merged[name].Bytes()) {
			t.Errorf("section %s differs", name)
		}
	}
	for _, doc := range []uint32{1, 2, 3, 1499} {
		if ord, ok := f.Ord(doc); !ok || f.Doc(ord) != doc {
			t.Errorf("doc %d: %v", doc, ok)
		}
	}
	if _, ok := f.Ord(5); ok {
		t.Error("dropped doc is there")
	}
	if _, err := Merge(context.Background(), Options{Dim: 3}, inputs, merged.create); !errors.Is(err, storage.ErrInvalid) {
		t.Errorf("wrong dimension: %v", err)
	}
}

// A02: a field emptied by a merge answers with nothing, and can be filled again.
func TestA02Emptied(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	var s Scratch
	for seed := range uint64(200) {
		o := Options{Dim: 4, GraphMin: 1, Seed: seed}
		v := gaussian(rng, 8, 4)
		full := buildField(t, o, v)
		empty := sections{}
		drop := bytes8(none)
		if _, err := Merge(context.Background(), o, []MergeInput{{full, drop}}, empty.create); err != nil {
			t.Fatal(err)
		}
		f := openSections(t, empty, 8)
		if got, _, err := f.Search(v[:4], Params{K: 3}, &s, nil); err != nil || len(got) != 0 {
			t.Fatalf("empty: %v %v", got, err)
		}
		again := sections{}
		if _, err := Merge(context.Background(), o, []MergeInput{{f, drop}, {full, sequence(8)}}, again.create); err != nil {
			t.Fatal(err)
		}
		f = openSections(t, again, 8)
		for i := range 8 {
			got, _ := graphSearch(t, f, v[i*4:i*4+4], 1, 0, &s)
			if f.Len() != 8 || got[0].Doc != uint32(i) {
				t.Fatalf("seed %d: doc %d gives %v", seed, i, got)
			}
		}
	}
}

func bytes8(v uint32) []uint32 { return []uint32{v, v, v, v, v, v, v, v} }

func ExampleBuild() {
	vectors := []float32{1, 0, 0, 1, 1, 1}
	s := sections{}
	if err := Build(context.Background(), Options{Dim: 2}, vectors, []uint32{0, 1, 2}, s.create); err != nil {
		fmt.Println(err)
	}
	f, err := Open(s.section, 3)
	if err != nil {
		fmt.Println(err)
	}
	var scratch Scratch
	hits, _, _ := f.Search([]float32{1, 0.2}, Params{K: 2}, &scratch, nil)
	for _, h := range hits {
		fmt.Printf("doc %d at %.3f\n", h.Doc, h.Distance)
	}
	// Output:
	// doc 0 at 0.019
	// doc 2 at 0.168
}
