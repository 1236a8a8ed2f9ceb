package hnsw

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quarrysearch/quarry/hnsw/quant"
)

// TestSearchExact compares with distances sorted outright, under every metric
// and filter, with and without a graph.
func TestSearchExact(t *testing.T) {
	r := rand.New(rand.NewPCG(77, 1))
	for _, metric := range []quant.Metric{quant.Cosine, quant.Dot, quant.L2} {
		for _, graphMin := range []int{-1, 100} {
			const n, dim = 700, 9
			vecs := make([]float32, n*dim)
			for i := range vecs {
				vecs[i] = float32(r.IntN(5)) + 0.5 // ties
			}
			docs := make([]uint32, n)
			for i := range docs {
				docs[i] = uint32(3 * i)
			}
			f := openSections(t, buildSections(t, Options{Dim: dim, Metric: metric, GraphMin: graphMin}, vecs, docs), 3*n)
			q := vecs[5*dim : 6*dim]
			for _, share := range []int{0, 1, 3, 100} {
				var accept []uint64
				if share != 100 {
					accept = make([]uint64, f.AcceptLen())
				}
				var want []Neighbor
				pq := make([]float32, dim)
				metric.Prepare(pq, q)
				for ord := range uint32(n) {
					if accept != nil {
						if share == 0 || r.IntN(share+1) != 0 {
							continue
						}
						accept[ord/64] |= 1 << (ord % 64)
					}
					want = append(want, Neighbor{f.Doc(ord), ord, metric.Distance(pq, f.Vector(ord))})
				}
				slices.SortFunc(want, compareNeighbors)
				for _, k := range []int{1, 10, 300, 1000} {
					got, _, err := f.SearchExact(q, Params{K: k}, accept, new(Scratch), nil)
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(got, want[:min(k, len(want))]) {
						t.Fatalf("%v, graph from %d, share %d, k %d: got %v, want %v", metric, graphMin, share, k, got, want[:min(k, len(want))])
					}
				}
			}
		}
	}
}
