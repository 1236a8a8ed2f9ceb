package main

// Vector registers of the integer kernels over rows: the query in V0–V3, rows
// in V4–V11, products in V12–V15, and
const (
	rowSum   vec = 16 // two sums for each of the four rows
	scaleV   vec = 26
	baseV    vec = 27
	floorV   vec = 28
	mask     vec = 29
	signV    vec = 30 // 0x80 in every byte
	correctV vec = 31 // what every sum lacks
)

// rowsU8S8 writes a kernel of unsigned rows and one signed query. The sums are
// exact 32-bit integers, so neither lane order nor instruction set matters.
// With distances, they go through a Form; a row is then as long as the query.
func (p *prog) rowsU8S8(l level, gather, distances bool) {
	name, params, result := "dotU8S8", "codes *byte, stride int, ", "out *int32"
	if distances {
		name, params, result = "distance", "bias int32, base float32, scale float32, floor float32, codes *byte, ", "out *float32"
	}
	if gather {
		name += "Gather"
		params += "ids *uint32, "
	} else {
		name += "Scan"
	}
	p.kernel(name+l.suffix, "q *int8, n int, "+params+"rows int, "+result, "",
		name+l.suffix+" is "+name+"Ref for n a positive multiple of 64 and rows > 0.")
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
	if distances {
		p.op("MOVD", length, stride)
	} else {
		p.param("stride", stride)
	}
	p.correction(distances)
	p.loop("group")
	if gather {
		p.gatherAddresses()
	} else {
		p.scanAddresses()
	}
	for i := range vec(2 * group) {
		p.clear(rowSum + i)
	}
	p.intChunks(l, gather)
	for r := range vec(group) {
		p.add(rowSum+2*r, rowSum+2*r, rowSum+2*r+1)
	}
	p.addp(rowSum, rowSum, rowSum+2)
	p.addp(rowSum+4, rowSum+4, rowSum+6)
	p.addp(rowSum, rowSum, rowSum+4)
	p.add(rowSum, rowSum, correctV)
	if distances {
		p.finish(rowSum)
	}
	p.storeGroup(rowSum)
}

// correction sets correctV to 128·Σq, less the bias of a Form, and loads the
// rest of the Form.
func (p *prog) correction(distances bool) {
	p.op("MOVD", imm(0x80), tmp)
	p.op("VDUP", tmp, signV.as("B16"))
	p.clear(correctV)
	p.op("MOVD", query, q)
	p.op("MOVD", length, off)
	p.loop("sum")
	p.load(q, 0, 4)
	for i := range vec(4) {
		p.v(saddlp, i, i)
		p.v(sadalp, correctV, i)
	}
	p.op("SUBS", imm(64), off)
	p.op("BNE", "sum")
	p.op("VADDV", correctV.as("S4"), correctV)
	p.op("VDUP", correctV.lane(0), correctV.as("S4"))
	p.op("VSHL", imm(7), correctV.as("S4"), correctV.as("S4"))
	if distances {
		p.broadcast("bias", mask)
		p.sub(correctV, correctV, mask)
		p.broadcast("scale", scaleV)
		p.broadcast("base", baseV)
		p.broadcast("floor", floorV)
	}
}

// intChunks adds up four rows, 64 bytes at a time, and leaves the addresses of
// the rows at their ends.
func (p *prog) intChunks(l level, gather bool) {
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
	for r := range group {
		codes := vec(4 + r%2*4)
		p.load(row(r), codes, 4)
		for i := range vec(4) {
			p.eor(codes+i, codes+i, signV)
		}
		for i := range vec(4) {
			sum := rowSum + 2*vec(r)
			if l.dot {
				p.v(sdot, sum+i%2, codes+i, i)
				continue
			}
			// A product of signed bytes has 15 bits, two of them 16: no
			// saturation before SADALP widens the sum of two.
			product := 12 + i%2*2
			p.v(smull, product, codes+i, i)
			p.v(smull2, product+1, codes+i, i)
			p.v(sadalp, sum, product)
			p.v(sadalp, sum+1, product+1)
		}
	}
	p.op("ADD", imm(64), off)
	p.op("CMP", length, off)
	p.op("BLT", "chunk")
}

// finish turns four sums into distances as Form says, one operation after the
// other. The rows' addresses stand behind their scale and norm.
func (p *prog) finish(x vec) {
	for r := range group {
		p.op("FMOVD", mem(row(r), -8), vec(r).scalar()) // scale, norm
	}
	p.low64(0, 0, 1)
	p.low64(2, 2, 3)
	scale, norm := vec(4), vec(5)
	p.even(scale, 0, 2)
	p.odd(norm, 0, 2)
	p.v(scvtf, x, x)
	p.v(fmul, scale, scaleV, scale)
	p.v(fmul, x, scale, x)
	p.v(fadd, norm, baseV, norm)
	p.v(fsub, x, norm, x)
	p.v(fcmgt, mask, floorV, x) // not FMAX: x when one is NaN, as the reference does
	p.bit(x, floorV, mask)
}
