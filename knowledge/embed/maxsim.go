package embed

import "github.com/quarrysearch/quarry/internal/simd"

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
