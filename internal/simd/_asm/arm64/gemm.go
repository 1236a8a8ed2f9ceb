package main

import "fmt"

const (
	panelBytes = 4 * 32 // a step of four components of a panel of 32 columns
	gemmUnroll = 4      // steps a turn of the loop: 16 components

	gemmSum vec = 12 // sixteen sums, four a row
)

// General registers of the matrix kernels, besides those of rows.go.
const (
	weights  gpr = 11 // the next step of the panel
	step     gpr = 12 // bytes from step to step
	panel    gpr = 13
	colSums  gpr = 14
	colScale gpr = 22
	colBias  gpr = 23
	part     gpr = 24 // parts of the panel still to do
	line     gpr = 25 // of the output
)

// gemmU8S8 writes the matrix kernel: four rows of unsigned activations against
// one panel of signed weights, sixteen sums at a time. With SDOT, these are
// four columns a register, half a panel; without, the two halves of the sum of
// a column stand side by side, two columns a register, a quarter of a panel.
//
//	Σ a·w − zero·Σw = Σ (a−128)·w + (128−zero)·Σw
func (p *prog) gemmU8S8(l level) {
	name := "gemmU8S8x4" + l.suffix
	p.kernel(name, "a *byte, k int, w *int8, rowScale *float32, rowZero *int32, sums *int32, colScale *float32, bias *float32, out *float32, stride int", "",
		name+" is gemmPanelRef for 4 rows and k a positive multiple of 16; stride is in bytes.")
	p.param("k", length)
	p.param("w", panel)
	p.param("sums", colSums)
	p.param("colScale", colScale)
	p.param("bias", colBias)
	p.param("out", out)
	p.param("stride", stride)
	p.op("MOVD", imm(panelBytes), step)
	p.op("MOVD", imm(0x80), tmp)
	p.op("VDUP", tmp, signV.as("B16"))
	cols := 2 // registers of four columns a part
	if l.dot {
		cols = 4
	}
	p.op("MOVD", imm(8/cols), part)
	p.loop("part")
	for i := range vec(16) {
		p.clear(gemmSum + i)
	}
	p.param("a", row(0))
	for r := 1; r < group; r++ {
		p.op("ADD", length, row(r-1), row(r))
	}
	p.op("MOVD", panel, weights)
	p.op("MOVD", length, left)
	p.loop("step")
	for r := range group {
		p.load(row(r), vec(r), 1)
	}
	for r := range vec(group) {
		p.eor(r, r, signV)
	}
	for u := range gemmUnroll {
		p.loadStep(weights, step, 4, cols)
		if l.dot {
			p.gemmDot(u)
		} else {
			p.gemmLong(u)
		}
	}
	p.op("SUBS", imm(4*gemmUnroll), left)
	p.op("BNE", "step")
	if !l.dot {
		for r := range vec(group) {
			s := gemmSum + 4*r
			p.addp(s, s, s+1)
			p.addp(s+1, s+2, s+3)
		}
	}
	p.gemmFinish(cols)
	p.op("ADD", imm(16*cols), panel)
	p.op("ADD", imm(16*cols), out)
	p.op("SUBS", imm(1), part)
	p.op("BNE", "part")
	p.op("RET")
}

// gemmDot adds the products of step u of sixteen columns, weights in V4–V7.
func (p *prog) gemmDot(u int) {
	for r := range vec(group) {
		for c := range vec(4) {
			p.ve(sdotElement, u, gemmSum+4*r+c, 4+c, r)
		}
	}
}

// gemmLong adds the products of step u of eight columns, weights in V4 and V5.
// Four components of a row are repeated, four times; a register of products
// then holds two columns, and SADALP adds them pair by pair.
func (p *prog) gemmLong(u int) {
	for r := range vec(group) {
		a := 6 + r%2
		p.op("VDUP", r.lane(u), a.as("S4"))
		for c := range vec(2) {
			p.v(smull, 8+2*c, 4+c, a)
			p.v(smull2, 9+2*c, 4+c, a)
		}
		for c := range vec(4) {
			p.v(sadalp, gemmSum+4*r+c, 8+c)
		}
	}
}

