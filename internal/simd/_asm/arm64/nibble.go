package main

// Vector registers of the kernels of 4-bit rows, besides those of integer.go:
// the query in V0–V3, for lower halves, and V8–V11, for upper ones; a row in
// V4–V7.
const (
	nibbleLow   vec = 12
	nibbleHigh  vec = 13
	product0    vec = 14
	product1    vec = 15
	sumV        vec = 24
	lowNibblesV vec = 30 // 0x0f in every byte
)

// rowsU4S8 writes a kernel of rows of unsigned 4-bit codes and one signed query
// of bytes, sums turned into distances as Affine says. Nibbles are not
// negative as signed bytes either, so sums need no correction.
func (p *prog) rowsU4S8(l level, gather bool) {
	name, ids := "nibbleScan", ""
	if gather {
		name, ids = "nibbleGather", "ids *uint32, "
	}
	p.kernel(name+l.suffix, "q *int8, n int, sum float32, base float32, scale float32, floor float32, codes *byte, "+ids+"rows int, out *float32", "",
		name+l.suffix+" is "+name+"Ref for n, the bytes of a row, a positive multiple of 64 and rows > 0.")
	p.param("q", query)
	p.param("n", length)
	p.param("rows", left)
	p.param("out", out)
	if gather {
		p.param("ids", next)
		p.param("codes", base)
	} else {
		p.param("codes", next)
	}
	p.op("MOVD", length, stride)
	p.op("MOVD", imm(0x0f), tmp)
	p.op("VDUP", tmp, lowNibblesV.as("B16"))
	p.broadcast("floor", floorV)
	p.broadcast("base", baseV)
	p.broadcast("scale", scaleV)
	p.broadcast("sum", sumV)
	p.loop("group")
	if gather {
		p.gatherAddresses()
	} else {
		p.scanAddresses()
	}
	for i := range vec(2 * group) {
		p.clear(rowSum + i)
	}
	p.nibbleChunks(l, gather)
	for r := range vec(group) {
		p.add(rowSum+2*r, rowSum+2*r, rowSum+2*r+1)
	}
	p.addp(rowSum, rowSum, rowSum+2)
	p.addp(rowSum+4, rowSum+4, rowSum+6)
	p.addp(rowSum, rowSum, rowSum+4)
	p.finishAffine(rowSum)
	p.storeGroup(rowSum)
}

// nibbleChunks adds up four rows, 64 bytes at a time, and leaves the addresses
// of the rows at their ends.
func (p *prog) nibbleChunks(l level, gather bool) {
	p.op("MOVD", query, q)
	p.op("MOVD", imm(0), off)
	p.loop("chunk")
	for r := range group {
		if gather {
			p.prefetchAt(ahead(r), off)
		} else {
			p.prefetch(ahead(0), 64*r)
		}
	}
	if !gather {
		p.op("ADD", imm(64*group), ahead(0))
	}
	p.load(q, 0, 4)
	p.load(q, 8, 4)
	for r := range group {
		const codes = vec(4)
		p.load(row(r), codes, 4)
		for i := range vec(4) {
			p.three("VAND", "B16", nibbleLow, codes+i, lowNibblesV)
			p.op("VUSHR", imm(4), (codes + i).as("B16"), nibbleHigh.as("B16"))
			sum := rowSum + 2*vec(r)
			if l.dot {
				p.v(sdot, sum, nibbleLow, i)
				p.v(sdot, sum+1, nibbleHigh, 8+i)
				continue
			}
			for half, nibble := range []vec{nibbleLow, nibbleHigh} {
				with := i + 8*vec(half)
				p.v(smull, product0, nibble, with)
				p.v(smull2, product1, nibble, with)
				p.v(sadalp, sum, product0)
				p.v(sadalp, sum+1, product1)
			}
		}
	}
	p.op("ADD", imm(64), off)
	p.op("CMP", length, off)
	p.op("BLT", "chunk")
}

// finishAffine turns four sums into distances as Affine says, one operation
// after the other. The rows' addresses stand behind their step, low and norm.
func (p *prog) finishAffine(x vec) {
	for r := range group {
		p.op("SUB", imm(16), row(r), tmp)
		p.loadAt(tmp, vec(r), 1) // –, step, low, norm
	}
	const step, low, norm = 8, 9, 10
	p.even(4, 0, 1) // – low – low
	p.even(5, 2, 3)
	p.odd(6, 0, 1) // step norm step norm
	p.odd(7, 2, 3)
	p.odd(low, 4, 5)
	p.even(step, 6, 7)
	p.odd(norm, 6, 7)
	p.v(scvtf, x, x)
	p.v(fmul, x, step, x)
	p.v(fmul, low, low, sumV)
	p.v(fadd, x, x, low)
	p.v(fmul, x, x, scaleV)
	p.v(fadd, norm, norm, baseV)
	p.v(fsub, x, norm, x)
	p.v(fcmgt, mask, floorV, x) // not FMAX: x when one is NaN, as the reference does
	p.bit(x, floorV, mask)
}
