package quant

import (
	"encoding/binary"
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
)

const (
	// affineMeta is the number of bytes at the end of a 4-bit row that are no
	// codes.
	affineMeta = 12
	// maxNibble is the largest 4-bit code; the smallest is 0.
	maxNibble = 15
)

// SQ4 is the 4-bit codec of one vector field: half the bytes of SQ8, compared
// with queries of 8 bits. It is a value without state, as SQ8 is.
type SQ4 struct {
	stride int
	query  SQ8
}

// NewSQ4 makes the codec of vectors of dim components, 1 to MaxDim.
func NewSQ4(dim int, metric Metric) SQ4 {
	stride := ((dim+1)/2 + affineMeta + simd.Block - 1) &^ (simd.Block - 1)
	return SQ4{stride: stride, query: NewSQ8(dim, metric)}
}

// Stride is the number of bytes of a row, a multiple of 64.
func (c *SQ4) Stride() int { return c.stride }

// Encode writes the row of v, which has Dim() components, into dst[:Stride()]:
// the codes are the steps from the smallest component of v to the largest, and
// stand for the vector in their direction with the length of v (1 under
// Cosine). What SQ8.Encode says of v holds here, too.
func (c *SQ4) Encode(dst []byte, v []float32) {
	dst, v = dst[:c.stride], v[:c.query.dim]
	clear(dst)
	low, high := v[0], v[0]
	for _, x := range v {
		low, high = min(low, x), max(high, x)
	}
	length := 1.0
	if c.query.metric != Cosine {
		length = min(Norm(v), MaxNorm)
	}
	base, step := float64(low), (float64(high)-float64(low))/maxNibble
	if !(math.Abs(base)+step <= math.MaxFloat32) || length == 0 {
		return // not finite, or zero
	}
	var sum, squares int64
	if step > 0 {
		sum, squares = nibbles(dst, v, base, 1/step)
	}
	// |base + step·u|², without fused steps: the same on every CPU.
	n := float64(float64(len(v)) * float64(base*base))
	n += float64(float64(2*float64(base*step)) * float64(sum))
	n += float64(float64(step*step) * float64(squares))
	if !(n > 0) {
		clear(dst)
		return
	}
	scale := length / math.Sqrt(n)
	meta := dst[c.stride-affineMeta:]
	binary.LittleEndian.PutUint32(meta, math.Float32bits(float32(step*scale)))
	binary.LittleEndian.PutUint32(meta[4:], math.Float32bits(float32(base*scale)))
	if c.query.metric == L2 {
		binary.LittleEndian.PutUint32(meta[8:], math.Float32bits(float32(length*length)))
	}
}

// Blur is as that of SQ8.
func (c *SQ4) Blur(row []byte, d float32) float32 {
	step := math.Float32frombits(binary.LittleEndian.Uint32(row[c.stride-affineMeta:]))
	return c.query.metric.blur(float64(step), float64(d), c.query.dim)
}

// nibbles writes the codes of v and returns their sum and that of their
// squares. The first half of the components fills the lower halves of the
// bytes, the second the upper ones.
func nibbles(dst []byte, v []float32, base, inv float64) (sum, squares int64) {
	half := (len(v) + 1) / 2
	for i, x := range v {
		y := float32(float64(float64(x)-base)*inv) + roundBias
		u := math.Float32bits(y) - math.Float32bits(roundBias)
		u = min(u, maxNibble)
		sum += int64(u)
		squares += int64(u * u)
		if i < half {
			dst[i] = byte(u)
		} else {
			dst[i-half] |= byte(u << 4)
		}
	}
	return sum, squares
}

// Bind makes v, of Dim() components, the query, with codes of 8 bits.
func (c *SQ4) Bind(q *Query, v []float32) {
	c.query.Bind(q, v)
	scale, bytes := q.form.Scale, q.codes[:c.query.dim]
	if cap(q.planes) < 2*c.stride {
		q.planes = make([]int8, 2*c.stride)
	}
	q.planes = q.planes[:2*c.stride]
	clear(q.planes)
	half := (len(bytes) + 1) / 2
	spread(q.planes, bytes[:half])
	spread(q.planes[simd.Block:], bytes[half:])
	q.affine = simd.Affine{
		Sum: float32(q.form.Bias / zeroCode), Base: q.form.Base, Scale: scale, Floor: q.form.Floor,
	}
	q.nibbles = true
}

// spread copies codes to every other block of planes.
func spread(planes, codes []int8) {
	for len(codes) > 0 {
		n := copy(planes[:simd.Block], codes)
		codes = codes[n:]
		if len(codes) > 0 {
			planes = planes[2*simd.Block:]
		}
	}
}