// gemmFinish turns the sums into floats, stores them, and steps the constants of
// the columns:
//
//	((float32(sum + (128−zero)·colsum) · rowScale) · colScale) + bias
func (p *prog) gemmFinish(cols int) {
	zero, rowScale, colsum, scale, bias := vec(0), vec(1), vec(4), vec(5), vec(6)
	p.param("rowZero", tmp)
	p.loadAt(tmp, zero, 1)
	p.op("MOVD", imm(128), tmp)
	p.op("VDUP", tmp, vec(2).as("S4"))
	p.sub(zero, 2, zero)
	p.param("rowScale", tmp)
	p.loadAt(tmp, rowScale, 1)
	for c := range vec(cols) {
		p.load(colSums, colsum, 1)
		p.load(colScale, scale, 1)
		p.load(colBias, bias, 1)
		rows := func(f func(r int, sum vec)) {
			for r := range group {
				f(r, gemmSum+4*vec(r)+c)
			}
		}
		rows(func(r int, sum vec) { p.ve(mlaElement, r, sum, colsum, zero) })
		rows(func(r int, sum vec) { p.v(scvtf, sum, sum) })
		rows(func(r int, sum vec) { p.ve(fmulElement, r, sum, sum, rowScale) })
		rows(func(r int, sum vec) { p.v(fmul, sum, sum, scale) })
		rows(func(r int, sum vec) { p.v(fadd, sum, sum, bias) })
	}
	p.op("MOVD", out, line)
	for r := range group {
		p.storeAt(line, gemmSum+4*vec(r), cols)
		if r < group-1 {
			p.op("ADD", stride, line)
		}
	}
}

// gemmF32 writes the float matrix kernel: rows of a against all columns of b,
// products added in order of the inner index, one sum a column. It is the one
// kernel with fused multiplication and addition; the reference computes the
// same by fma32.
func (p *prog) gemmF32(rows int) {
	name := fmt.Sprintf("gemmF32x%dNEON", rows)
	p.kernel(name, "a *float32, lda int, b *float32, ldb int, c *float32, ldc int, k int, n int", "",
		fmt.Sprintf("%s is gemmF32Ref for %d rows, k > 0 and n a positive multiple of 16; lda, ldb and ldc are in bytes.", name, rows))
	p.param("lda", tmp)
	p.param("b", panel)
	p.param("ldb", step)
	p.param("c", out)
	p.param("ldc", stride)
	p.param("k", length)
	p.param("n", part)
	p.loop("block")
	p.param("a", row(0))
	for r := 1; r < rows; r++ {
		p.op("ADD", tmp, row(r-1), row(r))
	}
	for i := range vec(4 * rows) {
		p.clear(floatSum + i)
	}
	p.op("MOVD", panel, weights)
	p.op("MOVD", length, left)
	p.loop("step")
	p.loadStep(weights, step, 0, 4)
	for r := range rows {
		p.op("FMOVS.P", mem(row(r), 4), (4 + vec(r)).scalar())
	}
	for r := range vec(rows) {
		for c := range vec(4) {
			p.ve(fmlaElement, 0, floatSum+4*r+c, c, 4+r)
		}
	}
	p.op("SUBS", imm(1), left)
	p.op("BNE", "step")
	p.op("MOVD", out, line)
	for r := range rows {
		p.storeAt(line, floatSum+4*vec(r), 4)
		if r < rows-1 {
			p.op("ADD", stride, line)
		}
	}
	p.op("ADD", imm(64), panel)
	p.op("ADD", imm(64), out)
	p.op("SUBS", imm(16), part)
	p.op("BNE", "block")
	p.op("RET")
}
