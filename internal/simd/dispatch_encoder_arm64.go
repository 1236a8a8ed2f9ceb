//go:build arm64 && !purego

package simd

// run calls the panel kernels: for each panel all rows, so that the panel
// stays in the first-level cache.
func (g *gemm) run() {
	if !useNEON || g.k%16 != 0 || g.m%GemmRows != 0 {
		g.runRef()
		return
	}
	for p := range g.panels {
		first := p * PanelCols
		w := &g.packed[first*g.k]
		sums, colScale, bias := &g.sums[first], &g.colScale[first], &g.bias[first]
		for r := 0; r < g.m; r += GemmRows {
			a, rs, rz := &g.codes[r*g.k], &g.rowScale[r], &g.rowZero[r]
			out := &g.out[r*g.stride+first]
			if useDotProd {
				gemmU8S8x4DotProd(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
			} else {
				gemmU8S8x4NEON(a, g.k, w, rs, rz, sums, colScale, bias, out, 4*g.stride)
			}
		}
	}
}

func mulF32(a []float32, lda int, b []float32, ldb int, c []float32, ldc, m, k, n int) {
	if !useNEON || n%16 != 0 || k <= 0 {
		mulF32Ref(a, lda, b, ldb, c, ldc, m, k, n)
		return
	}
	for r := 0; r < m; {
		if m-r >= 4 {
			gemmF32x4NEON(&a[r*lda], 4*lda, &b[0], 4*ldb, &c[r*ldc], 4*ldc, k, n)
			r += 4
		} else {
			gemmF32x1NEON(&a[r*lda], 4*lda, &b[0], 4*ldb, &c[r*ldc], 4*ldc, k, n)
			r++
		}
	}
}

func rowMinMax(x []float32) (lo, hi float32) {
	if useNEON && len(x)%lanes == 0 {
		return rowMinMaxNEON(&x[0], len(x))
	}
	return rowMinMaxRef(x)
}

func rowMax(x []float32) float32 {
	if useNEON && len(x)%lanes == 0 {
		return rowMaxNEON(&x[0], len(x))
	}
	return rowMaxRef(x)
}

func rowQuantize(x []float32, inv float32, zero int32, out []byte) {
	if useNEON && len(x)%lanes == 0 {
		rowQuantizeNEON(&x[0], len(x), inv, zero, &out[0])
		return
	}
	rowQuantizeRef(x, inv, zero, out)
}

func rowResidual(x []float32, scale float32, zero int32, codes []byte, out []float32) {
	if useNEON && len(x)%lanes == 0 {
		rowResidualNEON(&x[0], len(x), scale, zero, &codes[0], &out[0])
		return
	}
	rowResidualRef(x, scale, zero, codes, out)
}

func rowAddSum(x, y []float32) float32 {
	if useNEON && len(x)%lanes == 0 {
		return rowAddSumNEON(&x[0], &y[0], len(x))
	}
	return rowAddSumRef(x, y)
}

func rowVarSum(x []float32, mean float32) float32 {
	if useNEON && len(x)%lanes == 0 {
		return rowVarSumNEON(&x[0], len(x), mean)
	}
	return rowVarSumRef(x, mean)
}

func rowNormalize(x []float32, mean, inv float32, gamma, beta []float32) {
	if useNEON && len(x)%lanes == 0 {
		rowNormalizeNEON(&x[0], len(x), mean, inv, &gamma[0], &beta[0])
		return
	}
	rowNormalizeRef(x, mean, inv, gamma, beta)
}

func rowGELU(x []float32) {
	if useNEON && len(x)%lanes == 0 {
		rowGELUNEON(&x[0], len(x))
		return
	}
	rowGELURef(x)
}

func rowExp(x []float32, scale, top float32) float32 {
	if useNEON && len(x)%lanes == 0 {
		return rowExpNEON(&x[0], len(x), scale, top)
	}
	return rowExpRef(x, scale, top)
}
