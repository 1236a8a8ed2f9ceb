package embed

import (
	"context"
	"math"
	"slices"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/storage"
)

// A FloorReport tells how similar a model finds texts that have nothing to do
// with each other.
type FloorReport struct {
	// Pairs measured, and the mean, standard deviation, median and 95th
	// percentile of their cosines.
	Pairs                int
	Mean, Deviation      float64
	Median, Percentile95 float64
	// Floor is the value to declare: the mean, rounded down to two digits, and
	// 0 when it is below 0.2, where rescaling would gain nothing.
	Floor float64
}

// MeasureFloor measures the floor of an embedder (semantics S0.2): the cosine
// of queries with passages that do not answer them. Query i is paired with all
// passages but passage i, so the two lists may be questions and their answers,
// in order, or just texts of different subjects; each takes at least two.
func MeasureFloor(ctx context.Context, e Embedder, queries, passages []string) (FloorReport, error) {
	if len(queries) < 2 || len(passages) < 2 {
		return FloorReport{}, storage.Invalidf("floor: %d queries and %d passages, want at least 2 of each", len(queries), len(passages))
	}
	q, err := e.Embed(ctx, Query, queries)
	if err != nil {
		return FloorReport{}, err
	}
	p, err := e.Embed(ctx, Passage, passages)
	if err != nil {
		return FloorReport{}, err
	}
	dim := e.Identity().Dim
	var cos []float64
	var sum, squares float64
	for i := range queries {
		for j := range passages {
			if i == j {
				continue
			}
			var d float64
			for x, v := range q.Vectors[i*dim : (i+1)*dim] {
				d += float64(v) * float64(p.Vectors[j*dim+x])
			}
			cos = append(cos, d)
			sum += d
			squares += d * d
		}
	}
	slices.Sort(cos)
	n := float64(len(cos))
	r := FloorReport{Pairs: len(cos), Mean: sum / n, Median: cos[len(cos)/2], Percentile95: cos[len(cos)*95/100]}
	r.Deviation = math.Sqrt(max(squares/n-r.Mean*r.Mean, 0))
	if r.Mean >= 0.2 {
		r.Floor = math.Floor(r.Mean*100) / 100
	}
	return r, nil
}

// MaxSim is the late-interaction score of a passage for a query: the mean over
// the query's tokens of the best cosine with a token of the passage, in
// [−1, 1] (Khattab and Zaharia, ColBERT, 2020, with the mean for the sum). It
// is 0 when either has no tokens or their dimensions differ. Time: the product
// of the numbers of tokens and the dimension.
func MaxSim(query, passage TokenVectors) float64 {
	dim := query.Dim
	if dim <= 0 || dim != passage.Dim {
		return 0
	}
	n, m := len(query.Vectors)/dim, len(passage.Vectors)/dim
	if n == 0 || m == 0 {
		return 0
	}
	ids, sims := make([]uint32, m), make([]float32, m)
	for i := range ids {
		ids[i] = uint32(i)
	}
	var sum float64
	for i := range n {
		simd.DotF32Gather(query.Vectors[i*dim:(i+1)*dim], passage.Vectors, dim, ids, sims)
		best := sims[0]
		for _, s := range sims[1:] {
			best = max(best, s)
		}
		sum += float64(best)
	}
	return sum / float64(n)
}
