package quant

import (
	"fmt"
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
	"github.com/quarrysearch/quarry/storage"
)

// A Metric says how two vectors are compared. The zero value is Cosine. The
// numbers are part of the file format and never reused.
type Metric uint8

const (
	// Cosine is 1 − cos(a, b), from 0 to 2 (rounding may give a little more).
	Cosine Metric = iota
	// Dot is −a·b: the larger the dot product, the nearer.
	Dot
	// L2 is the squared Euclidean distance |a−b|².
	L2
)

const (
	// MaxDim is the largest number of components of a vector.
	MaxDim = 4096
	// MaxNorm is the largest length of a vector under Dot and L2: with it no
	// product or square overflows float32, so no distance is infinite or NaN.
	// Under Cosine any finite vector but zero will do.
	MaxNorm = 1e18
)

// String gives the name that ParseMetric reads.
func (m Metric) String() string {
	switch m {
	case Cosine:
		return "cosine"
	case Dot:
		return "dot"
	case L2:
		return "l2"
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
}

// ParseMetric reads a name given by String: "cosine", "dot" or "l2". Any other
// is an error that matches storage.ErrInvalid.
func ParseMetric(name string) (Metric, error) {
	for m := Cosine; m <= L2; m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, storage.Invalidf("metric %q: want cosine, dot or l2", name)
}

// Valid says whether m is one of the three metrics.
func (m Metric) Valid() bool { return m <= L2 }

// Validate checks a vector from outside: 1 to MaxDim components, equal to dim
// when dim > 0, all finite; under Cosine not zero, under Dot and L2 not longer
// than MaxNorm. The error matches storage.ErrInvalid and names the component.
func (m Metric) Validate(v []float32, dim int) error {
	if len(v) < 1 || len(v) > MaxDim {
		return storage.Invalidf("vector of %d components: want 1 to %d", len(v), MaxDim)
	}
	if dim > 0 && len(v) != dim {
		return storage.Invalidf("vector of %d components: want %d", len(v), dim)
	}
	n := Norm(v) // no finite vector overflows it
	if !(n <= math.MaxFloat64) {
		for i, x := range v {
			if !(math.Abs(float64(x)) <= math.MaxFloat32) { // true of NaN, too
				return storage.Invalidf("vector component %d is %v: want a finite number", i, x)
			}
		}
	}
	if m == Cosine && n == 0 {
		return storage.Invalidf("zero vector has no cosine")
	}
	if m != Cosine && n > MaxNorm {
		return storage.Invalidf("vector of length %.3g: want at most %g", n, float64(MaxNorm))
	}
	return nil
}

// Norm is the Euclidean length of v: finite for any finite vector, and the same
// on every CPU.
func Norm(v []float32) float64 { return math.Sqrt(simd.SumSquares(v)) }

// Prepare writes into dst[:len(v)] the form of v that is stored and that
// Distance and Rescore compare: unit length under Cosine, v itself otherwise.
// dst may be v. A zero vector stays zero.
func (m Metric) Prepare(dst, v []float32) {
	dst = dst[:len(v)]
	if m != Cosine {
		copy(dst, v)
		return
	}
	n := Norm(v)
	if n == 0 {
		clear(dst)
		return
	}
	simd.Divide(dst, v, n)
}

// Distance is the exact distance of two prepared vectors of equal length
// (Prepare: under Cosine both have unit length). Lower is nearer. A zero vector
// has cosine distance 1 to every vector.
func (m Metric) Distance(a, b []float32) float32 {
	switch m {
	case L2:
		return simd.L2F32(a, b)
	case Dot:
		return negative(simd.DotF32(a, b))
	}
	return cosineDistance(simd.DotF32(a, b))
}

// cosineDistance is 1 − cos, 0 when rounding made cos larger than 1.
func cosineDistance(cos float32) float32 {
	d := 1 - cos
	if d < 0 {
		d = 0
	}
	return d
}

// negative is −x, but +0 for 0: distances are ordered by their bits, too.
func negative(x float32) float32 { return 0 - x }

// Rescore sets out[i] to the exact distance of the prepared query q and the
// prepared row ids[i] of base (rows of len(q) components one after the other),
// in one kernel call, with the bits of Distance. The caller has checked that
// every id lies inside base; out is as long as ids or longer.
func (m Metric) Rescore(q, base []float32, ids []uint32, out []float32) {
	out = out[:len(ids)]
	if m == L2 {
		simd.L2F32Gather(q, base, len(q), ids, out)
		return
	}
	simd.DotF32Gather(q, base, len(q), ids, out)
	if m == Dot {
		for i, d := range out {
			out[i] = negative(d)
		}
		return
	}
	for i, d := range out {
		out[i] = cosineDistance(d)
	}
}

// blur is the standard deviation of the error of a distance d by code, when a
// component is off by a part of step, none likelier than another. Along the line
// from the query that makes 2√d·s (cosine: √(2d)·s), s² = step²/12; the rest is
// the square of the error itself, but for its mean, which all distances have. Under Dot it depends on the length of the
// query: +Inf.
func (m Metric) blur(step, d float64, dim int) float32 {
	if m == Dot {
		return float32(math.Inf(1))
	}
	s := step * step / 12
	line, square := float64(4*d)*s, float64(2*float64(dim))*float64(s*s)
	if m == Cosine { // half of a squared distance
		line, square = line/2, square/4
	}
	return float32(math.Sqrt(float64(line) + float64(square)))
}
