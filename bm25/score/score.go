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
// at a time. All functions are pure.
package score

//go:generate sh -c "cd _asm && go run . -out ../kernel_amd64.s -stubs ../stub_amd64.go -pkg score"

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

// Batch writes the contributions of len(out) docs to out, given the freq and
// the inv of each.
func Batch(out, freqs []uint32, inv []float32, w float32) {
	freqs, inv = freqs[:len(out)], inv[:len(out)]
	for i := kernel(out, freqs, inv, w); i < len(out); i++ {
		out[i] = Of(w, freqs[i], inv[i])
	}
}
