package quant

import (
	"encoding/binary"
	"math"

	"github.com/quarrysearch/quarry/internal/simd"
)

const (
	// metaSize is the number of bytes at the end of a row that are no codes.
	metaSize = 8
	// zeroCode is the byte of a zero component: bytes are codes plus 128.
	zeroCode = 128
	// zeroCodes is eight of them.
	zeroCodes = 0x8080808080808080
	// maxCode is the largest code; the smallest is −maxCode, so that −v has
	// the negated codes of v.
	maxCode = 127
	// roundBias is 1.5·2^23. A float32 of magnitude below 2^22 plus roundBias
	// holds the nearest integer, ties to even, in its low bits.
	roundBias = 12582912.0
)

// SQ8 is the 8-bit codec of one vector field. It is a value without state:
// copy it freely, use it from any goroutine.
type SQ8 struct {
	dim    int
	stride int
	metric Metric
}

// NewSQ8 makes the codec of vectors of dim components, 1 to MaxDim.
func NewSQ8(dim int, metric Metric) SQ8 {
	stride := (dim + metaSize + simd.Block - 1) &^ (simd.Block - 1)
	return SQ8{dim: dim, stride: stride, metric: metric}
}

// Stride is the number of bytes of a row, a multiple of 64.
func (c *SQ8) Stride() int { return c.stride }

// Dim is the number of components of a vector.
func (c *SQ8) Dim() int { return c.dim }

// Metric is the metric the codes are compared by.
func (c *SQ8) Metric() Metric { return c.metric }

// Encode writes the row of v, which has Dim() components, into dst[:Stride()].
// Under Cosine the length of v does not matter. v is a vector that
// Metric.Validate accepts, or zero; of others, one with a NaN or an infinite
// component gets the row of the zero vector, one longer than MaxNorm that of
// the vector of that length.
//
// The same v gives the same bytes on every CPU. Cost: three passes over v,
// some 2 ns a component.
func (c *SQ8) Encode(dst []byte, v []float32) {
	dst, v = dst[:c.stride], v[:c.dim]
	for i := c.dim; i < c.stride-metaSize; i++ {
		dst[i] = zeroCode
	}
	var scale, norm float32
	if squares := quantize(dst, v, simd.MaxMagnitude(v)); squares > 0 {
		length := 1.0
		if c.metric != Cosine {
			length = min(Norm(v), MaxNorm)
		}
		scale = float32(length / math.Sqrt(float64(squares)))
		if c.metric == L2 {
			norm = float32(length * length)
		}
	}
	meta := dst[c.stride-metaSize:]
	binary.LittleEndian.PutUint32(meta, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(meta[4:], math.Float32bits(norm))
}

// Blur is about the standard deviation of the error of d, the distance by code of
// a query and row. +Inf under Dot; anything for a damaged row.
func (c *SQ8) Blur(row []byte, d float32) float32 {
	step, _ := rowMeta(row[:c.stride])
	return c.metric.blur(float64(step), float64(d), c.dim)
}

// quantize writes the biased codes of v, whose largest magnitude is m, and
// returns the sum of the squared codes: 0 when v is zero or not finite.
func quantize(dst []byte, v []float32, m float32) (squares int32) {
	dst = dst[:len(v)]
	if !(m > 0 && m <= math.MaxFloat32) {
		for i := range dst {
			dst[i] = zeroCode
		}
		return 0
	}
	return simd.Codes(dst, v, maxCode/float64(m)) // float64: 127/m overflows float32 for tiny m
}

// rowMeta reads the end of a row.
func rowMeta(row []byte) (scale, norm float32) {
	return splitMeta(binary.LittleEndian.Uint64(row[len(row)-metaSize:]))
}

func splitMeta(meta uint64) (scale, norm float32) {
	return math.Float32frombits(uint32(meta)), math.Float32frombits(uint32(meta >> 32))
}
