package hnsw

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
	"github.com/quarrysearch/quarry/storage"
)

// manyFields are one with a graph and one without, over the same vectors.
func manyFields(t *testing.T) (v, queries []float32, dim int, fields map[string]*Field) {
	rng := rand.New(rand.NewPCG(81, 82))
	const n = 3000
	dim = 16
	all := clustered(rng, n+20, dim)
	v, queries = all[:n*dim], all[n*dim:]
	return v, queries, dim, map[string]*Field{
		"graph": buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: 1, EfConstruction: 60}, v),
		"flat":  buildField(t, Options{Dim: dim, Metric: quant.L2, GraphMin: -1}, v),
	}
}

func TestSearchAll(t *testing.T) {
	_, queries, dim, fields := manyFields(t)
	var list [][]float32
	for i := range len(queries) / dim {
		list = append(list, queries[i*dim:(i+1)*dim])
	}
	for name, f := range fields {
		for _, threads := range []int{0, 1, 3, 50} {
			got, st, err := f.SearchAll(list, Params{K: 7}, threads)
			if err != nil {
				t.Fatal(err)
			}
			var s Scratch
			var sum Stats
			for i, q := range list {
				want, one, err := f.Search(q, Params{K: 7}, &s, nil)
				if err != nil || !slices.Equal(got[i], want) {
					t.Fatalf("%s, %d threads, query %d: got %v, want %v, %v", name, threads, i, got[i], want, err)
				}
				sum.Add(one)
			}
			if st.Distances != sum.Distances || st.Rescored != sum.Rescored {
				t.Errorf("%s: work %+v, want %+v", name, st, sum)
			}
		}
		bad := slices.Clone(list)
		bad[5], bad[11] = bad[5][:3], nil
		_, _, err := f.SearchAll(bad, Params{K: 7}, 4)
		if _, _, want := f.SearchAll(bad[5:6], Params{K: 7}, 1); !errors.Is(err, storage.ErrInvalid) || err.Error() != want.Error() {
			t.Errorf("%s: error %v, want that of query 5: %v", name, err, want)
		}
		stop := errors.New("stop")
		if _, _, err := f.SearchAll(list, Params{K: 7, Cancel: func() error { return stop }}, 2); !errors.Is(err, stop) && name == "flat" {
			t.Errorf("%s: canceled: %v", name, err)
		}
		if got, _, err := f.SearchAll(nil, Params{K: 7}, 2); err != nil || len(got) != 0 {
			t.Errorf("%s: no queries: %v, %v", name, got, err)
		}
	}
}

func TestSearchRange(t *testing.T) {
	v, queries, dim, fields := manyFields(t)
	var s Scratch
	for name, f := range fields {
		hits, total := 0, 0
		for i := range len(queries) / dim {
			q := queries[i*dim : (i+1)*dim]
			exact := exactNearest(quant.L2, v, dim, q, len(v)/dim, nil)
			for _, count := range []int{0, 1, 30, 200, 900} {
				radius := float32(math.Inf(1))
				if count < len(exact) {
					radius = exact[count].Distance
				}
				if count == 0 {
					radius = exact[0].Distance / 2
				}
				dst := []Neighbor{{Doc: 99}}
				got, _, err := f.SearchRange(q, radius, Params{K: 5000}, &s, dst)
				if err != nil || got[0].Doc != 99 {
					t.Fatal(err, got)
				}
				got = got[1:]
				want := exact[:0:0]
				for _, n := range exact {
					if n.Distance <= radius {
						want = append(want, n)
					}
				}
				hits += overlap(got, want)
				total += len(want)
				for j, n := range got {
					if n.Distance > radius || j > 0 && compareNeighbors(got[j-1], n) >= 0 {
						t.Fatalf("%s, radius %v: hit %d is %v", name, radius, j, n)
					}
				}
				cut, _, err := f.SearchRange(q, radius, Params{K: 3}, &s, nil)
				if err != nil || len(cut) != min(3, len(got)) && name == "flat" {
					t.Fatalf("%s: at most 3 of %d: %v, %v", name, len(got), cut, err)
				}
			}
		}
		if r := float64(hits) / float64(total); r < 0.97 {
			t.Errorf("%s: found %.3f of what is in range", name, r)
		}
		all, _, err := f.SearchRange(queries[:dim], float32(math.Inf(1)), Params{K: 5000}, &s, nil)
		if err != nil || len(all) != f.Len() {
			t.Errorf("%s: %d of %d within infinity, %v", name, len(all), f.Len(), err)
		}
		for _, p := range []Params{{K: 0}, {K: 5, Ef: -1}} {
			if _, _, err := f.SearchRange(queries[:dim], 1, p, &s, nil); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: %+v: %v", name, p, err)
			}
		}
		if _, _, err := f.SearchRange(queries[:dim], float32(math.NaN()), Params{K: 1}, &s, nil); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: NaN: %v", name, err)
		}
	}
}

// Pages hold every vector once, and the first of them the nearest.
func TestPages(t *testing.T) {
	v, queries, dim, fields := manyFields(t)
	var s Scratch
	for name, f := range fields {
		for _, size := range []int{1, 10, 700, 4000} {
			q := queries[:dim]
			pages := f.Pages(q, Params{K: size})
			seen := map[uint32]bool{}
			first := 0
			for turn := 0; len(seen) < f.Len(); turn++ {
				if size == 1 && turn == 100 {
					break // one by one takes long
				}
				page, _, err := pages.Next(&s, nil)
				if err != nil || len(page) != min(size, f.Len()-len(seen)) {
					t.Fatalf("%s: page of %d after %d, %v", name, len(page), len(seen), err)
				}
				for i, n := range page {
					if seen[n.Ord] || i > 0 && compareNeighbors(page[i-1], n) >= 0 {
						t.Fatalf("%s: hit %d of a page: %v", name, i, n)
					}
					seen[n.Ord] = true
				}
				if len(seen) == 50 || turn == 0 && size > 50 {
					first = len(seen)
					found := 0
					for _, n := range exactNearest(quant.L2, v, dim, q, first, nil) {
						if seen[ordOf(f, n.Doc)] {
							found++
						}
					}
					if found < first*9/10 {
						t.Errorf("%s, pages of %d: the first %d hold %d of the nearest", name, size, first, found)
					}
				}
			}
			if size > 1 {
				if page, _, err := pages.Next(&s, nil); err != nil || len(page) != 0 {
					t.Errorf("%s: a page after the last: %v, %v", name, page, err)
				}
			}
		}
		for _, p := range []Params{{K: 0}, {K: -3}, {K: 1, Ef: -1}} {
			if _, _, err := f.Pages(queries[:dim], p).Next(&s, nil); !errors.Is(err, storage.ErrInvalid) {
				t.Errorf("%s: %+v: %v", name, p, err)
			}
		}
		if err := f.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

func ordOf(f *Field, doc uint32) uint32 {
	ord, _ := f.Ord(doc)
	return ord
}
