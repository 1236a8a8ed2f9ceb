// Package score is what one clause of a keyword query gives one doc.
//
// A contribution is w·f/(f + 1/inv) for the weight w of the clause, the freq f
// of the word in the doc and inv, which the doc's length decides. It is
// computed as w − w/(1+f·inv), which in float32 is monotone in f and in inv
// (Lucene's BM25Similarity), and rounded once to fixed point, half up. It is at
// least 1, so that a doc matches exactly when its sum is positive; both steps
// keep it monotone, so the contribution of an impact is a true bound.
//
// Of is the definition. Batch gives the same numbers, on amd64 with AVX2 eight
// at a time. Collect empties a window of sums, with AVX2 64 docs at a time where
// they lie dense. Nothing is shared between calls.
package score

//go:generate sh -c "cd _asm && go run . -out ../kernel_amd64.s -stubs ../stub_amd64.go -pkg score"

import "math/bits"

// Scale is the number of units in a score of 1.
const Scale = 1 << 20

// MaxWeight bounds the weight of one clause, so that its contribution, doubled
// for rounding, fits 32 bits.
const MaxWeight = 2047

// Of returns the contribution of one clause to one doc, in units of 2^-20. The
// weight is 0 to MaxWeight, the freq 1 to 2^31.
func Of(w float32, freq uint32, inv float32) uint32 {
	x := w - w/(1+float32(float32(freq)*inv))
	return max((uint32(x*(2*Scale))+1)>>1, 1)
}

// Full bounds the contributions of every freq and norm.
func Full(w float32) uint32 {
	return max((uint32(w*(2*Scale))+1)>>1, 1)
}

// Collect empties a window of docs, the first of which is from: acc holds the sum
// of every doc, 0 for those without, and set a bit for each with one. The docs
// whose sum is at least least and whose bit is set in keep are written to docs
// and scores, in order, and their number is returned; acc and set are cleared.
// keep has as many words as set, docs, scores and acc 64 times as many elements.
func Collect(docs, scores, acc []uint32, set, keep []uint64, least, from uint32) int {
	if len(set) == 0 {
		return 0
	}
	size := 64 * len(set)
	docs, scores, acc, keep = docs[:size], scores[:size], acc[:size], keep[:len(set)]
	if n, ok := kernelCollect(docs, scores, acc, set, keep, least, from); ok {
		return n
	}
	n := 0
	for i, w := range set {
		set[i] = 0
		sums := acc[i*64 : i*64+64 : i*64+64]
		for refused := w &^ keep[i]; refused != 0; refused &= refused - 1 {
			sums[bits.TrailingZeros64(refused)&63] = 0
		}
		w &= keep[i]
		// Written first and kept by the count: no branch to mispredict.
		for w != 0 {
			b := bits.TrailingZeros64(w)
			w &= w - 1
			sum := sums[b&63]
			sums[b&63] = 0
			docs[n], scores[n] = from+uint32(i*64+b), sum
			if sum >= least {
				n++
			}
		}
	}
	return n
}

// Batch writes the contributions of len(out) docs to out, given the freq and
// the inv of each.
func Batch(out, freqs []uint32, inv []float32, w float32) {
	freqs, inv = freqs[:len(out)], inv[:len(out)]
	for i := kernel(out, freqs, inv, w); i < len(out); i++ {
		out[i] = Of(w, freqs[i], inv[i])
	}
}
