package simd

import "math"

// The reference row functions: the definition, on every platform.

func rowMinMaxRef(x []float32) (lo, hi float32) {
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

func rowMaxRef(x []float32) float32 {
	top := x[0]
	for _, v := range x[1:] {
		if v > top {
			top = v
		}
	}
	return top
}

func rowQuantizeRef(x []float32, inv float32, zero int32, out []byte) {
	for i, v := range x {
		q := int32(math.RoundToEven(float64(float32(v*inv)))) + zero
		out[i] = byte(min(max(q, 0), 255))
	}
}

func rowResidualRef(x []float32, scale float32, zero int32, codes []byte, out []float32) {
	for i, v := range x {
		out[i] = v - float32(scale*float32(int32(codes[i])-zero))
	}
}

func rowAddSumRef(x, y []float32) float32 {
	var acc [lanes]float32
	for i := range x {
		x[i] += y[i]
		acc[i%lanes] += x[i]
	}
	return sumLanes(&acc)
}

func rowVarSumRef(x []float32, mean float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		d := v - mean
		acc[i%lanes] += float32(d * d)
	}
	return sumLanes(&acc)
}

func rowNormalizeRef(x []float32, mean, inv float32, gamma, beta []float32) {
	for i, v := range x {
		d := float32(float32(v-mean) * inv)
		x[i] = float32(d*gamma[i]) + beta[i]
	}
}

func rowGELURef(x []float32) {
	for i, v := range x {
		e := 1 + erfRef(float32(v*(math.Sqrt2/2)))
		x[i] = float32(float32(0.5*v) * e)
	}
}

// Coefficients, highest power first. _asm/coef has them too; the tests of
// equality tie the two together.
var (
	erfNum = [...]float32{-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06,
		-5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02}
	erfDen = [...]float32{-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
		-7.37332916720468e-03, -1.42647390514189e-02}
	expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
		1.6666665459e-1, 5.0000001201e-1}
)

const (
	erfMax  = 4
	expMin  = -87
	ln2High = 0.693359375
	ln2Low  = -2.12194440e-4
)

// erfRef is a rational minimax approximation of erf on [−4, 4], x·P(x²)/Q(x²)
// of degrees 13 and 8, as Eigen and XLA use it.
func erfRef(x float32) float32 {
	x = max(min(x, erfMax), -erfMax)
	x2 := float32(x * x)
	return float32(x*horner(x2, erfNum[:])) / horner(x2, erfDen[:])
}

func horner(x float32, coef []float32) float32 {
	p := coef[0]
	for _, c := range coef[1:] {
		p = float32(p*x) + c
	}
	return p
}

// expRef is exp on [−87, 0] by Cody and Waite's reduction to |r| ≤ ln 2 / 2 and
// the polynomial of Cephes' expf.
func expRef(x float32) float32 {
	x = max(x, expMin)
	n := int32(math.RoundToEven(float64(float32(x * math.Log2E))))
	f := float32(n)
	r := x - float32(f*ln2High)
	r -= float32(f * ln2Low)
	p := float32(float32(horner(r, expPoly[:])*r)*r) + r
	return math.Float32frombits(math.Float32bits(p+1) + uint32(n)<<23)
}

func rowExpRef(x []float32, scale, top float32) float32 {
	var acc [lanes]float32
	for i, v := range x {
		e := expRef(float32(v*scale) - top)
		x[i] = e
		acc[i%lanes] += e
	}
	return sumLanes(&acc)
}
