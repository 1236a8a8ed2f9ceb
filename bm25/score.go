package bm25

import (
	"math"
	"math/bits"

	"github.com/quarrysearch/quarry/bm25/score"
)

// Scale is the number of raw units in a BM25 score of 1.
const Scale = score.Scale

// maxWeight bounds the weight of one clause.
const maxWeight = score.MaxWeight

// normFree is the count of lengths coded as themselves before the coding of
// encodeNorm turns into a float of 4 bits of mantissa.
const normFree = 24

// encodeNorm codes a length in one byte: exact to 39, then rounded down to
// four significant bits (Lucene's SmallFloat.intToByte4). It is monotone.
func encodeNorm(length uint32) byte {
	length = min(length, math.MaxInt32)
	if length < normFree {
		return byte(length)
	}
	v := length - normFree
	n := bits.Len32(v)
	if n < 4 {
		return byte(normFree + v)
	}
	shift := n - 4
	return byte(normFree + (v>>shift&7 | uint32(shift+1)<<3))
}

// decodeNorm returns the least length with the given code.
func decodeNorm(norm byte) uint32 {
	if norm < normFree {
		return uint32(norm)
	}
	v := uint32(norm) - normFree
	if v < 8 {
		return normFree + v
	}
	return normFree + (v&7|8)<<(v>>3-1)
}

// IDF is the inverse document frequency of a term in n of docs docs:
// ln(1 + (docs − n + ½) / (n + ½)). It is positive for every n ≤ docs, also
// for a term in all of them (case C01) and in an empty field (C02); an n above
// docs counts as docs.
func IDF(docs, n uint64) float64 {
	n = min(n, docs)
	return naturalLog(1 + (float64(docs-n)+0.5)/(float64(n)+0.5))
}

// naturalLog is ln x for x ≥ 1 by the algorithm of FreeBSD's e_log.c, written
// so that no step can be fused with the next: math.Log is assembly on one CPU
// and Go on another, and may differ in the last bit.
func naturalLog(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		l1    = 6.666666666666735130e-01
		l2    = 3.999999999940941908e-01
		l3    = 2.857142874366239149e-01
		l4    = 2.222219843214978396e-01
		l5    = 1.818357216161805012e-01
		l6    = 1.531383769920937332e-01
		l7    = 1.479819860511658591e-01
	)
	f1, ki := math.Frexp(x)
	if f1 < math.Sqrt2/2 {
		f1 *= 2
		ki--
	}
	f := f1 - 1
	k := float64(ki)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * (l1 + float64(s4*(l3+float64(s4*(l5+float64(s4*l7)))))))
	t2 := float64(s4 * (l2 + float64(s4*(l4+float64(s4*l6)))))
	r := t1 + t2
	h := float64(0.5 * float64(f*f))
	return float64(k*ln2Hi) - ((h - (float64(s*(h+r)) + float64(k*ln2Lo))) - f)
}

// inverseNorms returns 1 / (k1·(1 − b + b·length/average)) for every norm. An
// average of 0 (no doc with the field, case C02) counts as 1.
func inverseNorms(p Params, average float64) *[256]float32 {
	if !(average > 0) {
		average = 1
	}
	var inv [256]float32
	for i := range inv {
		ratio := float64(p.B*float64(decodeNorm(byte(i)))) / average
		inv[i] = float32(1 / float64(p.K1*((1-p.B)+ratio)))
	}
	return &inv
}

// contribution is the raw score of one clause in one doc; see package score.
func contribution(w float32, freq uint32, inv float32) uint32 { return score.Of(w, freq, inv) }

// fullContribution bounds the contribution of every freq and norm.
func fullContribution(w float32) uint32 { return score.Full(w) }

// scoreBatch writes the contributions of a batch of docs, a block at most, to
// out.
func (s *Scratch) scoreBatch(out, docs, freqs []uint32, norms []byte, inv *[256]float32, w float32) {
	of := s.invs[:len(docs)]
	for i, d := range docs {
		of[i] = inv[norms[d]]
	}
	score.Batch(out[:len(docs)], freqs, of, w)
}

// scoreWindow adds the contributions of docs, all in the window that starts at
// from, to the accumulator and marks them in the bits.
func (s *Scratch) scoreWindow(from uint32, docs, freqs []uint32, norms []byte, inv *[256]float32, w float32) {
	acc, set := &s.acc, &s.set
	for len(docs) > 0 {
		n := min(len(docs), blockDocs)
		scores := s.part[:n]
		s.scoreBatch(scores, docs[:n], freqs[:n], norms, inv, w)
		for i, d := range docs[:n] {
			o := (d - from) & (windowDocs - 1)
			acc[o] += scores[i]
			set[o>>6] |= 1 << (o & 63)
		}
		docs, freqs = docs[n:], freqs[n:]
	}
}

// Normalize maps a raw score to [0, 1]: y = x(1+k1)/(1+k1·x) with x = raw /
// idfSum, both in units of 2^-20. It is strictly monotone in raw (the slope is
// at least 1/(1+k1), far above the rounding of float64) and 1 at idfSum; y is
// about 0.65 when every term of the query occurs once in a doc of average
// length. idfSum below 1 counts as 1.
func Normalize(raw, idfSum int64, k1 float64) float64 {
	if raw <= 0 {
		return 0
	}
	x := float64(raw) / float64(max(idfSum, raw, 1))
	return x * (1 + k1) / (1 + float64(k1*x))
}
