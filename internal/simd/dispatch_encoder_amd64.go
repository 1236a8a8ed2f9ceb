//go:build amd64 && !purego

package simd

import "golang.org/x/sys/cpu"

// hasFMA is true wherever AVX2 is, but for a few processors.
var hasFMA = cpu.X86.HasFMA

// run calls the panel kernels: for each panel all rows, so that the panel
// stays in the first-level cache.
func (g *gemm) run() {
	if !useAVX2 || g.k%16 != 0 || g.m%GemmRows != 0 {
		g.runRef()
		return
	}
	for p := range g.panels {
		first := p * PanelCols
		w := &g.packed[first*g.k]
		sums, colScale, bias := &g.sums[first], &g.colScale[first], &g.bias[first]
		for r := 0; r < g.m; {
			a, rs, rz := &g.codes[r*g.k], &g.rowScale[r], &g.rowZero[r]
			out := &g.out[r*g.stride+first]
			left := g.m - r
			switch {
			case !useAVX512:
				gemmU8S8x4AVX2(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
				r += 4
			case left >= 12:
				gemmU8S8x12AVX512(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
				r += 12
			case left >= 8:
				gemmU8S8x8AVX512(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
				r += 8
			default:
				gemmU8S8x4AVX512(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
				r += 4
			}
		}
	}
}

func mulF32(a []float32, lda int, b []float32, ldb int, c []float32, ldc, m, k, n int) {
	if !useAVX2 || !hasFMA || n%16 != 0 || k <= 0 {
		mulF32Ref(a, lda, b, ldb, c, ldc, m, k, n)
		return
	}
	for r := 0; r < m; {
		pa, pc, left := &a[r*lda], &c[r*ldc], m-r
		switch {
		case useAVX512 && left >= 8:
			gemmF32x8AVX512(pa, 4*lda, &b[0], 4*ldb, pc, 4*ldc, k, n)
			r += 8
		case useAVX512 && left >= 4:
			gemmF32x4AVX512(pa, 4*lda, &b[0], 4*ldb, pc, 4*ldc, k, n)
			r += 4
		case useAVX512:
			gemmF32x1AVX512(pa, 4*lda, &b[0], 4*ldb, pc, 4*ldc, k, n)
			r++
		case left >= 4:
			gemmF32x4AVX2(pa, 4*lda, &b[0], 4*ldb, pc, 4*ldc, k, n)
			r += 4
		default:
			gemmF32x1AVX2(pa, 4*lda, &b[0], 4*ldb, pc, 4*ldc, k, n)
			r++
		}
	}
}

func rowMinMax(x []float32) (lo, hi float32) {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		return rowMinMaxAVX512(&x[0], len(x))
	case useAVX2 && len(x)%lanes == 0:
		return rowMinMaxAVX2(&x[0], len(x))
	}
	return rowMinMaxRef(x)
}

func rowMax(x []float32) float32 {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		return rowMaxAVX512(&x[0], len(x))
	case useAVX2 && len(x)%lanes == 0:
		return rowMaxAVX2(&x[0], len(x))
	}
	return rowMaxRef(x)
}

func rowQuantize(x []float32, inv float32, zero int32, out []byte) {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		rowQuantizeAVX512(&x[0], len(x), inv, zero, &out[0])
	case useAVX2 && len(x)%lanes == 0:
		rowQuantizeAVX2(&x[0], len(x), inv, zero, &out[0])
	default:
		rowQuantizeRef(x, inv, zero, out)
	}
}

func rowResidual(x []float32, scale float32, zero int32, codes []byte, out []float32) {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		rowResidualAVX512(&x[0], len(x), scale, zero, &codes[0], &out[0])
	case useAVX2 && len(x)%lanes == 0:
		rowResidualAVX2(&x[0], len(x), scale, zero, &codes[0], &out[0])
	default:
		rowResidualRef(x, scale, zero, codes, out)
	}
}

func rowAddSum(x, y []float32) float32 {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		return rowAddSumAVX512(&x[0], &y[0], len(x))
	case useAVX2 && len(x)%lanes == 0:
		return rowAddSumAVX2(&x[0], &y[0], len(x))
	}
	return rowAddSumRef(x, y)
}

func rowVarSum(x []float32, mean float32) float32 {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		return rowVarSumAVX512(&x[0], len(x), mean)
	case useAVX2 && len(x)%lanes == 0:
		return rowVarSumAVX2(&x[0], len(x), mean)
	}
	return rowVarSumRef(x, mean)
}

func rowNormalize(x []float32, mean, inv float32, gamma, beta []float32) {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		rowNormalizeAVX512(&x[0], len(x), mean, inv, &gamma[0], &beta[0])
	case useAVX2 && len(x)%lanes == 0:
		rowNormalizeAVX2(&x[0], len(x), mean, inv, &gamma[0], &beta[0])
	default:
		rowNormalizeRef(x, mean, inv, gamma, beta)
	}
}

func rowGELU(x []float32) {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		rowGELUAVX512(&x[0], len(x))
	case useAVX2 && len(x)%lanes == 0:
		rowGELUAVX2(&x[0], len(x))
	default:
		rowGELURef(x)
	}
}

func rowExp(x []float32, scale, top float32) float32 {
	switch {
	case useAVX512 && len(x)%lanes == 0:
		return rowExpAVX512(&x[0], len(x), scale, top)
	case useAVX2 && len(x)%lanes == 0:
		return rowExpAVX2(&x[0], len(x), scale, top)
	}
	return rowExpRef(x, scale, top)
}
