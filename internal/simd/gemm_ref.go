package simd

import "math"

// runRef is the definition of MulU8S8.
func (g *gemm) runRef() {
	for p := range g.panels {
		for r := range g.m {
			gemmPanelRef(g, r, p)
		}
	}
}

// gemmPanelRef computes one row of one panel.
func gemmPanelRef(g *gemm, r, p int) {
	var acc [PanelCols]int32
	row := g.codes[r*g.k : (r+1)*g.k]
	w := g.packed[p*PanelCols*g.k : (p+1)*PanelCols*g.k]
	for len(row) >= 4 && len(w) >= 4*PanelCols {
		a0, a1, a2, a3 := int32(row[0]), int32(row[1]), int32(row[2]), int32(row[3])
		step := w[:4*PanelCols]
		for c := range acc {
			q := step[4*c : 4*c+4 : 4*c+4]
			acc[c] += a0*int32(q[0]) + a1*int32(q[1]) + a2*int32(q[2]) + a3*int32(q[3])
		}
		row, w = row[4:], w[4*PanelCols:]
	}
	first := p * PanelCols
	out := g.out[r*g.stride+first : r*g.stride+first+PanelCols]
	zero, scale := g.rowZero[r], g.rowScale[r]
	for c, sum := range acc {
		v := float32(sum - zero*g.sums[first+c])
		v = float32(v * scale)
		v = float32(v * g.colScale[first+c])
		out[c] = v + g.bias[first+c]
	}
}

// mulF32Ref is the definition of MulF32.
func mulF32Ref(a []float32, lda int, b []float32, ldb int, c []float32, ldc, m, k, n int) {
	for r := range m {
		out := c[r*ldc : r*ldc+n]
		clear(out)
		for i, v := range a[r*lda : r*lda+k] {
			row := b[i*ldb : i*ldb+n]
			for j, w := range row {
				out[j] = fma32(v, w, out[j])
			}
		}
	}
}

// fma32 is a·b + c rounded once. The product is exact in float64; the sum is
// rounded to odd there (Boldo and Melquiond, Emulation of a FMA and correctly
// rounded sums, 2008), so that rounding it to float32 gives what one rounding
// of the exact value would.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	part := s - p
	e := (p - (s - part)) + (q - part) // s + e is exact
	if e > 0 || e < 0 {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}
