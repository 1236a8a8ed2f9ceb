package fusion

import (
	"math"
	"sort"
)

// Cosine maps a cosine to a leg score: max(0, (cos−floor)/(1−floor)), at most 1.
// floor is what the embedder's unrelated pairs score, in [0,1): 0 for most
// models, about 0.7 for the e5 family; a floor outside that range counts as 0.
// NaN gives 0.
func Cosine(cos, floor float64) float64 {
	if !(floor > 0 && floor < 1) {
		floor = 0
	}
	y := (cos - floor) / (1 - floor)
	if !(y > 0) {
		return 0
	}
	return min(y, 1) // float32 cosines of equal vectors come out a little above 1
}

// L2 maps a squared Euclidean distance d² to a leg score: 1/(1+d²). Negative
// values, which rounding can produce, count as 0; NaN gives 0.
func L2(squared float64) float64 {
	if math.IsNaN(squared) {
		return 0
	}
	return 1 / (1 + max(0, squared))
}

// Dot maps an inner product of vectors of any length to a leg score:
// (1 + x/(1+|x|))/2, strictly increasing, 0.5 for orthogonal vectors. Vectors
// known to be of unit length are better served by Cosine. NaN gives 0.
func Dot(dot float64) float64 {
	switch {
	case math.IsNaN(dot), math.IsInf(dot, -1):
		return 0
	case math.IsInf(dot, 1):
		return 1
	}
	return (1 + dot/(1+math.Abs(dot))) / 2
}

// Keyword maps x = BM25 ÷ Σ idf of the query's terms, in [0,1], to a leg score:
// x(1+k1)/(1+k1·x), strictly increasing, 0 at 0 and 1 at 1. It undoes BM25's
// saturation: where every term occurs once in a document of average length it is
// 0.65 for the usual k1 of 1.2. k1 ≥ 0 is BM25's. x outside [0,1] is clamped;
// NaN gives 0.
func Keyword(x, k1 float64) float64 {
	if !(x > 0) {
		return 0
	}
	if x >= 1 {
		return 1
	}
	return float64(x*(1+k1)) / (1 + float64(k1*x))
}

// AtLeast cuts hits, ordered by score descending, to those with score ≥ least.
// The bound is inclusive; 0 keeps all, above 1 none; NaN keeps none.
func AtLeast(hits []Hit, least float64) []Hit {
	return hits[:sort.Search(len(hits), func(i int) bool { return !(hits[i].Score >= least) })]
}

// Page returns at most k elements of list from offset on; an offset at or past
// the end, or k ≤ 0, gives an empty page. A negative offset counts as 0. Pages of
// one list neither overlap nor leave a gap.
func Page[E any](list []E, offset, k int) []E {
	offset = min(max(offset, 0), len(list))
	k = min(max(k, 0), len(list)-offset)
	return list[offset : offset+k]
}
