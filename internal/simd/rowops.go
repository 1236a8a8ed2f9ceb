package simd

import "math"

// The row functions work on rows of floats of any length, fast when it is a
// multiple of 16. Sums follow the order of DotF32: sixteen lanes,
// then +8, +4, +2, +1. Every product is rounded before it is added.

// QuantizeRow writes the row x as bytes, 0 exactly represented: component i
// stands for scale·(codes[i] − zero). It uses the full range of a byte:
//
//	lo, hi = min(0, min x), max(0, max x);  inv = 255/(hi − lo)
//	zero = round(−lo·inv);  code = clamp(round(x·inv) + zero, 0, 255)
//
// rounding half to even. A row of zeros, or of differences under 1e-30, gives
// scale 0.
func QuantizeRow(x []float32, codes []byte) (scale float32, zero int32) {
	if len(x) == 0 {
		return 0, 0
	}
	codes = codes[:len(x)]
	lo, hi := rowMinMax(x)
	width := hi - lo
	if !(width >= 1e-30) {
		clear(codes)
		return 0, 0
	}
	inv := 255 / width
	zero = min(int32(math.RoundToEven(float64(float32(-lo*inv)))), 255)
	rowQuantize(x, inv, zero, codes)
	return width / 255, zero
}

// ResidualRow sets out to what codes of QuantizeRow leave over of x:
// x − scale·(code − zero).
func ResidualRow(x []float32, codes []byte, scale float32, zero int32, out []float32) {
	if len(x) > 0 {
		rowResidual(x, scale, zero, codes[:len(x)], out[:len(x)])
	}
}

// AddRow adds y to x.
func AddRow(x, y []float32) {
	if len(x) > 0 {
		rowAddSum(x, y[:len(x)])
	}
}

// AddLayerNorm sets x to the layer normalization of x + y:
//
//	x = ((x − mean)·1/√(variance + eps))·gamma + beta
func AddLayerNorm(x, y, gamma, beta []float32, eps float32) {
	if len(x) == 0 {
		return
	}
	n := float32(len(x))
	mean := rowAddSum(x, y[:len(x)]) / n
	variance := rowVarSum(x, mean) / n
	inv := 1 / float32(math.Sqrt(float64(variance+eps)))
	rowNormalize(x, mean, inv, gamma[:len(x)], beta[:len(x)])
}

// GELU sets every component to x·Φ(x), with Φ the normal distribution's
// function through erf: 0.5·x·(1 + erf(x/√2)), to some 5e-7.
func GELU(x []float32) {
	if len(x) > 0 {
		rowGELU(x)
	}
}

// SoftmaxRow sets x to exp(scale·x − max scale·x) and returns the sum: the
// caller divides by it. scale is positive. Components of −Inf become about
// 1e-38, too small to change a sum that is at least 1.
func SoftmaxRow(x []float32, scale float32) (sum float32) {
	if len(x) == 0 {
		return 0
	}
	return rowExp(x, scale, float32(rowMax(x)*scale))
}
