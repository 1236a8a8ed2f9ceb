//go:build (!amd64 && !arm64) || purego

package simd

func (g *gemm) run() { g.runRef() }

func mulF32(a []float32, lda int, b []float32, ldb int, c []float32, ldc, m, k, n int) {
	mulF32Ref(a, lda, b, ldb, c, ldc, m, k, n)
}

func rowMinMax(x []float32) (lo, hi float32) { return rowMinMaxRef(x) }

func rowMax(x []float32) float32 { return rowMaxRef(x) }

func rowQuantize(x []float32, inv float32, zero int32, out []byte) {
	rowQuantizeRef(x, inv, zero, out)
}

func rowResidual(x []float32, scale float32, zero int32, codes []byte, out []float32) {
	rowResidualRef(x, scale, zero, codes, out)
}

func rowAddSum(x, y []float32) float32 { return rowAddSumRef(x, y) }

func rowVarSum(x []float32, mean float32) float32 { return rowVarSumRef(x, mean) }

func rowNormalize(x []float32, mean, inv float32, gamma, beta []float32) {
	rowNormalizeRef(x, mean, inv, gamma, beta)
}

func rowGELU(x []float32) { rowGELURef(x) }

func rowExp(x []float32, scale, top float32) float32 { return rowExpRef(x, scale, top) }
